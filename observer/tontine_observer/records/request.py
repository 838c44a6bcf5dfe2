"""What an operator asks of nodes, jobs and plans, and what becomes of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MOST = 1000
"""Jobs in one request."""


class Phase(StrEnum):
    """How far a request is; the last four end it."""

    REQUESTED = "requested"
    ACCEPTED = "accepted"
    DONE = "done"
    CHANGED = "changed"
    REFUSED = "refused"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: pause, resume or stop of a node's id; retry or cancel of seqs of jobs, or of a
    plan."""

    verb: str
    targets: tuple[str | int, ...]
    expected: Mapping[str | int, str] = field(default_factory=dict)
    """The state in which each target was seen."""
    reason: str = ""
    is_plan: bool = False


@dataclass(frozen=True, slots=True)
class RequestProgress:
    """What became of it so far."""

    phase: Phase
    text: str
    done: int = 0
    failed: int = 0
