"""(3) The claim loop: as many jobs as there is room for, from wherever the lane has them."""

from __future__ import annotations

import asyncio
import logging

from tontine.clock import Clock
from tontine.errors import StoreError
from tontine.records.states import JobState
from tontine.store import bell, repair
from tontine.store.call import AsyncStore
from tontine.store.raw import identity

from ..claims import Claims
from ..loop import jittered, rest
from ..membership.heartbeat import Heartbeat
from ..running.dispatch import Dispatcher
from ..telling.troubles import Troubles
from .careful import Careful
from .lane import Lane
from .sweep import Sweep
from .taker import AFTER_A_FAILURE, Taker

log = logging.getLogger(__name__)

CLAIM_AT_ONCE = 500
REST, REST_POLL = 1.0, 0.25
LOOK_AGAIN_AFTER = (0.01, 0.1)
ASK_EVERY = 1.0


class Claimer:
    """When to claim, and how much."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        clock: Clock,
        beat: Heartbeat,
        claims: Claims,
        dispatcher: Dispatcher,
        lane: Lane,
        careful: Careful,
        troubles: Troubles,
    ) -> None:
        self.tick = 0
        self.is_open = False
        self.wake = asyncio.Event()
        self.taker = Taker(
            node,
            store,
            clock,
            claims,
            dispatcher,
            lane,
            troubles,
            self._may_claim,
            self._look_at,
        )
        self._store = store
        self._clock = clock
        self._beat = beat
        self._claims = claims
        self._dispatcher = dispatcher
        self._lane = lane
        self._careful = careful
        self._troubles = troubles
        self._busy_since: float | None = clock.now()
        self._hurry = False
        self._announced: list[int] = []
        self._asked_at = float("-inf")

    async def run(self) -> None:
        """Claim for as long as there is room; otherwise sleep until something happens or it is time
        to look."""
        while True:
            self.wake.clear()
            self.tick += 1
            try:
                found_work = await self._turn()
            except StoreError as error:
                self._troubles.note("claiming", error)
                log.warning("claiming failed", extra={"event": "claim-failed", "error": str(error)})
                found_work = False
                await asyncio.sleep(jittered(AFTER_A_FAILURE, least=0.4))
            self._note_business(found_work)
            if not found_work:
                await self._rest()

    async def _turn(self) -> bool:
        # Also while it is closed: a node that drains must know what it holds before it can give it
        # back (N7).
        if self.taker.has_doubts and self._beat.has_lease():
            await self.taker.resolve()
        # Also while it is closed: what is held may still start.
        if self._beat.has_lease() and await self._careful.keep():
            self._dispatcher.dispatch()
        found_work = await self._round() if self._may_claim() else False
        if self.taker.is_well:
            self._troubles.over("claiming")
        return found_work

    def _note_business(self, found_work: bool) -> None:
        sweep = self._lane.sweep
        has_backlog = sweep is not None and not sweep.is_exhausted and self._room() <= 0
        if not found_work and not has_backlog:
            self._busy_since = None
        elif self._busy_since is None:
            self._busy_since = self._clock.now()

    def busy_for(self) -> float:
        """For how many seconds there has been more to do than could be done at once; 0 if there is
        not."""
        return 0.0 if self._busy_since is None else max(1e-9, self._clock.now() - self._busy_since)

    def take_hint(self, hint: bell.Hint) -> None:
        """The bell tells of jobs."""
        self.hint(hint.first, hint.last, is_fresh=hint.is_fresh)

    def hint(
        self, first: int | None = None, last: int | None = None, *, is_fresh: bool = False
    ) -> None:
        """Jobs were inserted: look now, everywhere unless their numbers are enough to find them."""
        if first is not None and last is not None and self._lane.knows(last):
            if not self._lane.hint(first, last, is_fresh=is_fresh):
                return
            if is_fresh and first == last:
                self._announced = [
                    *self._announced[:1],
                    first,
                ]  # of more than one it only matters that there are more
                for delay in LOOK_AGAIN_AFTER:
                    asyncio.get_running_loop().call_later(delay, self._look_again, first)
        self._hurry = self._hurry or not is_fresh
        self.wake.set()

    def _look_at(self, seq: int) -> None:
        """A job seemed to be claimed, and may be there, fresh or given back."""
        self._lane.hint(seq, seq, is_fresh=True)
        self.hint(seq, seq)

    def _look_again(self, seq: int) -> None:
        """A job is announced before it is inserted: what was not there yet may be there now."""
        if self._lane.is_missing(seq) and self._lane.hint(seq, seq, is_fresh=True):
            self.wake.set()

    def due_in(self, delay: float) -> None:
        """A job went back to the queue, and is due so many seconds from now."""
        self._lane.due_in(delay)
        self.wake.set()

    def look_now(self) -> None:
        """The roster changed: read it before anything else."""
        self._lane.forget_roster()
        self.wake.set()

    def help_soon(self) -> None:
        """A member asks for help."""
        asyncio.get_running_loop().call_later(self._lane.help_soon(), self.wake.set)

    def _may_claim(self) -> bool:
        return self.is_open and self._beat.has_lease()

    def _room(self) -> int:
        """How many more jobs to claim: as many as the workers want, and none while there is too
        much in memory."""
        return 0 if self._claims.is_full else self._dispatcher.room()

    async def _rest(self) -> None:
        limit = jittered(self._lane.pace_of(REST, REST_POLL))
        # With no room, a job that is due waits for a slot, which wakes us; without a share, others
        # see to it.
        if self._may_claim() and self._lane.sweep is not None and self._room() > 0:
            limit = min(limit, max(0.0, self._lane.next_due - self._clock.now()))
        await rest(self.wake, limit)

    async def _round(self) -> bool:
        """One round of the loop; whether another should follow at once."""
        hurry, self._hurry = self._hurry, False
        self._lane.look_for_suspects()
        await self._lane.around(hurry)
        sweep = self._lane.sweep
        if sweep is None:
            return False
        announced, self._announced = self._announced, []
        if len(announced) == 1 and await self.taker.take_announced(announced[0], sweep):
            return True
        room, cursor = min(self._room(), CLAIM_AT_ONCE), sweep.cursor
        claimed = await self.taker.take(await self._lane.oldest(sweep), first=True)
        if room <= 0:
            self._hurry = self._hurry or hurry  # for when there is room
            if not sweep.is_exhausted:
                await self._ask_for_help()
        else:
            claimed = await self._fill(sweep, room, claimed, hurry)
        await self._set_aside()
        if claimed or room <= 0:
            return bool(claimed)
        return sweep.cursor != cursor and not sweep.is_exhausted

    async def _fill(self, sweep: Sweep, room: int, claimed: int, hurry: bool) -> int:
        """Claim until so many are claimed, from the share first; how many are."""
        for look in (self._lane.ranked, self._lane.due, self._lane.fresh):
            if claimed < room:
                claimed += await self.taker.take(await look(sweep, room - claimed, hurry))
        if not claimed and sweep.is_exhausted:
            claimed = await self.taker.take(await self._lane.low(sweep))
            claimed = claimed or await self.taker.take(await self._lane.left())
            await self._lane.hidden(sweep.share)
        return claimed

    async def _set_aside(self) -> None:
        """Fail what was found and cannot be claimed by anybody: otherwise it would be found first
        again."""
        odd, self._lane.odd = self._lane.odd, []
        for job, reason in odd:
            queued = {**identity(job), "state": JobState.QUEUED.value}
            if await self._store.run(repair.set_aside(queued, reason, self._lane.retention)):
                log.warning(
                    "set a job aside",
                    extra={"event": "set-aside", "seq": job.get("seq"), "reason": reason},
                )

    async def _ask_for_help(self) -> None:
        """More jobs than room: nodes that have nothing to do need not find out by themselves."""
        now = self._clock.now()
        if now - self._asked_at >= ASK_EVERY and not self._lane.is_alone:
            self._asked_at = now
            await self._store.run(bell.ring(bell.HELP))
