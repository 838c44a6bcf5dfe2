"""One context's turn in the claim loop: as many jobs as it has room for, from wherever its lanes
have them."""

from __future__ import annotations

import logging

from tontine.config import Timing
from tontine.records.plan import PlanPlace
from tontine.records.share import crowd
from tontine.records.states import JobState
from tontine.records.task_key import has_range
from tontine.store import bell, odd, repair
from tontine.store.call import AsyncStore
from tontine.store.raw import identity

from ..claims import Claims
from ..duty import is_first
from ..membership.member import Member
from ..running.dispatch import Dispatcher
from .cadence import Cadence
from .careful import Careful
from .choice import Choice, Jobs
from .fresh import BEHIND_LOOKS_AT, FreshLook
from .help import Help
from .lanes import Lanes
from .postponed import PostponedLook
from .surroundings import Surroundings
from .taker import Taker

log = logging.getLogger(__name__)

CLAIM_AT_ONCE = 500
ASK_EVERY = 1.0
HIDDEN_EVERY, HIDDEN_OTHERS_EVERY = 120.0, 300.0


class Turn:
    """Looks and claims for one dispatcher, each time the claim loop comes to it."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        timing: Timing,
        cadence: Cadence,
        member: Member,
        claims: Claims,
        dispatcher: Dispatcher,
        surroundings: Surroundings,
        careful: Careful,
    ) -> None:
        self.dispatcher = dispatcher
        self.choice = Choice(claims, dispatcher, careful.is_noted, lambda: surroundings.ranges.keys)
        self.lanes = Lanes(node, store, member, surroundings)
        self.postponed = PostponedLook(store, cadence, dispatcher, self.lanes, self.choice)
        self.help = Help(store, timing, cadence, member, dispatcher, self.lanes, self.choice)
        self.is_hurried = False
        """Whether to look everywhere."""
        self._fresh = FreshLook(store, cadence.clock, claims, surroundings, self.lanes, self.choice)
        self._store = store
        self._cadence = cadence
        self._member = member
        self._claims = claims
        self._surroundings = surroundings
        self._announced: list[bell.Hint] = []
        self._asked_at = float("-inf")
        self._hidden_at = cadence.now()

    # What is heard

    def hint(self, hint: bell.Hint) -> bool:
        """Jobs were inserted: whether to look, which is everywhere unless their numbers are enough
        to find them."""
        first, last, is_fresh = hint.first, hint.last, hint.is_fresh
        if hint.task is not None and self._is_new_range(hint.task):
            self._surroundings.forget()
        elif first is not None and last is not None and self.lanes.knows(last):
            if not self.lanes.hint(first, last, hint.task, is_fresh=is_fresh):
                return False
            if is_fresh and first == last:  # of more than one it only matters that there are more
                self._announced = [*self._announced[:1], hint]
        elif hint.task is not None and self.lanes.of(hint.task) is None and len(self.lanes):
            return False
        self.is_hurried = self.is_hurried or not is_fresh
        return True

    def _is_new_range(self, key: str) -> bool:
        """Whether its workers could run it, and it was not known to be queued: whoever rang has
        noted it before (MV2)."""
        is_known = not has_range(key) or key in self._surroundings.ranges.keys
        return not is_known and self.dispatcher.serves(key)

    def look_again(self, hint: bell.Hint) -> bool:
        """A job is announced before it is inserted: what was not there yet may be there now."""
        seq = hint.first
        if seq is None or not any(lane.is_missing(seq) for lane in self.lanes):
            return False
        return self.lanes.hint(seq, seq, hint.task, is_fresh=True)

    # What there is to do

    @property
    def room(self) -> int:
        """How many more jobs to claim: as many as the workers want, and none while there is too
        much in memory."""
        return 0 if self._claims.is_full else self.dispatcher.room()

    @property
    def has_backlog(self) -> bool:
        return not self.lanes.is_exhausted and self.room <= 0

    @property
    def is_at_end(self) -> bool:
        """Whether what is known of the numbers does not lead any further."""
        return not len(self.lanes) or self.lanes.is_exhausted

    @property
    def due_at(self) -> float:
        """When there will be something to do. With no room, a job that is due waits for a slot,
        which wakes us; without a share, others see to it."""
        return self.postponed.next_due if len(self.lanes) and self.room > 0 else float("inf")

    async def run(self, taker: Taker) -> bool:
        """Look and claim; whether another turn should follow at once."""
        hurry, self.is_hurried = self.is_hurried, False
        self.postponed.look_for_suspects()
        if await self.lanes.arrange(self.choice.open_keys()):
            self.postponed.start_again()
        announced, self._announced = self._announced, []
        if not len(self.lanes):
            return False
        if len(announced) == 1 and await taker.take_announced(announced[0]):
            return True
        room, place = min(self.room, CLAIM_AT_ONCE), self.lanes.place
        claimed = await taker.take(await self.help.oldest(), first=True)
        if room <= 0:
            self.is_hurried = self.is_hurried or hurry  # for when there is room
            if not self.lanes.is_exhausted:
                await self._ask_for_help()
        else:
            claimed = await self._fill(taker, room, claimed, hurry)
        await self._set_aside()
        if claimed or room <= 0:
            return bool(claimed)
        return self.lanes.place != place and not self.lanes.is_exhausted

    async def _fill(self, taker: Taker, room: int, claimed: int, hurry: bool) -> int:
        """Claim until so many are claimed, from the share first; how many are."""
        for look in (self.postponed.ranked, self.postponed.due, self._find_fresh):
            if claimed < room:
                claimed += await taker.take(await look(room - claimed, hurry))
        if not claimed and self.lanes.is_exhausted:
            claimed = await taker.take(await self._low())
            claimed = claimed or await taker.take(await self.help.left())
            await self._look_for_hidden()
        return claimed

    async def _find_fresh(self, room: int, hurry: bool) -> Jobs:  # noqa: ARG002 - like the others
        is_alike = self._member.roster.is_uniform and self.lanes.are_all
        is_mixed = bool(self._surroundings.ranges.keys) or not is_alike
        found = await self._fresh.find(room, is_mixed=is_mixed)
        if found:
            self.help.had_jobs()
        return found

    async def _low(self) -> Jobs:
        """Jobs with a priority below zero: for free slots, when there is nothing else."""
        lows = self.postponed.take_lows()
        if not lows or self.dispatcher.free_slots() <= 0:
            return []
        epoch = self._member.roster.epoch
        await self._surroundings.read(now=True)
        for lane in self.lanes:
            lane.counted(self._surroundings.counter)
        if self._member.roster.epoch != epoch or not self.lanes.is_exhausted:
            return []
        return lows[: self.dispatcher.free_slots()]

    async def _look_for_hidden(self) -> None:
        """Now and then look for jobs that no other look would come to: the first member, and others
        in its place."""
        every = HIDDEN_OTHERS_EVERY * crowd(self.lanes.fewest)
        if is_first(self._member.share):
            every = HIDDEN_EVERY
        if self._cadence.now() - self._hidden_at >= every:
            self._hidden_at = self._cadence.now()
            self.choice.odd += await self._store.run(odd.find_odd(self.lanes.keys, BEHIND_LOOKS_AT))

    async def _set_aside(self) -> None:
        """Fail what was found and cannot be claimed by anybody: otherwise it would be found first
        again."""
        found, self.choice.odd = self.choice.odd, []
        for job, reason in found:
            queued = {**identity(job), "state": JobState.QUEUED.value}
            retention = self._surroundings.retention
            if await self._store.run(repair.set_aside(queued, reason, retention)):
                log.warning(
                    "set a job aside",
                    extra={"event": "set-aside", "seq": job.get("seq"), "reason": reason},
                )
                if place := PlanPlace.from_document(job.get("plan")):
                    await self._store.run(bell.ring_plan(place.seq))

    async def _ask_for_help(self) -> None:
        """More jobs than room: nodes that have nothing to do need not find out by themselves."""
        now = self._cadence.now()
        if now - self._asked_at >= ASK_EVERY and not self.lanes.is_alone:
            self._asked_at = now
            await self._store.run(bell.ring(bell.HELP))
