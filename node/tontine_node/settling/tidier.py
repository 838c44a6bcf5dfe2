"""Outputs of stages that nobody goes on from any more: one member removes them, once an hour
(ME7)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tontine.records.share import Share
from tontine.store import outputs
from tontine.store.call import AsyncStore

from ..duty import Duty
from ..loop import Loop, jittered
from ..telling.troubles import Troubles

log = logging.getLogger(__name__)

FIRST_EVERY, OTHERS_EVERY = 3600.0, 4 * 3600.0
AFTER_START = 300.0
"""Also where no node lives for an hour."""


class Tidier:
    """One node's part in it. A job that is put back while this runs begins at an earlier stage."""

    def __init__(
        self, store: AsyncStore, share: Callable[[], Share | None], troubles: Troubles
    ) -> None:
        self._duty = Duty(FIRST_EVERY, OTHERS_EVERY)
        self._store = store
        self._share = share
        self._troubles = troubles
        self._has_looked = False

    async def run(self) -> None:
        """Look for ever."""
        loop = Loop(
            "outputs",
            self._look,
            self._pause,
            self._troubles,
            "removing old outputs failed",
            "tidying-failed",
        )
        await loop.run(rests_first=True)

    def _pause(self) -> float:
        every = self._duty.every(self._share())
        return jittered(every if self._has_looked else min(AFTER_START, every))

    async def _look(self) -> None:
        self._has_looked = True
        if self._share() is None:
            return
        if count := await self._store.run(outputs.remove_old_outputs()):
            log.info("removed old outputs", extra={"event": "tidied", "documents": count})
