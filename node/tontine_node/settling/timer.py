"""What time alone ends: jobs that were not started by `start_by`, and keys that were held for long enough.

The first member looks every few seconds, others now and then. Where no job asks for either, a look finds two empty
indexes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from tontine.errors import StoreError
from tontine.records.share import Share, crowd
from tontine.store import hold, late
from tontine.store.call import AsyncStore
from tontine.store.retention import Retention

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
        self._store = store
        self._share = share
        self._retention = retention
        self._note = note
        self._troubles = troubles
        self._looks = 0

    async def run(self) -> None:
        """Look for ever."""
        while True:
            share = self._share()
            is_first = share is not None and share.rank == 0
            every = FIRST_EVERY if is_first else OTHERS_EVERY * crowd(share.size if share else 0)
            await asyncio.sleep(every * random.uniform(0.8, 1.0))  # noqa: S311
            if self._share() is None:
                continue
            try:
                await self.round()
                self._troubles.over("times")
            except StoreError as error:
                self._troubles.note("times", error)
                log.warning("looking at times failed", extra={"event": "times-failed", "error": str(error)})

    async def round(self) -> None:
        """One look."""
        if count := await self._store.run(late.cancel_late(self._retention())):
            log.warning("cancelled jobs that were not started in time", extra={"event": "late", "jobs": count})
            await self._note("late", jobs=count)
        if self._looks % HOLDS_EVERY == 0:
            await self._store.run(hold.review_holds())
        self._looks += 1
