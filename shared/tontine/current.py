"""`current_job()`: what a running task can know and say about its own job."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from .clock import SystemClock, wall_time
from .errors import ConfigError, NoCurrentJob
from .offspring import Parent, Send, send_nowhere
from .records.counted import Noted, checked_name, checked_number
from .records.plan import PlanPlace
from .saving import Saving

log = logging.getLogger("tontine.task")

LINES_HELD = 1000
_MOST = 1.01
"""What a sum of fractions may come to."""
_warned: set[str] = set()
"""Tasks that were told so: a running job is no place to fail for it, and once is enough."""

_counting = threading.Lock()
"""Held for a moment: a task may count from several threads."""
if hasattr(os, "register_at_fork"):
    # A process that is forked while another thread counts would find it held for ever.
    os.register_at_fork(after_in_child=_counting._at_fork_reinit)  # type: ignore[attr-defined]

_current: ContextVar[CurrentJob | None] = ContextVar("tontine_current_job", default=None)


class CurrentJob(Parent):
    """The job that the calling task runs."""

    __slots__ = (
        "_begun",
        "_cancelled",
        "_deadline",
        "_document",
        "_limits",
        "_report",
        "attempt",
        "id",
        "lines",
        "newest_progress",
        "noted",
        "saving",
        "seq",
        "task",
        "unfinished_line",
    )

    def __init__(
        self,
        id: Any,
        seq: int,
        task: str,
        attempt: int,
        report: Callable[[CurrentJob, float, str], None],
        *,
        document: Mapping[str, Any] | None = None,
        limits: tuple[int, float | None] = (1, None),
        begun: float | None = None,
        submit: Send = send_nowhere,
    ) -> None:
        """`limits` are its task's attempts and time limit, `begun` is when it began by this host's
        stopwatch."""
        super().__init__(submit)
        self.id = id
        """Its `_id`."""
        self.seq = seq
        """Its number."""
        self.task = task
        """The name of the task, like `shop.resize`."""
        self.attempt = attempt
        """The fencing number of this run: it only grows from one run of a job to the next."""
        self.lines: deque[tuple[float, str]] = deque(maxlen=LINES_HELD)
        self.unfinished_line = ""
        self.newest_progress: tuple[float, str] | None = None
        """What the task said last and nobody has passed on yet."""
        self.noted: Noted | None = None
        """What it has counted and observed; None while that is nothing."""
        self.saving: Saving | None = None
        """What it keeps for its next attempt; None where its task does not say that it does."""
        self._report = report
        self._cancelled = False
        self._document = document or {}
        self._limits = limits
        self._begun = begun
        self._deadline: datetime | None = None

    def progress(self, value: float, note: str = "") -> None:
        """Say how far the job is, from 0 to 1. Cheap: only the newest value is written, now and
        then.

        More than 1 counts as 1, with a warning among the job's lines: 50 was meant as a percentage,
        most probably.
        """
        value = float(value)
        if value > _MOST and self.task not in _warned:
            _warned.add(self.task)
            log.warning(
                "progress(%g): progress goes from 0 to 1, so this is shown as 100 %%; 50 %% is 0.5",
                value,
            )
        self._report(self, min(1.0, max(0.0, value)), str(note)[:500])

    def count(self, name: str, by: float = 1) -> None:
        """Count something, like rows: `tontine stats` and `tontine metrics` show the sum over all
        jobs that got done.

        At most 20 names a job; only an attempt that succeeds counts. The sums of this job are its
        field `counts`.
        """
        known, number = checked_name(name), checked_number(f"count({name!r})", by, 0)
        with _counting:
            self._noting().count(known, number)

    def observe(self, name: str, value: float) -> None:
        """Note a value, like a duration: how many there were, their sum, least, largest and
        distribution are shown beside what is counted."""
        known, number = checked_name(name), checked_number(f"observe({name!r})", value)
        with _counting:
            self._noting().observe(known, number)

    def save(self, value: Any) -> None:
        """Keep a value, up to 64 kB, for the next attempt if there is one: how far it came. Returns
        at once; the newest is written twice a second at most, and with the end of this attempt,
        whatever that is.

        Its task must say that it saves: `@module.task(saves=True)`, or one of stages.
        """
        if self.saving is None:
            raise ConfigError(
                f"{self.task} does not say that it saves: write `@module.task(saves=True)` above it"
            )
        self.saving.save(value)

    @property
    def saved(self) -> Any:
        """What an attempt before this one has saved last; None if nothing."""
        return None if self.saving is None else self.saving.before

    def _noting(self) -> Noted:
        if self.noted is None:
            self.noted = Noted()
        return self.noted

    @property
    def key(self) -> str | None:
        """The job's key, if it has one."""
        return self._document.get("key")

    @property
    def plan(self) -> PlanPlace | None:
        """Its place in the plan that it is a job of: `seq`, `step`, `item`, `try_`, and in a
        `finally` the `outcome`; None if it is no plan's."""
        return PlanPlace.from_document(self._document.get("plan"))

    @property
    def meta(self) -> dict[str, Any]:
        """What its producer gave it along, beside the arguments; empty if nothing."""
        meta = self._document.get("meta")
        return dict(meta) if isinstance(meta, Mapping) else {}

    @property
    def created_at(self) -> datetime | None:
        """When it was submitted, in server time."""
        return self._document.get("created_at")

    @property
    def max_attempts(self) -> int:
        """How many attempts may fail: the job's own limit, else its task's."""
        return int(self._document.get("max_attempts") or self._limits[0])

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job fails for good if this attempt raises. Attempts that were lost or given
        back do not count."""
        return int(self._document.get("fails") or 0) + 1 >= self.max_attempts

    @property
    def deadline(self) -> datetime | None:
        """When its time limit ends this attempt, by this host's clock; None without a limit."""
        limit = self._document.get("timeout") or self._limits[1]
        if self._deadline is None and limit is not None:
            now = SystemClock().now()
            left = (now if self._begun is None else self._begun) + float(limit) - now
            self._deadline = datetime.fromtimestamp(wall_time(), UTC) + timedelta(seconds=left)
        return self._deadline

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
    """The job that this code runs for; outside of a running task a `NoCurrentJob`."""
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
