"""Looks for the fresh jobs of a context: by number in dense lanes, by task in sparse ones (F4, F5,
MS4)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tontine.clock import Clock
from tontine.store import fresh
from tontine.store.call import AsyncStore
from tontine.store.raw import Raw

from ..claims import Claims
from .choice import Choice, Jobs
from .lane import Lane
from .lanes import Lanes
from .surroundings import Surroundings

BEHIND_LOOKS_AT = 100


@dataclass(slots=True)
class Plan:
    """What a lane asks for by number, and what came of it."""

    seqs: list[int]
    ahead: int
    """How many of them the cursor has not passed."""
    found: set[int] = field(default_factory=set)
    foreign: set[int] = field(default_factory=set)
    """Numbers of jobs that are none of the lane's."""


class FreshLook:
    """Finds fresh jobs of all lanes of a context, the lowest first."""

    def __init__(
        self,
        store: AsyncStore,
        clock: Clock,
        claims: Claims,
        surroundings: Surroundings,
        lanes: Lanes,
        choice: Choice,
    ) -> None:
        self.has_found = False
        """Whether any were found since this was set back."""
        self._store = store
        self._clock = clock
        self._claims = claims
        self._surroundings = surroundings
        self._lanes = lanes
        self._choice = choice

    async def find(self, room: int, *, is_mixed: bool) -> Jobs:
        """The next jobs of the shares. Where nodes are of different kinds, or have more contexts
        than one, most numbers may be jobs of others."""
        await self._look_behind()
        dense = [lane for lane in self._lanes if not lane.is_sparse]
        counter = self._surroundings.counter
        sparse = [lane for lane in self._lanes if lane.is_sparse and lane.is_to_look(counter)]
        plans = self._plan(dense, room, is_mixed=is_mixed)
        jobs = await self._ask_for_numbers(plans, is_mixed=is_mixed) if plans else []
        known_to: int | None = None
        if sparse:
            more, known_to = await self._ask_for_tasks(sparse, room)
            jobs = sorted([*jobs, *more], key=lambda job: job["seq"])
        taken = self._choice.takeable(jobs, room)
        self.has_found = self.has_found or bool(taken)
        seqs = {job["seq"] for job in taken}
        for lane in sparse:
            self._note_tasks(lane, jobs, seqs, known_to, counter)
        for lane, plan in plans.items():
            await self._note_numbers(lane, plan, seqs, is_mixed=is_mixed)
        return taken

    # Dense lanes

    def _plan(self, lanes: Sequence[Lane], room: int, *, is_mixed: bool) -> dict[Lane, Plan]:
        """The lowest numbers of all dense lanes together: what was missed before, then the next
        ones."""
        now = self._clock.now()
        planned = {
            lane: lane.sweep.plan(lane.numbers_at_once(room, is_mixed=is_mixed), now)
            for lane in lanes
        }
        if len(planned) > 1:
            most = max(room, *(lane.sweep.stride for lane in lanes))
            ahead = sorted(
                seq for lane, seqs in planned.items() for seq in seqs if seq >= lane.sweep.cursor
            )
            last = ahead[most - 1] if len(ahead) > most else float("inf")
            planned = {
                lane: [seq for seq in seqs if seq < lane.sweep.cursor or seq <= last]
                for lane, seqs in planned.items()
            }
        return {
            lane: Plan(seqs, sum(seq >= lane.sweep.cursor for seq in seqs))
            for lane, seqs in planned.items()
            if seqs
        }

    async def _ask_for_numbers(self, plans: dict[Lane, Plan], *, is_mixed: bool) -> Jobs:
        keys = sorted(key for lane in plans for key in lane.keys)
        seqs = list(dict.fromkeys(seq for plan in plans.values() for seq in plan.seqs))
        answer = await self._store.run(fresh.find_fresh(seqs, keys))
        if answer.is_cut:  # what comes after the last of these was not looked at
            for plan in plans.values():
                plan.seqs = [seq for seq in plan.seqs if seq <= answer[-1]["seq"]]
        jobs = [job for job in self._choice.fit(answer) if self._note_found(job, plans)]
        if is_mixed:
            await self._ask_again(plans)
        return jobs

    def _note_found(self, job: Raw, plans: dict[Lane, Plan]) -> bool:
        """Whether it is in the share of its own lane; with others its number is a foreign one."""
        seq, own = job["seq"], self._lanes.of(job["task"])
        for lane, plan in plans.items():
            if lane is not own:
                plan.foreign.add(seq)
        if own is None or own not in plans or not own.share.owns(seq):
            return False
        plans[own].found.add(seq)
        return True

    async def _ask_again(self, plans: dict[Lane, Plan]) -> None:
        """What was not found is another's job, or not there yet: only that is a hole (MS5)."""
        missing = {
            seq
            for plan in plans.values()
            for seq in plan.seqs
            if seq not in plan.found and seq not in plan.foreign
        }
        if not missing:
            return
        there = await self._store.run(fresh.look_again(sorted(missing)))
        for lane, plan in plans.items():
            for seq in there.keys() & set(plan.seqs) - plan.found:
                if there[seq].is_fresh and there[seq].task in lane.keys:
                    plan.found.add(seq)  # it came meanwhile, and is looked up with the next
                else:
                    plan.foreign.add(seq)

    async def _note_numbers(
        self, lane: Lane, plan: Plan, taken: Collection[int], *, is_mixed: bool
    ) -> None:
        cursor, now = lane.sweep.cursor, self._clock.now()
        lane.sweep.looked_up(plan.seqs, plan.found, plan.found & set(taken), now, plan.foreign)
        if is_mixed and lane.became_thin(plan.ahead, sum(seq >= cursor for seq in plan.found)):
            lane.spread()
        elif not plan.found and not lane.sweep.is_exhausted:
            keys = sorted(lane.keys)
            lane.sweep.jump(await self._store.run(fresh.lowest_fresh(keys, lane.sweep.cursor)))
            lane.passed_by(self._clock.now())

    # Sparse lanes

    async def _ask_for_tasks(self, lanes: Sequence[Lane], room: int) -> tuple[Jobs, int | None]:
        """What there is, and up to which number that is all; None when there is no more."""
        counter, before = self._surroundings.counter, self._surroundings.counter_before()
        parts = [lane.look(counter, before) for lane in lanes]
        answer = await self._store.run(fresh.find_sparse(parts, room))
        is_all = not answer.is_cut and len(answer) < room
        return self._choice.fit(answer), None if is_all or not answer else int(answer[-1]["seq"])

    def _note_tasks(
        self,
        lane: Lane,
        jobs: Sequence[Raw],
        taken: Collection[int],
        known_to: int | None,
        counter: int,
    ) -> None:
        found = [job["seq"] for job in jobs if job["task"] in lane.keys]
        lane.looked(found, taken, known_to, counter, self._clock.now())
        if lane.is_dense(found):
            lane.gather(self._clock.now())

    # What was passed

    async def _look_behind(self) -> None:
        """Look for anything in a share that its cursor has passed: once a minute (F5 c), and soon
        after a jump.

        A producer that had taken its numbers, and not yet inserted its jobs, is passed by a jump
        without a trace.
        """
        for lane in self._lanes:
            if not lane.is_to_look_behind(self._clock.now()):
                continue
            behind = await self._store.run(
                fresh.find_behind(lane.share, sorted(lane.keys), lane.sweep.cursor, BEHIND_LOOKS_AT)
            )
            missed = next((seq for seq in behind if self._claims.may_claim(seq)), None)
            if missed is not None:
                lane.go_back(missed)
