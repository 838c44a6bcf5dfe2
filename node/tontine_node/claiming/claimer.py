"""(3) The claim loop: one context has its turn after the other, for as long as there is room and
work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tontine.errors import StoreError
from tontine.store.bell import Hint
from tontine.store.call import AsyncStore, Causal
from tontine.store.names import JOBS

from ..claims import Claims
from ..loop import jittered, rest
from ..membership.heartbeat import Heartbeat
from ..telling.troubles import Troubles
from .cadence import Cadence
from .careful import Careful
from .surroundings import Surroundings
from .taker import AFTER_A_FAILURE, Taker
from .turn import Turn

log = logging.getLogger(__name__)

REST, REST_POLL = 1.0, 0.25
LOOK_AGAIN_AFTER = (0.01, 0.1)


class Claimer:
    """When to claim, for all contexts of a node."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        cadence: Cadence,
        beat: Heartbeat,
        claims: Claims,
        surroundings: Surroundings,
        careful: Careful,
        turns: Sequence[Turn],
        troubles: Troubles,
    ) -> None:
        self._node = node
        self.tick = 0
        self.is_open = False
        self.wake = asyncio.Event()
        self._cadence = cadence
        self._beat = beat
        self._surroundings = surroundings
        self._careful = careful
        self._troubles = troubles
        self._turns: dict[Turn, Taker] = {
            turn: Taker(
                node,
                store,
                cadence.clock,
                claims,
                turn.dispatcher,
                turn.lanes,
                turn.choice,
                troubles,
                self._may_claim,
                self._look_at,
            )
            for turn in turns
        }
        self._busy_since: float | None = cadence.now()

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
        if self._beat.has_lease():
            await self._prepare()
        found_work = await self._round() if self._may_claim() else False
        if all(taker.is_well for taker in self._turns.values()):
            self._troubles.over("claiming")
        return found_work

    async def _prepare(self) -> None:
        """Also while it is closed: a node that drains must know what it holds before it can give it
        back (N7), and what is held may still start."""
        for taker in self._turns.values():
            if taker.has_doubts:
                await taker.resolve()
        if await self._careful.keep():
            for turn in self._turns:
                turn.dispatcher.dispatch()

    async def _round(self) -> bool:
        """One round of all contexts; whether another should follow at once."""
        leads_nowhere = any(turn.is_hurried and turn.is_at_end for turn in self._turns)
        await self._surroundings.read(now=leads_nowhere)
        found_work = False
        for turn, taker in self._turns.items():
            found_work = await turn.run(taker) or found_work
        return found_work

    @property
    def has_doubts(self) -> bool:
        """Whether there are claims whose outcome is not known."""
        return any(taker.has_doubts for taker in self._turns.values())

    def _note_business(self, found_work: bool) -> None:
        if not found_work and not any(turn.has_backlog for turn in self._turns):
            self._busy_since = None
        elif self._busy_since is None:
            self._busy_since = self._cadence.now()

    def busy_for(self) -> float:
        """For how many seconds there has been more to do than could be done at once; 0 if there is
        not."""
        if self._busy_since is None:
            return 0.0
        return max(1e-9, self._cadence.now() - self._busy_since)

    def hint(
        self, first: int | None = None, last: int | None = None, *, is_fresh: bool = False
    ) -> None:
        """Jobs were inserted: look now, everywhere unless their numbers are enough to find them."""
        self.take_hint(Hint(JOBS, first, last, is_fresh))

    def take_hint(self, hint: Hint) -> None:
        """The bell tells of jobs."""
        heard = [turn.hint(hint) for turn in self._turns]
        if not any(heard):
            return
        if hint.is_fresh and hint.first is not None and hint.first == hint.last:
            for delay in LOOK_AGAIN_AFTER:
                asyncio.get_running_loop().call_later(delay, self._look_again, hint)
        self.wake.set()

    def _look_at(self, seq: int) -> None:
        """A job seemed to be claimed, and may be there, fresh or given back. Not as one that is
        announced: its claim by number alone is what failed."""
        for turn in self._turns:
            turn.lanes.hint(seq, seq, None, is_fresh=True)
        self.hint(seq, seq)

    def _look_again(self, hint: Hint) -> None:
        heard = [turn.look_again(hint) for turn in self._turns]
        if any(heard):
            self.wake.set()

    def claim_released(self, job: Mapping[str, Any]) -> str | None:
        """A step's job that is about to be inserted: this node, if it claims it with that."""
        if self._may_claim() and any(taker.enter(job) for taker in self._turns.values()):
            return self._node
        return None

    async def keep_released(
        self, seqs: Collection[int], ours: Collection[int], seen: Causal
    ) -> None:
        """Of the jobs that were claimed so, `ours` are this node's; of the others a read tells."""
        for taker in self._turns.values():
            await taker.keep_entered(seqs, ours, seen)
        if self.has_doubts:
            self.wake.set()

    def due_in(self, delay: float) -> None:
        """A job went back to the queue, and is due so many seconds from now."""
        for turn in self._turns:
            turn.postponed.due_in(delay)
        self.wake.set()

    def look_now(self) -> None:
        """The roster changed: read it before anything else."""
        self._surroundings.forget()
        self.wake.set()

    def help_soon(self) -> None:
        """A member asks for help."""
        delay = min(turn.help.soon() for turn in self._turns)
        asyncio.get_running_loop().call_later(delay, self.wake.set)

    def _may_claim(self) -> bool:
        return self.is_open and self._beat.has_lease()

    async def _rest(self) -> None:
        limit = jittered(self._cadence.pace_of(REST, REST_POLL))
        if self._may_claim():
            due_at = min((turn.due_at for turn in self._turns), default=float("inf"))
            limit = min(limit, max(0.0, due_at - self._cadence.now()))
        await rest(self.wake, limit)
