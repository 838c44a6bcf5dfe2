"""Advances that are due: what follows a settlement of a plan's job, again and again until the store
has answered (PL6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from tontine.clock import Clock
from tontine.errors import StoreError
from tontine.records.plan import JobFact, PlanPlace
from tontine.records.share import Share
from tontine.records.states import JobState
from tontine.store.call import AsyncStore, Causal
from tontine.store.counter import Reserve
from tontine.store.plans.accept import all_know_plans
from tontine.store.plans.advance import Advanced, Advancer
from tontine.store.plans.facts import PlanMemory
from tontine.store.plans.release import Claim
from tontine.store.retention import Retention
from tontine.store.settle import Outcome

from ..telling.troubles import Troubles

log = logging.getLogger(__name__)

PLANS_AT_ONCE = 200
KNOWN_FOR = 2.0
"""Seconds for which it is believed that all nodes know of plans."""
KEPT_AT_MOST = 16 * 1024
"""Bytes of a result that are kept for what follows, which would read them otherwise."""
PAUSE, LONGEST_PAUSE = 0.1, 2.0
PATIENCE = 0.5
"""Seconds for which other plans wait for those that are gone through: what takes longer, like a map
of very many items, goes on beside them."""
AT_ONCE = 4
"""Batches of plans that are gone through beside each other."""
_STATES = {
    "done": JobState.DONE,
    "failed": JobState.FAILED,
    "refused": JobState.FAILED,
    "cancelled": JobState.CANCELLED,
    "unlicensed": JobState.CANCELLED,
}


class Advances:
    """Plans that are to be gone through: with what was settled, or with all that there is. Kept
    apart from the table of claims, so that they survive a fence."""

    def __init__(
        self,
        store: AsyncStore,
        clock: Clock,
        share: Callable[[], Share | None],
        retention: Callable[[], Retention],
        troubles: Troubles,
    ) -> None:
        self.causal = Causal()
        """How far this node has seen the store: a plan is read after what was settled (PL0)."""
        self.last_at = float("-inf")
        """When a plan was last heard of."""
        self.claim: Claim = lambda _: None
        """Claims a step's job with its release."""
        self.keep: Callable[[Collection[int], Collection[int], Causal], Awaitable[None]] = _nothing
        """Hears of which this was tried, and which of these are there."""
        self._store = store
        self._clock = clock
        self._share = share
        self._retention = retention
        self._troubles = troubles
        self._memory = PlanMemory()
        self._reserve = Reserve(clock)
        self._due: dict[int, list[JobFact] | None] = {}
        self._under_way: set[int] = set()
        """Plans that are gone through at this moment: each once at a time."""
        self._pause = PAUSE
        self._all_know = False
        self._asked_at = float("-inf")
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()

    def settled(self, place: PlanPlace, outcome: Outcome) -> None:
        """A settlement of a plan's job was accepted."""
        touched = self._due.setdefault(place.seq, [])
        if touched is not None:
            state = _STATES.get(outcome.kind, JobState.QUEUED)
            is_kept = place.item is None and len(outcome.result) <= KEPT_AT_MOST
            known = outcome.result if is_kept else b""
            touched.append(JobFact(place, state, has_more=outcome.more, outcome=known))
        self._wake()

    def look_at(self, seqs: Iterable[int]) -> None:
        """Go through these plans with all that there is (PL8)."""
        for seq in seqs:
            self._due[seq] = None
        if self._due:
            self._wake()

    def _wake(self) -> None:
        self.last_at = self._clock.now()
        self._none.clear()
        self._some.set()

    async def drained(self) -> None:
        """Wait until nothing is due: a stopping node finishes them first."""
        await self._none.wait()

    async def run(self) -> None:
        """Advance for ever; an outage only makes the batches larger."""
        tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                await self._some.wait()
                free = [seq for seq in self._due if seq not in self._under_way]
                batch = {seq: self._due.pop(seq) for seq in free[:PLANS_AT_ONCE]}
                self._under_way.update(batch)
                if batch:
                    tasks.add(asyncio.create_task(self._go_on(batch)))
                patience = PATIENCE if len(tasks) < AT_ONCE else None
                if tasks:
                    await asyncio.wait(tasks, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                tasks = {task for task in tasks if not task.done()}
                self._rest()
        finally:
            for task in tasks:
                task.cancel()

    async def _go_on(self, batch: dict[int, list[JobFact] | None]) -> None:
        try:
            await self._advance(batch)
            self._troubles.over("plans")
            self._pause = PAUSE
        except Exception as error:  # noqa: BLE001 - whatever it was, these plans are to go on
            self._troubles.note("plans", error)
            log.warning(
                "advancing plans failed",
                extra={"event": "advance-failed", "error": repr(error)},
            )
            # What was done of it is not known: next time all of it is asked for.
            self.look_at(batch)
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._under_way.difference_update(batch)
        self._rest()

    def _rest(self) -> None:
        """Wait if nothing can be done."""
        if self._due.keys() - self._under_way:
            self._some.set()
        else:
            self._some.clear()
        if not self._due and not self._under_way:
            self._none.set()

    async def _advance(self, batch: dict[int, list[JobFact] | None]) -> None:
        claimed: list[int] = []

        def claim(job: Mapping[str, Any]) -> str | None:
            if (node := self.claim(job)) is not None:
                claimed.append(int(job["seq"]))
            return node

        advancer = Advancer(
            self._memory,
            self._retention(),
            self._clock.now(),
            may_release=await self.all_know(),
            owns=self._owns,
            reserve=self._reserve,
            claim=claim,
        )
        done = Advanced()
        try:
            done = await self._store.run(advancer.advance(batch), causal=self.causal)
        finally:
            if claimed:
                await self.keep(claimed, done.claimed, self.causal)
        self.look_at(done.left)
        for seq, error in done.failed.items():
            log.warning(
                "a plan could not be advanced; its next look tries again",
                extra={"event": "advance-failed", "plan": seq, "error": repr(error)},
                exc_info=None if isinstance(error, StoreError) else error,
            )

    def _owns(self, seq: int) -> bool:
        share = self._share()
        return share is not None and share.owns(seq)

    async def all_know(self) -> bool:
        """Whether every node that lives knows of plans; otherwise nothing is accepted or released
        (PL1)."""
        now = self._clock.now()
        if not self._all_know or now - self._asked_at > KNOWN_FOR:
            knew, self._all_know = self._all_know, await self._store.run(all_know_plans())
            self._asked_at = now
            if knew and not self._all_know:
                log.warning(
                    "a node has come that knows nothing of plans: until it is gone no step is "
                    "released, and what it does to their jobs is outside the guarantees",
                    extra={"event": "plans-halted"},
                )
        return self._all_know


async def _nothing(*_: object) -> None: ...
