"""Which of the jobs that a context has found may be claimed now, and what it can claim at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tontine.records.job import unfit
from tontine.records.task_key import fits, module_of, name_of
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
        versions = {one["name"]: str(one.get("version", "")) for one in self._dispatcher.modules}
        return plain | {
            key
            for key in ranges
            if name_of(key) in plain and fits(key, versions.get(module_of(key), ""))
        }

    def careful_keys(self) -> set[str]:
        """Those that must not run twice."""
        return {key for key in self.served_keys() if self._is_careful(key)}

    def open_keys(self) -> set[str]:
        """Those that may be claimed: one that must not run twice only once the record says so
        (MO7)."""
        return {
            key for key in self.served_keys() if not self._is_careful(key) or self._is_noted(key)
        }

    def _is_careful(self, key: str) -> bool:
        facts = self._dispatcher.tasks.get(name_of(key))
        return facts is not None and facts.on_lost == "fail"

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
        free = self._dispatcher.free_slots()
        taken: Jobs = []
        for job in jobs[: min(room, self._claims.affordable(len(job.raw) for job in jobs))]:
            key = job["task"]
            if name_of(key) not in self._dispatcher.tasks:
                continue  # it was found before a worker was replaced
            if self._is_careful(key):
                if not self._is_noted(key):
                    continue
                if len(taken) >= free:
                    break
            taken.append(job)
        return taken
