"""Looks after what runs: time limits, cancelling, orders stuck behind a long job, workers that are worn out."""

from __future__ import annotations

from collections.abc import Iterable

from tontine import backoff
from tontine.clock import Clock
from tontine.records.job import JobError
from tontine.store.settle import Outcome

from ..claims import Entry
from .dispatch import Supervisor
from .pool import Child

STUCK_AFTER = 0.1
EXPIRED_FOR = 1.0
"""How long an async task may take to end after its time limit."""
CANCELLED_FOR = 0.5
"""How long a task may take to end tidily after it was cancelled; then its worker is killed."""


class Limits:
    """Called a few times a second; knows what runs from the board alone."""

    def __init__(self, supervisor: Supervisor, clock: Clock) -> None:
        self._supervisor = supervisor
        self._config = supervisor.config
        self._clock = clock

    def look(self) -> None:
        """One look at every worker."""
        now = self._clock.now()
        for child in self._supervisor.children.values():
            running = self._supervisor.running_in(child)
            self._retire_if_worn(child)
            longest = max((now - since for since in running.values()), default=0.0)
            if not child.is_recalled and longest > STUCK_AFTER:
                child.recall()
            for seq, since in running.items():
                self._keep_time(child, child.sent[seq], now - since, now)

    def cancel(self, seqs: Iterable[int]) -> None:
        """End these jobs: unstarted ones at once, running ones after a moment to end tidily."""
        wanted = set(seqs)
        held = self._supervisor.held
        for entry in [entry for entry in held if entry.seq in wanted]:
            held.remove(entry)
            self._supervisor.end(entry, Outcome("cancelled", entry.seq, entry.attempt))
        for child in self._supervisor.children.values():
            mine = [seq for seq in child.sent if seq in wanted and seq not in child.ending]
            for seq in mine:
                child.ending[seq] = self._clock.now() + CANCELLED_FOR
            if mine:
                child.send({"cancel": mine})

    def _retire_if_worn(self, child: Child) -> None:
        """Replace a worker that has grown too large, once it has nothing to do."""
        limit = self._config.max_memory
        if limit is not None and child.can_work and child.memory > limit:
            child.is_retiring = True
            child.recall()
        if child.is_retiring and not child.sent:
            child.kill("it is replaced")

    def _keep_time(self, child: Child, entry: Entry, ran: float, now: float) -> None:
        facts = self._supervisor.tasks.get(entry.task)
        limit = entry.timeout or (facts.timeout if facts else None)
        is_late = limit is not None and ran > limit
        if is_late and facts and facts.is_async and entry.seq not in child.ending:
            child.ending[entry.seq] = now + EXPIRED_FOR
            child.send({"expire": [[entry.seq, limit]]})
        elif (is_late and not (facts and facts.is_async)) or now > child.ending.get(entry.seq, now):
            outcome = self._timed_out(entry, ran, limit or ran) if is_late else self._cancelled(entry, ran)
            # A sync task cannot be ended but with its worker; its neighbours go back at no cost, if they may run again.
            child.kill("a job had to be ended")
            self._supervisor.end_after_exit(child, entry, outcome)

    def _timed_out(self, entry: Entry, ran: float, limit: float) -> Outcome:
        error = JobError("TimeoutError", f"it ran longer than its time limit of {limit:g} s")
        facts = self._supervisor.tasks.get(entry.task)
        fails, allowed = entry.fails + 1, entry.max_attempts or (facts.max_attempts if facts else 1)
        if fails >= allowed or (facts and not facts.retries_timeouts):
            return Outcome("failed", entry.seq, entry.attempt, ran, error=error)
        delays = facts.delays if facts else []
        delay = delays[min(fails, len(delays)) - 1] if delays else backoff.delay_before(fails)
        return Outcome("retry", entry.seq, entry.attempt, ran, error=error, delay=delay)

    def _cancelled(self, entry: Entry, ran: float) -> Outcome:
        return Outcome(
            "cancelled", entry.seq, entry.attempt, ran, error=JobError("Cancelled", "cancelled while it ran")
        )
