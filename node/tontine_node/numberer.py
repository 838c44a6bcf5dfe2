"""(2) When to number: rank 0 at once, any other member what has been lying for longer than H."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from typing import Any

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import StoreError
from tontine.share import Share, crowd
from tontine.store import number
from tontine.store.call import AsyncStore

from .troubles import Troubles

log = logging.getLogger(__name__)

FIRST_EVERY, OTHERS_EVERY = 1.0, 5.0
"""Seconds between looks of the first member, and of a few that stand in for it. A producer may ring the bell."""
SOON, SOON_FOR = 0.1, 60.0
"""Where one raw job came from, more come: for a minute the first member looks often."""


class Numberer:
    """Gives seqs to jobs that any driver inserted without one."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        share: Callable[[], Share | None],
        numbered: Callable[[], None],
        troubles: Troubles,
    ) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._timing = timing
        self._clock = clock
        self._share = share
        self._numbered = numbered
        self._troubles = troubles
        self._seen: dict[str, float] = {}
        self._numbered_at = float("-inf")

    async def run(self) -> None:
        """Number for ever."""
        while True:
            self.wake.clear()
            share = self._share()
            is_first = share is not None and share.rank == 0
            try:
                more = share is not None and await self._round(is_first)
                self._troubles.over("numbering")
            except StoreError as error:
                self._troubles.note("numbering", error)
                log.warning("numbering failed", extra={"event": "number-failed", "error": str(error)})
                more = False
            if not more:
                await self._rest(share)

    async def _rest(self, share: Share | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pace(share) * random.uniform(0.8, 1.0)):  # noqa: S311
                await self.wake.wait()

    def _pace(self, share: Share | None) -> float:
        if share is not None and share.rank == 0:
            return SOON if self._clock.now() - self._numbered_at < SOON_FOR else FIRST_EVERY
        return self._timing.help_after if self._seen else OTHERS_EVERY * crowd(share.size if share else 0)

    async def _round(self, at_once: bool) -> bool:
        raw = await self._store.run(number.find_raw())
        mine = raw if at_once else self._old_enough(raw)
        if mine:
            self._numbered_at = self._clock.now()
            await self._store.run(number.give_numbers(mine))
            self._numbered()
        return len(mine) == number.RAW_AT_ONCE

    def _old_enough(self, raw: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that this node has seen lying for longer than H: whoever should number them does not (F2)."""
        now = self._clock.now()
        self._seen = {(key := repr(job["_id"])): self._seen.get(key, now) for job in raw}
        return [job for job in raw if now - self._seen[repr(job["_id"])] >= self._timing.help_after]
