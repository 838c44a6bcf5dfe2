"""What all nodes share, as this one read it last: the roster, the last number given, settings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from tontine.store import claim
from tontine.store.call import AsyncStore
from tontine.store.counter import raise_counter
from tontine.store.ranges import Ranges
from tontine.store.retention import FOR_EVER

from ..membership.member import Member
from .cadence import Cadence

READ_EVERY, READ_POLL = 5.0, 0.25
REMEMBERED_FOR = 60.0
"""Longer than a producer should need from taking a number to inserting its job."""

NEVER = float("-inf")


class Surroundings:
    """Reads them in one call, when it is time to or what is known does not lead any further."""

    def __init__(self, store: AsyncStore, cadence: Cadence, member: Member) -> None:
        self.counter = 0
        self.retention = FOR_EVER
        self.has_inbox = False
        self.states_told: Callable[[int], None] = lambda _: None
        """Hears how often named states have changed."""
        self.ranges = Ranges()
        """Which task keys with ranges may be queued."""
        self.lost_ranges = False
        """Whether what was noted of them was there, and is gone."""
        self._store = store
        self._cadence = cadence
        self._member = member
        self._read_at = NEVER
        self._counters: deque[tuple[float, int]] = deque()

    def forget(self) -> None:
        """The roster changed: read it before anything else."""
        self._read_at = NEVER

    async def read(self, *, now: bool = False) -> None:
        """Read them if it is time to, or `now`."""
        if not now and not self._cadence.is_time(self._read_at, READ_EVERY, READ_POLL):
            return
        asked_at = self._cadence.now()
        around = await self._store.run(claim.overview())
        self._read_at = asked_at
        if around.counter < self.counter:  # it was set back: numbers would be given twice
            around = replace(around, counter=await self._store.run(raise_counter(self.counter)))
        self._count(asked_at, around.counter)
        self._member.see(around.roster)
        self.retention = around.retention
        self.has_inbox = around.inbox
        self.states_told(around.state_changes)
        self.lost_ranges |= self.ranges.is_there and not around.ranges.is_there
        self.ranges = around.ranges

    def _count(self, at: float, counter: int) -> None:
        self.counter = counter
        self._counters.append((at, counter))
        while len(self._counters) > 1 and self._counters[1][0] <= at - REMEMBERED_FOR:
            self._counters.popleft()

    def counter_before(self) -> int:
        """The last number that had been given a minute ago: of those that were given since, the
        jobs may not be there yet. 0 when this node was not there."""
        if not self._counters:
            return 0
        at, counter = self._counters[0]
        return counter if at <= self._cadence.now() - REMEMBERED_FOR else 0
