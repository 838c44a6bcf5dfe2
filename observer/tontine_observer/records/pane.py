"""What there is to look at, and one thing in it that an alert or a change is about. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Pane(StrEnum):
    """What there is to look at; also where an alert leads, and what can be dirty."""

    NODES = "nodes"
    SHARES = "shares"
    FLOW = "flow"
    JOBS = "jobs"
    CHANGES = "changes"
    TIME = "time"
    FAILURES = "failures"
    TASKS = "tasks"
    SCHEDULES = "schedules"
    MODULES = "modules"
    PLANS = "plans"


@dataclass(frozen=True, slots=True)
class Target:
    """What `enter` on an alert or a change shows: a pane, and the row in it (node id, rank, seq or
    task as text)."""

    pane: Pane
    key: str = ""
    filter: str = ""
    """For the jobs pane: a filter text that finds what is meant."""
