"""Reconcile and repair: the rules that put right what an outage or a death left behind, run again and again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import StoreError
from tontine.store import members, settle
from tontine.store.call import AsyncStore
from tontine.store.retention import Retention

from .member import Heartbeat, Member
from .supervisor import Supervisor
from .table import Table
from .troubles import Troubles

log = logging.getLogger(__name__)

FORGET_DEAD_AFTER = 86400.0
FORGET_EVERY = 600.0


class Keeper:
    """One node's part in keeping everybody's jobs where they belong."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        beat: Heartbeat,
        member: Member,
        table: Table,
        supervisor: Supervisor,
        retention: Callable[[], Retention],
        troubles: Troubles,
    ) -> None:
        self.node = member.node
        self._store = store
        self._timing = timing
        self._clock = clock
        self._beat = beat
        self._member = member
        self._table = table
        self._supervisor = supervisor
        self._retention = retention
        self._troubles = troubles
        self._forgot_at = clock.now()

    async def run(self) -> None:
        """Keep at it for ever: often while there is something in hand, else the more rarely the more members."""
        while True:
            rounds, rarer = ((1.0, 2.0), 1.0) if len(self._table) else ((2.0, 2.5), self._member.crowd)
            await asyncio.sleep(self._timing.upkeep_every * rarer * random.uniform(*rounds))  # noqa: S311
            await self.round()

    async def reconcile(self) -> None:
        """Release what the store says is ours and the table does not know (J6). Release, never adopt."""
        held = await self._store.run(settle.find_held(self.node))
        strays = {seq: attempt for seq, attempt in held.items() if not self._table.licensed(seq, attempt)}
        # A release may land late, so until it is known to have landed these must not be claimed: a claim that finds
        # itself there already would start what the release then gives to others.
        self._table.give_back(strays)
        if not strays:
            return
        # Most of these were settled since the read; the release finds only those that were not.
        released = await self._store.run(settle.release(self.node, strays, self._retention()))
        self._table.give_back(())
        if released:
            log.warning("released claims that came to light", extra={"event": "strays", "jobs": released})

    async def repair(self, holders: Collection[str] | None = None) -> int:
        """Give back the jobs of dead nodes (J7), of those that hold any."""
        if not self._beat.has_lease():
            return 0
        repaired = await self._store.run(settle.repair(self._supervisor.careful_tasks, self._retention(), holders))
        for node, count in repaired.items():
            if count:
                log.warning("gave back a dead node's jobs", extra={"event": "repaired", "node": node, "jobs": count})
                await self._member.note("repair", node=node, jobs=count, by=self._member.name)
        return sum(repaired.values())

    async def find_cancelled(self) -> set[int]:
        """The jobs of this node whose cancelling was asked for (J8)."""
        return await self._store.run(settle.find_cancelled(self.node))

    async def forget_old_dead(self) -> None:
        """Remove records of nodes that died more than a day ago (D4)."""
        if self._clock.now() - self._forgot_at > FORGET_EVERY:
            self._forgot_at = self._clock.now()
            await self._store.run(members.forget_old_dead(FORGET_DEAD_AFTER))

    async def round(self) -> None:
        """Every rule once; a store that is away is asked again in the next round."""
        try:
            holders = await self._store.run(settle.find_holders())
            if self.node in holders:
                await self.reconcile()
            await self.repair(holders)
            await self.forget_old_dead()
            self._troubles.over("upkeep")
        except StoreError as error:
            self._troubles.note("upkeep", error)
            log.warning("upkeep failed", extra={"event": "upkeep-failed", "error": str(error)})
