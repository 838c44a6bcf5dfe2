"""Looks: whatever was left undone of a plan is found by its owner, or by another member (PL8)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import StoreError
from tontine.records.share import Share
from tontine.store.bell import Hint, ring
from tontine.store.call import AsyncStore
from tontine.store.names import PLANS
from tontine.store.plans import read

from ..loop import Loop, jittered
from ..membership.member import Member
from ..telling.troubles import Troubles
from .advances import Advances

ALL_EVERY = 300.0
AT_MOST_EVERY = 10.0
"""Of full looks."""
ACTIVE_FOR = 600.0
"""Seconds after a plan was last heard of: after that, only every full look asks for any."""


class Onlooker:
    """One member's part in keeping plans going whose settler, or releaser, died."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        member: Member,
        advances: Advances,
        troubles: Troubles,
    ) -> None:
        self.wake = asyncio.Event()
        self.repair: Callable[[], Awaitable[Any]] = _nothing
        """Gives back the jobs of dead nodes."""
        self._store = store
        self._timing = timing
        self._clock = clock
        self._member = member
        self._advances = advances
        self._troubles = troubles
        self._epoch = -1
        self._others: frozenset[str] = frozenset()
        self._is_wanted = True
        self._someone_died = self._has_changed_jobs = False
        self._looked_at = self._looked_elsewhere_at = float("-inf")

    def take_hint(self, hint: Hint) -> None:
        """The bell names a plan, or all of them."""
        share = self._member.own_share()
        if hint.first is not None:
            if share is not None and share.owns(hint.first):
                self._advances.look_at([hint.first])
        elif not hint.is_fresh:
            self._is_wanted = True
            self.wake.set()

    def repaired(self) -> None:
        """Jobs of the dead went back, or failed: perhaps of plans, and then all owners look."""
        if self._is_active():
            self._has_changed_jobs = self._is_wanted = True
            self.wake.set()

    async def run(self) -> None:
        """Look for ever."""
        loop = Loop(
            "looking at plans",
            self._look,
            lambda: jittered(self._timing.upkeep_every * self._member.crowd),
            self._troubles,
            "looking at plans failed",
            "plan-look-failed",
            wake=self.wake,
        )
        await loop.run(rests_first=True)

    def _is_active(self) -> bool:
        return self._clock.now() - self._advances.last_at < ACTIVE_FOR

    async def _look(self) -> None:
        share = self._member.own_share()
        if share is None:
            return
        self._see_changes(share)
        now = self._clock.now()
        since = now - self._looked_at
        if since > ALL_EVERY or (self._is_wanted and since > AT_MOST_EVERY):
            await self._look_at_all(share)
        elif self._is_active():
            found = await self._store.run(read.find_unsettled(share.query()))
            self._advances.look_at(found)
        if now - self._looked_elsewhere_at > ALL_EVERY and share.size > 1:
            self._looked_elsewhere_at = now
            other = Share(share.epoch, random.randrange(share.size), share.size)  # noqa: S311
            self._advances.look_at(await self._store.run(read.find_open(other.query())))

    def _see_changes(self, share: Share) -> None:
        """A new epoch, or a death, of a member or of any other node."""
        others = self._member.others
        if self._others - others:
            self._someone_died = self._is_wanted = True
        if share.epoch != self._epoch:
            self._is_wanted = True
        self._epoch, self._others = share.epoch, others

    async def _look_at_all(self, share: Share) -> None:
        if self._someone_died:
            await self.repair()  # what the dead held is in nobody's hands before its plan is read
            self._someone_died = False
        if self._has_changed_jobs:
            self._has_changed_jobs = False
            await self._store.run(ring(PLANS))
        self._is_wanted, self._looked_at = False, self._clock.now()
        try:
            found = await self._store.run(read.find_open(share.query()))
        except StoreError:
            self._is_wanted = True  # after a death nobody else may do it
            raise
        self._advances.look_at(found)


async def _nothing() -> None: ...
