"""When to accept plans: the first member at once, any other what has been lying for longer than H
(PL1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import StoreError, StoreUnavailable
from tontine.legible import legible
from tontine.records.share import Share
from tontine.store.bell import ring
from tontine.store.call import AsyncStore
from tontine.store.names import PLANS
from tontine.store.plans import accept
from tontine.store.raw import Raw
from tontine.store.retention import Retention

from ..duty import Duty, is_first
from ..loop import Loop, jittered
from ..lying import Lying, Stubborn
from ..telling.troubles import Troubles
from .advances import Advances

log = logging.getLogger(__name__)

FIRST_EVERY, OTHERS_EVERY = 1.0, 5.0
UNUSED_EVERY = 10.0
"""Where there has never been a plan, nobody pays for looking often; clients ring for the first."""
TELL_EVERY = 60.0


class Accepter:
    """Makes plans of what any driver inserted."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        share: Callable[[], Share | None],
        advances: Advances,
        retention: Callable[[], Retention],
        troubles: Troubles,
    ) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._timing = timing
        self._clock = clock
        self._share = share
        self._advances = advances
        self._retention = retention
        self._troubles = troubles
        self._duty = Duty(FIRST_EVERY, OTHERS_EVERY)
        self._is_used = False
        """Whether this node has ever seen a new plan."""
        self._lying = Lying(clock)
        self._stubborn = Stubborn(clock)
        """Plans that could not be accepted."""
        self._told_at = float("-inf")
        self._is_in_doubt = False
        """Whether a plan may have been accepted without an answer: then nobody goes on with it, and
        all owners are told to look."""

    async def run(self) -> None:
        """Accept for ever."""
        loop = Loop(
            "accepting",
            self._look,
            lambda: jittered(self._every(), least=0.95),
            self._troubles,
            "accepting plans failed",
            "accept-failed",
            wake=self.wake,
        )
        await loop.run()

    def _every(self) -> float:
        share = self._share()
        if not is_first(share) and self._lying:
            return self._timing.help_after
        every = self._duty.every(share)
        return every if self._is_used else max(every, UNUSED_EVERY)

    async def _look(self) -> float | None:
        share = self._share()
        if share is None:
            return None
        new = await self._store.run(accept.find_new(but=self._stubborn.now()))
        if self._is_in_doubt:  # what was accepted is in no look of this kind any more
            await self._store.run(ring(PLANS))
            self._is_in_doubt = False
        self._is_used = self._is_used or bool(new)
        is_at_once = is_first(share)
        mine = list(new) if is_at_once else self._lying.longer_than(self._timing.help_after, new)
        if not mine:
            return None
        if not await self._advances.all_know():
            self._tell_of_older()
            return None
        for one in mine:
            await self._accept(one)
        return 0.0 if len(mine) == accept.NEW_AT_ONCE else None

    async def _accept(self, new: Raw) -> None:
        try:
            seq = await self._store.run(accept.accept(new, self._retention()), causal=True)
        except StoreUnavailable:
            self._is_in_doubt = True
            raise
        except StoreError as error:  # what is wrong with one must not stand before the others
            self._stubborn.put_off(new)
            log.warning(
                "a plan cannot be accepted",
                extra={
                    "event": "stubborn",
                    "id": legible(new.get("_id"), 100),
                    "error": str(error),
                },
            )
            return
        if seq is not None:
            self._advances.look_at([seq])

    def _tell_of_older(self) -> None:
        now = self._clock.now()
        if now - self._told_at > TELL_EVERY:
            self._told_at = now
            log.warning(
                "plans wait: a node that is alive runs a release that knows nothing of them",
                extra={"event": "plans-wait"},
            )
