"""What limits a run: time, a cancelling, memory. Orders that are stuck behind a long job are called
back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tontine import backoff
from tontine.clock import Clock
from tontine.records.job import JobError
from tontine.rules import attempt
from tontine.store.settle import Outcome
from tontine.verdict import too_late

from ..claims import Entry
from .dispatch import Dispatcher
from .pipe import Expire, Orders, TaskFacts
from .process import memory_of
from .staging import time_limit
from .workload import Workload

STUCK_AFTER = 0.1
EXPIRED_FOR = 1.0
"""How long an async task may take to end after its time limit."""
CANCELLED_FOR = 0.5
"""How long a task may take to end tidily after it was cancelled; then its worker is killed."""


class Limits:
    """Looks a few times a second; knows what runs from the board alone."""

    def __init__(self, dispatchers: Iterable[Dispatcher], clock: Clock) -> None:
        self._dispatchers = list(dispatchers)
        self._clock = clock

    def look(self) -> None:
        """One look at every worker."""
        for dispatcher in self._dispatchers:
            self._look_at(dispatcher)

    def _look_at(self, dispatcher: Dispatcher) -> None:
        now = self._clock.now()
        for workload in list(dispatcher.workloads.values()):
            running = dispatcher.running_in(workload)
            _retire_if_worn(workload, dispatcher.context.max_memory)
            longest = max((now - since for since in running.values()), default=0.0)
            if not workload.is_recalled and longest > STUCK_AFTER:
                workload.recall()
            for seq, since in running.items():
                self._keep_time(workload, workload.sent[seq], now - since, now)

    def cancel(self, seqs: Iterable[int]) -> None:
        """End these jobs: unstarted ones at once, running ones after a moment to end tidily."""
        wanted = set(seqs)
        for dispatcher in self._dispatchers:
            self._cancel_in(dispatcher, wanted)

    def _cancel_in(self, dispatcher: Dispatcher, wanted: set[int]) -> None:
        held = dispatcher.held
        for entry in [entry for entry in held if entry.seq in wanted]:
            held.remove(entry)
            dispatcher.end(entry, Outcome("cancelled", entry.seq, entry.attempt))
        for workload in dispatcher.workloads.values():
            mine = [seq for seq in workload.sent if seq in wanted and seq not in workload.ending]
            for seq in mine:
                workload.ending[seq] = self._clock.now() + CANCELLED_FOR
            if mine:
                workload.child.send(Orders(cancel=mine))

    def _keep_time(self, workload: Workload, entry: Entry, ran: float, now: float) -> None:
        facts = workload.facts_of(entry)
        ran, limit = time_limit(entry, facts, ran, now)
        patience_ends = workload.ending.get(entry.seq)
        if limit is not None and ran > limit:
            if facts.is_async and patience_ends is None:
                workload.ending[entry.seq] = now + EXPIRED_FOR
                workload.child.send(Orders(expire=[Expire(entry.seq, limit)]))
            elif not facts.is_async or _is_past(patience_ends, now):
                workload.give_up(entry, _timed_out(facts, entry, ran, limit))
        elif _is_past(patience_ends, now):
            workload.give_up(entry, _cancelled(entry, ran))


def _retire_if_worn(workload: Workload, limit: int | None) -> None:
    """Replace a worker that has grown too large, once it has nothing to do."""
    if limit is not None and workload.can_work and memory_of(workload.child.process.pid) > limit:
        workload.retire()
    workload.end_if_retired()


def _timed_out(facts: TaskFacts, entry: Entry, ran: float, limit: float) -> Outcome:
    fails = entry.fails + 1
    again_in = attempt.again_in(
        fails,
        attempt.allowed(entry.max_attempts, facts.max_attempts),
        may_help=facts.retries_timeouts,
        delay=lambda: _delay_before(fails, facts.delays),
    )
    error = JobError("TimeoutError", str(too_late(limit)))
    if again_in is None:
        return Outcome("failed", entry.seq, entry.attempt, ran, error=error)
    return Outcome("retry", entry.seq, entry.attempt, ran, error=error, delay=again_in)


def _is_past(deadline: float | None, now: float) -> bool:
    return deadline is not None and now > deadline


def _cancelled(entry: Entry, ran: float) -> Outcome:
    error = JobError("Cancelled", "cancelled while it ran")
    return Outcome("cancelled", entry.seq, entry.attempt, ran, error=error)


def _delay_before(fails: int, delays: Sequence[float]) -> float:
    """What the worker said of the task's backoff; the longest that it said for all that come
    after."""
    if not delays:
        return backoff.delay_before(fails)
    return delays[min(fails, len(delays)) - 1]
