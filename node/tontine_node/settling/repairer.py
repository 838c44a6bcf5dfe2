"""Reconcile and repair: the rules that put right what an outage or a death left behind, run again
and again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import StoreError
from tontine.records.job import is_text, is_whole, unfit
from tontine.store import members, repair, settle
from tontine.store.call import AsyncStore
from tontine.store.raw import identity
from tontine.store.retention import Retention

from ..claims import Claims
from ..loop import Loop, jittered
from ..membership.heartbeat import Heartbeat
from ..membership.member import Member
from ..running.contexts import Contexts
from ..telling.troubles import Troubles

log = logging.getLogger(__name__)

FORGET_DEAD_AFTER = 86400.0
FORGET_EVERY = 600.0
UNOWNED_EVERY = 60.0


class Repairer:
    """One node's part in keeping everybody's jobs where they belong."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        beat: Heartbeat,
        member: Member,
        claims: Claims,
        contexts: Contexts,
        retention: Callable[[], Retention],
        troubles: Troubles,
    ) -> None:
        self.node = member.node
        self._store = store
        self._timing = timing
        self._clock = clock
        self._beat = beat
        self._member = member
        self._claims = claims
        self._contexts = contexts
        self._retention = retention
        self._troubles = troubles
        self._forgot_at = clock.now()
        self._sought_at = float("-inf")
        self._has_failed = False
        self.repaired: Callable[[], None] = lambda: None
        """Hears that jobs which nobody settles went back, or ended with that: those of the dead,
        and what this node held without knowing it."""

    async def run(self) -> None:
        """Keep at it for ever: often while there is something in hand, else the more rarely the
        more members."""
        loop = Loop(
            "upkeep",
            self._round,
            self._pause,
            self._troubles,
            "upkeep failed",
            "upkeep-failed",
            is_well=lambda: not self._has_failed,
        )
        await loop.run(rests_first=True)

    def _pause(self) -> float:
        every = self._timing.upkeep_every
        if len(self._claims):
            return jittered(2.0 * every, least=0.5)
        return jittered(2.5 * every * self._member.crowd)

    async def reconcile(self) -> None:
        """Release what the store says is ours and the table does not know (J6). Release, never
        adopt."""
        held = await self._store.run(settle.find_held(self.node))
        for job in held.odd:  # nothing that this node sends can match it
            if is_whole(seq := job.get("seq")) and int(seq) in self._claims:
                continue  # it still runs here: first its result is refused
            mine = {**identity(job), "state": "working", "node": self.node}
            await self._store.run(
                repair.set_aside(mine, unfit(job) or "it cannot be settled", self._retention())
            )
        strays = {
            seq: attempt
            for seq, attempt in held.attempts.items()
            if not self._claims.licensed(seq, attempt)
        }
        # A release may land late, so until it is known to have landed these must not be claimed: a
        # claim that finds itself there already would start what the release then gives to others.
        self._claims.give_back(strays)
        if not strays:
            return
        # Most of these were settled since the read; the release finds only those that were not.
        released = await self._store.run(
            repair.release_strays(self.node, strays, self._retention())
        )
        self._claims.give_back(())
        if released:
            log.warning(
                "released claims that came to light", extra={"event": "strays", "jobs": released}
            )
            self.repaired()

    async def repair(self, holders: Collection[Any] | None = None) -> int:
        """Give back the jobs of dead nodes (J7), of those that hold any."""
        if not self._beat.has_lease():
            return 0
        repaired = await self._store.run(
            repair.repair(self._contexts.careful_tasks, self._retention(), holders)
        )
        for node, count in repaired.items():
            if count:
                log.warning(
                    "gave back a dead node's jobs",
                    extra={"event": "repaired", "node": node, "jobs": count},
                )
                await self._member.note("repair", node=node, jobs=count, by=self._member.name)
        if any(repaired.values()):
            self.repaired()
        return sum(repaired.values())

    async def forget_old_dead(self) -> None:
        """Remove records of nodes that died more than a day ago (D4)."""
        if self._clock.now() - self._forgot_at > FORGET_EVERY:
            self._forgot_at = self._clock.now()
            await self._store.run(members.forget_old_dead(FORGET_DEAD_AFTER))

    async def repair_unowned(self, holders: Collection[Any]) -> None:
        """Give back jobs that are held by what is no node; at once when it shows among the
        holders."""
        now = self._clock.now()
        is_seen = not all(is_text(holder) and not repair.is_mangled(holder) for holder in holders)
        if self._beat.has_lease() and (
            is_seen or now - self._sought_at > UNOWNED_EVERY * self._member.crowd
        ):
            self._sought_at = now
            if count := await self._store.run(repair.repair_unowned(self._retention())):
                log.warning(
                    "gave back jobs that no node can hold",
                    extra={"event": "unowned", "jobs": count},
                )

    async def _round(self) -> None:
        """Every rule once, whatever becomes of the others; what failed is tried again in the next
        round."""
        self._has_failed = False
        holders = await self._store.run(repair.find_holders())
        rules: list[Callable[[], Awaitable[Any]]] = [
            partial(self.repair, holders),
            partial(self.repair_unowned, holders),
            self.forget_old_dead,
        ]
        if self.node in holders:
            rules.insert(0, self.reconcile)
        for rule in rules:
            try:
                await rule()
            except StoreError as error:
                self._note_failure(error)
                log.warning("upkeep failed", extra={"event": "upkeep-failed", "error": str(error)})
            except Exception as error:
                # The top of this loop: one rule that stumbles over what somebody wrote must not
                # stop the others.
                self._note_failure(repr(error))
                log.exception("upkeep failed", extra={"event": "upkeep-failed"})

    def _note_failure(self, why: object) -> None:
        self._has_failed = True
        self._troubles.note("upkeep", why)
