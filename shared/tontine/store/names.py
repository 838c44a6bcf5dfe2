"""What the collections are called, and the documents of `cluster`."""

from __future__ import annotations

JOBS, NODES, CLUSTER, EVENTS = "jobs", "nodes", "cluster", "events"
LOGS, SCHEDULES, SAMPLES, BELL, INBOX = "logs", "schedules", "samples", "bell", "inbox"
PLANS = "plans"
MODULES, OUTPUTS, STATES = "modules", "outputs", "states"
ROSTER, COUNTER, SETTINGS, SCHEMA = "roster", "counter", "settings", "schema"
RANGES = "ranges"
