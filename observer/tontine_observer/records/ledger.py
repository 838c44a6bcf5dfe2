"""What is read only while somebody looks at it: failures by their kind, tasks, schedules,
modules, plans. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from .job import JobRow
from .plan import PlanRow


@dataclass(frozen=True, slots=True)
class Failed:
    """One job that failed."""

    seq: int
    task: str
    kind: str
    message: str
    at: float


@dataclass(frozen=True, slots=True)
class FailureRow:
    """Failures of one task with one error, whatever numbers its message has."""

    task: str
    kind: str
    message: str
    """Without its numbers."""
    first: float | None
    last: float | None
    """When; None where all of them are tried again, of which nobody noted when they failed."""
    count: int
    curve: tuple[float, ...]
    """How many, over the time that was looked at."""
    seqs: tuple[int, ...]
    """The newest of the failed jobs: as many as can be asked something at once."""
    again: tuple[JobRow, ...] = ()
    """Jobs that failed like this and have another attempt before them."""

    @property
    def key(self) -> str:
        return f"{self.task}\n{self.kind}\n{self.message}"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task: what waits, what ended lately and how, and who has it."""

    name: str
    queued: int | None
    working: int
    rate: float | None
    """Ended in a second, over the time that is known."""
    failing: float | None
    """The part of these that failed."""
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None
    nodes: tuple[str, ...]
    versions: tuple[str, ...]
    is_partial: bool = False
    """Whether more may be queued."""


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One schedule: when, what, how it went last and when it is due next."""

    name: str
    task: str
    when: str
    is_off: bool
    next_at: datetime | None
    last_state: str
    last_at: datetime | None
    last_seq: int | None
    note: str
    """What is odd about it."""
    is_usable: bool = True
    """False where its document is none, or where it was removed."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many jobs wait for a range of versions."""

    jobs: int
    is_partial: bool = False
    """Whether there may be more."""


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of a module on all nodes that have it; or a range of versions that jobs wait
    for."""

    module: str
    version: str
    state: str
    """The worst that any of them is in."""
    nodes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """States of the rest of them, and how many are in each."""
    tasks: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    note: str = ""
    wanted: Wanted | None = None

    @property
    def key(self) -> str:
        return f"{self.module}\n{self.version}\n{self.tasks if self.wanted else ''}"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The last that was read of each; None before it was read."""

    version: int = 0
    failures: tuple[FailureRow, ...] | None = None
    failures_note: str = ""
    queued: Mapping[str, int] | None = None
    is_queued_whole: bool = True
    schedules: tuple[ScheduleRow, ...] | None = None
    wanted: Mapping[str, Wanted] | None = None
    """Task keys with a range that no member offers, and the jobs that wait for it."""
    plans: tuple[PlanRow, ...] | None = None
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why one of them could not be read, by its pane."""
