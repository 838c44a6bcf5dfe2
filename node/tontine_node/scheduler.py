"""When to fire schedules: rank 0 at their time, any other member what is still due after H. No scheduler process."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import timedelta

from tontine.config import Timing
from tontine.errors import TontineError
from tontine.share import Share, crowd
from tontine.store import schedules
from tontine.store.call import AsyncStore

from .troubles import Troubles

log = logging.getLogger(__name__)

LOOK_EVERY, OTHERS_EVERY = 4.0, 10.0
"""Seconds between looks of the first member, and of a few that stand in for it."""


class Scheduler:
    """One node's part in firing schedules; a due time is fired once, whoever tries."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        share: Callable[[], Share | None],
        fired: Callable[[], None],
        troubles: Troubles,
    ) -> None:
        self._store = store
        self._timing = timing
        self._share = share
        self._fired = fired
        self._troubles = troubles

    async def run(self) -> None:
        """Fire for ever."""
        while True:
            share = self._share()
            every, patience = LOOK_EVERY, 0.0
            if share is not None and share.rank > 0:
                every, patience = OTHERS_EVERY * crowd(share.size), self._timing.help_after
            wait = every * random.uniform(0.8, 1.0)  # noqa: S311
            try:
                if share is not None:
                    wait = min(wait, await self._round(every, patience))
                self._troubles.over("schedules")
            except TontineError as error:
                self._troubles.note("schedules", error)
                log.warning("a schedule did not fire", extra={"event": "schedule-failed", "error": str(error)})
            await asyncio.sleep(max(0.02, wait))

    async def _round(self, every: float, patience: float) -> float:
        """Fire what has been due for `patience` seconds; how long until the next look is worth it."""
        wait = every
        for schedule, now in await self._store.run(schedules.find_due(every * 1.5)):
            if schedule.next_at is None:
                continue
            left = (schedule.next_at + timedelta(seconds=patience) - now).total_seconds()
            if left > 0:
                wait = min(wait, left)
            elif self._share() is not None and await self._store.run(schedules.fire(schedule, now)) > 0:
                log.info("fired a schedule", extra={"event": "fired", "schedule": schedule.name})
                self._fired()
                wait = 0.0
        return wait
