"""`current_job()`: what a running task can know and say about its own job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from .errors import NoCurrentJob

_current: ContextVar[CurrentJob] = ContextVar("tontine_current_job")


class CurrentJob:
    """The job that the calling task runs."""

    __slots__ = ("_cancelled", "_report", "attempt", "id", "seq", "task")

    def __init__(
        self, id: Any, seq: int, task: str, attempt: int, report: Callable[[CurrentJob, float, str], None]
    ) -> None:
        self.id = id
        self.seq = seq
        self.task = task
        self.attempt = attempt
        self._report = report
        self._cancelled = threading.Event()

    def progress(self, value: float, note: str = "") -> None:
        """Say how far the job is, from 0 to 1. Cheap: only the newest value is written, now and then."""
        self._report(self, min(1.0, max(0.0, float(value))), str(note)[:500])

    @property
    def cancelled(self) -> bool:
        """True once cancelling was asked for: a task that looks can end early and tidily."""
        return self._cancelled.is_set()

    def mark_cancelled(self) -> None:
        self._cancelled.set()


def current_job() -> CurrentJob:
    """The job that this code runs for."""
    try:
        return _current.get()
    except LookupError:
        raise NoCurrentJob("current_job() works only inside a running task") from None


def enter(job: CurrentJob) -> None:
    """Make `job` the current one of this context (called by workers before they run a task)."""
    _current.set(job)
