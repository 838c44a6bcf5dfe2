"""`current_job()`: what a running task can know and say about its own job."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from .clock import wall_time
from .errors import NoCurrentJob
from .offspring import Parent, Send, send_nowhere

LINES_HELD = 1000

_current: ContextVar[CurrentJob | None] = ContextVar("tontine_current_job", default=None)


class CurrentJob(Parent):
    """The job that the calling task runs."""

    __slots__ = ("_cancelled", "_report", "attempt", "id", "lines", "seq", "task", "unfinished_line")

    def __init__(
        self,
        id: Any,
        seq: int,
        task: str,
        attempt: int,
        report: Callable[[CurrentJob, float, str], None],
        submit: Send = send_nowhere,
    ) -> None:
        super().__init__(submit)
        self.id = id
        self.seq = seq
        self.task = task
        self.attempt = attempt
        self.lines: deque[tuple[float, str]] = deque(maxlen=LINES_HELD)
        self.unfinished_line = ""
        self._report = report
        self._cancelled = False

    def progress(self, value: float, note: str = "") -> None:
        """Say how far the job is, from 0 to 1. Cheap: only the newest value is written, now and then."""
        self._report(self, min(1.0, max(0.0, float(value))), str(note)[:500])

    @property
    def cancelled(self) -> bool:
        """True once cancelling was asked for: a task that looks can end early and tidily."""
        return self._cancelled

    def mark_cancelled(self) -> None:
        self._cancelled = True

    def add_line(self, text: str) -> None:
        """Keep a line with the job, as printing or logging it does."""
        self.lines.append((wall_time(), text))


def current_job() -> CurrentJob:
    """The job that this code runs for."""
    job = _current.get()
    if job is None:
        raise NoCurrentJob("current_job() works only inside a running task")
    return job


def running_job() -> CurrentJob | None:
    """The job that this code runs for, if it does."""
    return _current.get()


def enter(job: CurrentJob | None) -> None:
    """Make `job` the current one of this context (called before a task is run)."""
    _current.set(job)
