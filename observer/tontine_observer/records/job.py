"""One job as people see it: its row in a list, and its page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from tontine.records.states import FINAL

_ENDED = frozenset(state.value for state in FINAL)


class JobRow(NamedTuple):
    """One job as the window knows it. Moments are the server's, in seconds since 1970, so a row
    never ages.

    A tuple, because thousands are made every second: a frozen dataclass takes five times as long to
    make.
    """

    id: str
    seq: int | None
    task: str
    state: str
    node: str = ""
    """The holder's node id."""
    attempt: int = 0
    fails: int = 0
    lost: int = 0
    priority: int = 0
    key: str = ""
    cancel: bool = False
    run_at: float | None = None
    created_at: float | None = None
    claimed_at: float | None = None
    """When the claim was seen; None when it was older than the observer."""
    started_at: float | None = None
    finished_at: float | None = None
    progress: float | None = None
    progress_note: str = ""
    error: str = ""
    """Type and message in one line."""
    schedule: str = ""
    """The schedule that inserted it."""

    @property
    def is_open(self) -> bool:
        return self.state not in _ENDED

    @property
    def due_at(self) -> float | None:
        return self.run_at if self.run_at is not None else self.created_at

    @property
    def ran(self) -> float | None:
        """Seconds it ran, once it has ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0.0, self.finished_at - self.started_at)


@dataclass(frozen=True, slots=True)
class JobList:
    """The jobs that are known at the moment, by seq; and whether these are all."""

    rows: tuple[JobRow, ...] = ()
    is_complete: bool = True
    """Whether every unfinished job is among them."""
    is_whole: bool = True
    """Whether every job there is is among them."""
    ended_since: float = 0.0
    """Every job that has ended since this moment is among them."""
    found: Mapping[Any, JobRow] = field(default_factory=dict)
    """Those that the store found, as they were then."""
    note: str = ""
    """What is missing and why, in one line: `older than what is kept`, `jobs may not be read: ...`.
    """


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job, as far as anything of it is left."""

    number: int
    text: str
    error: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class StageRow:
    """One stage of a job. Of one that is done the job keeps how; of the others only the name is
    known."""

    name: str
    state: str
    """As of a job; empty when it was not begun."""
    attempt: int = 0
    ms: int | None = None
    bytes: int | None = None
    """Of its output."""
    parts: int = 0
    version: str = ""
    node: str = ""
    """The name of the node that ran it."""


LogLine = tuple[datetime, int, str]
"""When, in which attempt, what."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """One job whole, read when it was asked for."""

    at: datetime
    row: JobRow
    owner: str
    """The name of the member whose share it is in."""
    holder: str
    why: tuple[tuple[str, str], ...]
    """Sentences, and the advice to each."""
    attempts: tuple[Attempt, ...]
    logs: tuple[LogLine, ...]
    facts: tuple[tuple[str, str], ...]
    """Every other field of the document, those this version does not know included."""
    args: str
    result: str
    """Both redacted; hidden until they are asked for."""
    family: tuple[tuple[str, str], ...] = ()
    """The job whose task submitted it, and those that its own has submitted."""
    stages: tuple[StageRow, ...] = ()
    saved: str = ""
    """What its task saved last; redacted and hidden like arguments and result."""
