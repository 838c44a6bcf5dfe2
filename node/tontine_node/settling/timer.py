"""What time alone ends: jobs that were not started by `start_by`, and keys that were held for long
enough.

The first member looks every few seconds, others now and then. Where no job has ever asked for
either, a look is one small read.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from tontine.records.share import Share
from tontine.store import hold, late
from tontine.store.call import AsyncStore
from tontine.store.retention import Retention

from ..duty import Duty
from ..loop import Loop, jittered
from ..telling.troubles import Troubles

log = logging.getLogger(__name__)

FIRST_EVERY, OTHERS_EVERY = 8.0, 20.0
"""Seconds between looks of the first member, and of a few that stand in for it."""
HOLDS_EVERY = 3
"""Of so many looks one is also for keys: those who want one back mostly see to it themselves."""


class Timer:
    """One node's part in it; every write is conditional on the server's clock, whoever makes it."""

    def __init__(
        self,
        store: AsyncStore,
        share: Callable[[], Share | None],
        retention: Callable[[], Retention],
        note: Callable[..., Awaitable[Any]],
        troubles: Troubles,
    ) -> None:
        self._duty = Duty(FIRST_EVERY, OTHERS_EVERY)
        self._store = store
        self._share = share
        self._retention = retention
        self._note = note
        self._troubles = troubles
        self._looks = 0

    async def run(self) -> None:
        """Look for ever."""
        loop = Loop(
            "times",
            self._look,
            self._pause,
            self._troubles,
            "looking at times failed",
            "times-failed",
        )
        await loop.run(rests_first=True)

    def _pause(self) -> float:
        return jittered(self._duty.every(self._share()))

    async def _look(self) -> None:
        if self._share() is None:
            return
        if count := await self._store.run(late.cancel_late(self._retention())):
            log.warning(
                "cancelled jobs that were not started in time",
                extra={"event": "late", "jobs": count},
            )
            await self._note("late", jobs=count)
        if self._looks % HOLDS_EVERY == 0:
            await self._store.run(hold.review_holds())
        self._looks += 1
