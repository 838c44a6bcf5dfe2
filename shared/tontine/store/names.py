"""What the collections are called, and the documents of `cluster`."""

from __future__ import annotations

JOBS, NODES, CLUSTER, EVENTS = "jobs", "nodes", "cluster", "events"
LOGS, SCHEDULES, SAMPLES, BELL = "logs", "schedules", "samples", "bell"
ROSTER, COUNTER, SETTINGS, SCHEMA = "roster", "counter", "settings", "schema"
