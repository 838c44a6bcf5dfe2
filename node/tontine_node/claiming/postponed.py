"""Looks for the jobs of a context that have a time or a priority of their own (F5 a, MS6)."""

from __future__ import annotations

from tontine.records.share import crowd
from tontine.store import postponed
from tontine.store.call import AsyncStore
from tontine.store.raw import Some

from ..running.dispatch import Dispatcher
from .cadence import Cadence
from .choice import Choice, Jobs
from .lanes import Lanes
from .surroundings import NEVER

SOON = 0.05
"""When a look found as much as it could take, the next one is due this soon."""
DUE_EVERY, DUE_POLL, DUE_AGAIN = 5.0, 0.5, 0.2
RANKED_EVERY, RANKED_POLL = 5.0, 0.25


class PostponedLook:
    """Each of its looks has a pace of its own."""

    def __init__(
        self,
        store: AsyncStore,
        cadence: Cadence,
        dispatcher: Dispatcher,
        lanes: Lanes,
        choice: Choice,
    ) -> None:
        self.next_due = float("inf")
        """When the next postponed job of the share that we know of is due."""
        self._store = store
        self._cadence = cadence
        self._dispatcher = dispatcher
        self._lanes = lanes
        self._choice = choice
        self._due_at = self._ranked_at = self._low_at = NEVER
        self._lows: Jobs = []

    def due_in(self, delay: float) -> None:
        """A job went back to the queue, and is due so many seconds from now."""
        self.next_due = min(self.next_due, self._cadence.now() + delay)

    def start_again(self) -> None:
        """Other jobs may be the node's now."""
        self._due_at, self.next_due = NEVER, float("inf")

    def look_for_suspects(self) -> None:
        """One can be claimed again. They come one at a time: without this, each would wait for the
        next slow look."""
        if self._choice.passed_over and self._dispatcher.takes_suspects:
            self._choice.passed_over = False
            self.next_due = self._cadence.now()
            self._low_at = NEVER

    async def ranked(self, room: int, hurry: bool) -> Jobs:
        """Jobs of the shares with a priority above zero, highest first; when nothing else is left,
        also below."""
        low = self._lanes.is_exhausted
        last, every = self._ranked_at, RANKED_POLL
        if low:
            last, every = self._low_at, RANKED_EVERY * self._crowd
        if not hurry and not self._cadence.is_time(last, every, RANKED_POLL):
            return []
        suspects = self._dispatcher.takes_suspects
        self._choice.passed_over = self._choice.passed_over or (low and not suspects)
        answer = await self._store.run(
            postponed.find_ranked(self._lanes.parts(), room, low=low, suspects=suspects)
        )
        self._ranked_at = self._cadence.now()
        if low:
            self._low_at = self._ranked_at - (every - SOON if answer else 0.0)
        elif _is_all_it_could_be(answer, room):
            self._ranked_at -= every - SOON
        found = self._choice.fit(answer)
        self._lows = [job for job in found if (job["priority"] or 0) < 0]
        return [job for job in found if (job["priority"] or 0) >= 0]

    async def due(self, room: int, hurry: bool) -> Jobs:
        """Postponed jobs of the shares whose time has come; also notes when the next one's will."""
        now = self._cadence.now()
        every = DUE_EVERY * self._crowd
        due = now >= self.next_due or self._cadence.is_time(self._due_at, every, DUE_POLL)
        if not due and hurry:
            due = now - self._due_at >= DUE_AGAIN
            self.due_in(DUE_AGAIN)
        if not due:
            return []
        self._due_at, self.next_due = now, float("inf")
        suspects = self._dispatcher.takes_suspects
        self._choice.passed_over = self._choice.passed_over or not suspects
        answer = await self._store.run(
            postponed.find_due(self._lanes.parts(), every * 1.5, room, suspects=suspects)
        )
        found = self._choice.fit(answer)
        waits = [job["wait"] / 1000 for job in found]
        later = [wait for wait in waits if wait > 0]
        if later:
            self.due_in(later[0])
        elif _is_all_it_could_be(answer, room):
            self.due_in(SOON)
        return [job for job, wait in zip(found, waits, strict=True) if wait <= 0]

    def take_lows(self) -> Jobs:
        """Jobs with a priority below zero that were found of late, once."""
        lows, self._lows = self._lows, []
        return lows

    @property
    def _crowd(self) -> float:
        """How much rarer than a few each of many looks for what any of those with the same tasks
        would help with."""
        return crowd(self._lanes.fewest)


def _is_all_it_could_be(answer: Some, room: int) -> bool:
    """Whether there may be more of the same."""
    return answer.is_cut or len(answer) == room
