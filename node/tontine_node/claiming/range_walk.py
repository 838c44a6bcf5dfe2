"""Keeps the list of ranges right: one member walks through the tasks that are queued (MV3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from tontine.clock import Clock
from tontine.records.share import Share, crowd
from tontine.records.states import JobState
from tontine.store import ranges, repair
from tontine.store.call import AsyncStore
from tontine.store.retention import Retention

from ..duty import is_first
from ..loop import Loop, jittered
from ..telling.troubles import Troubles
from .surroundings import Surroundings

log = logging.getLogger(__name__)

LOOK_EVERY = 10.0
FIRST_AFTER, OTHERS_AFTER = 60.0, 90.0
"""How old the last walk may become, for the first member and for others in its place."""
UNUSED_EVERY = 600.0
"""How often to walk where nobody has ever noted a range, for others, whom nothing tells that the
first member does, and for the first as long as no numbers are given."""


class RangeWalk:
    """One member's part in it. It is known from what is read anyway whether it is time to."""

    def __init__(
        self,
        store: AsyncStore,
        clock: Clock,
        share: Callable[[], Share | None],
        surroundings: Surroundings,
        server_now: Callable[[], datetime | None],
        retention: Callable[[], Retention],
        troubles: Troubles,
    ) -> None:
        self._store = store
        self._clock = clock
        self._share = share
        self._surroundings = surroundings
        self._server_now = server_now
        self._retention = retention
        self._troubles = troubles
        self._walked_at = clock.now()
        self._counter = self._walked_to = -1
        """The last number given as it was at the last look, and the last that a walk has seen the
        job of."""

    async def run(self) -> None:
        """Look for ever whether it is time to."""
        loop = Loop(
            "ranges",
            self._look,
            lambda: jittered(LOOK_EVERY),
            self._troubles,
            "walking through the ranges failed",
            "ranges-failed",
        )
        await loop.run(rests_first=True)

    async def _look(self) -> None:
        share = self._share()
        # Of numbers that were given since the last look, the jobs may not be there yet.
        before, self._counter = self._counter, self._surroundings.counter
        if share is not None and self._is_time(share):
            self._walked_at = self._clock.now()
            await self.walk()
            self._walked_to = before

    def _is_time(self, share: Share) -> bool:
        known, first = self._surroundings.ranges, is_first(share)
        if not known.is_there:
            is_news = first and self._surroundings.counter != self._walked_to
            every = FIRST_AFTER if is_news else UNUSED_EVERY * (1 if first else crowd(share.size))
            return self._surroundings.lost_ranges or self._clock.now() - self._walked_at >= every
        now = self._server_now()
        if known.checked_at is None or now is None:
            return known.checked_at is None
        age = (now - known.checked_at).total_seconds()
        # One that is far ahead is not of this clock: a walk puts it right, too.
        return age >= (FIRST_AFTER if first else OTHERS_AFTER) or age < -OTHERS_AFTER

    async def walk(self) -> None:
        """Put the list right, and fail what nobody can ever run."""
        known = self._surroundings.ranges
        seen = await self._store.run(ranges.walk())
        # One that was lost is made again, also empty: clients do not note again what they noted.
        if seen.keys or known.is_there or self._surroundings.lost_ranges:
            await self._store.run(ranges.put_right(seen.keys, known.checked_at))
        self._surroundings.lost_ranges = False
        for task, reason in seen.unreadable.items():
            queued = {"state": JobState.QUEUED.value, "task": task}
            failed = await self._store.run(repair.set_aside(queued, reason, self._retention()))
            log.warning(
                "failed jobs whose range of versions cannot be read",
                extra={"event": "set-aside", "jobs": failed, "reason": reason},
            )
