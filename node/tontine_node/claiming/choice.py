"""Which of the jobs that a context has found may be claimed now, and what it can claim at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tontine.records.job import unfit
from tontine.records.task_key import module_of, name_of
from tontine.store.raw import Raw

from ..claims import Claims
from ..running.dispatch import Dispatcher

Jobs = list[Raw]


class Choice:
    """Knows what the context's workers have now."""

    def __init__(
        self,
        claims: Claims,
        dispatcher: Dispatcher,
        is_noted: Callable[[str], bool],
        ranges: Callable[[], Collection[str]],
    ) -> None:
        """`ranges` tells which task keys with a range may be queued."""
        self.odd: list[tuple[Raw, str]] = []
        """Jobs that were found and cannot be claimed by anybody, and why."""
        self.passed_over = False
        """Whether there may be suspects that were found, or not looked for, while none could be
        claimed."""
        self._claims = claims
        self._dispatcher = dispatcher
        self._is_noted = is_noted
        self._ranges = ranges

    def served_keys(self) -> set[str]:
        """The task keys that the context's workers can run."""
        plain = set(self._dispatcher.tasks)
        if not (ranges := self._ranges()):
            return plain
        return plain | {key for key in ranges if self._dispatcher.serves(key)}

    def careful_keys(self) -> set[str]:
        """Those that must not run twice."""
        careful = self._careful_tasks()
        return {key for key in self.served_keys() if name_of(key) in careful} if careful else set()

    def open_keys(self) -> set[str]:
        """Those that may be claimed: one that must not run twice only once the record says so
        (MO7), and any only once the states of its module were read (MT2)."""
        unnoted = {key for key in self.careful_keys() if not self._is_noted(key)}
        served = self.served_keys() - unnoted
        if unread := self._dispatcher.unread():
            served = {key for key in served if module_of(key) not in unread}
        return served

    def _careful_tasks(self) -> set[str]:
        return set(self._dispatcher.careful_tasks)

    def fit(self, jobs: Jobs) -> Jobs:
        """Those that can be claimed; the others are remembered, to be set aside."""
        fit = []
        for job in jobs:
            if (reason := unfit(job)) is None:
                fit.append(job)
            else:
                self.odd.append((job, reason))
        return fit

    def takeable(self, jobs: Sequence[Raw], room: int) -> Jobs:
        """The first of these that may be claimed now: a task that must not run twice is never
        claimed ahead of a slot.

        When a node dies, nobody can tell which of the jobs it held had started, so all of such a
        task are failed.
        """
        free, careful = self._dispatcher.free_slots(), self._careful_tasks()
        taken: Jobs = []
        for job in jobs[: min(room, self._claims.affordable(len(job.raw) for job in jobs))]:
            key, name = job["task"], name_of(job["task"])
            if not self._dispatcher.serves(key):
                continue  # it was found before a worker was replaced
            if name in careful:
                if not self._is_noted(key):
                    continue
                if len(taken) >= free:
                    break
            taken.append(job)
        return taken
