"""Two to four real nodes, call by call in any order, with faults between any two calls: the
invariants hold.

With `TONTINE_INTERLEAVINGS=5000` in the environment it looks at so many random stories instead of a
few fixed ones.
"""

from __future__ import annotations

import contextlib
import os
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.interleaving.history import is_announced_claim
from tests.support.interleaving.life import TIMING, Life
from tests.support.interleaving.planted import NONE, Fault
from tests.support.interleaving.worker import CAREFUL, RARE, TASK, hello_with
from tests.support.interleaving.world import STEP, World
from tontine.records.states import Desired
from tontine.store.bell import Hint
from tontine.store.call import Store
from tontine.store.names import JOBS
from tontine_node.running.pipe import Hello

MANY = int(os.environ.get("TONTINE_INTERLEAVINGS", "0"))
EVERYDAY, PARTS = 20, 4

PICK = st.integers(0, 11)
ORDER = st.integers(0, 2**16)
PAUSE = st.sampled_from([0.05, 0.5, 2.0, STEP])
A_LEASE = TIMING.lease_for + 2 * STEP
FATE = st.sampled_from(["lose", "lose_answer", "give_up"])
KINDS = st.sampled_from(
    [hello_with(TASK, CAREFUL), hello_with(TASK, CAREFUL, RARE), hello_with(RARE)]
)
RAW: list[dict[str, Any]] = [{"task": TASK}, {"task": TASK, "priority": 1}, {"args": {}}]


class Interleavings(RuleBasedStateMachine):
    """Every rule is one thing that may happen next."""

    def __init__(self, database: Any, fault: Fault = NONE) -> None:
        super().__init__()
        self.world = World(database, fault)

    def teardown(self) -> None:
        try:
            if self.world.lives and not self.world.is_violated:
                self.world.calm_down()
        finally:
            self.world.close()

    def life(self, pick: int) -> Life:
        return self.world.awake[pick % len(self.world.awake)]

    def seq(self, pick: int) -> int:
        seqs = sorted(job["seq"] for job in self.world.history.jobs.values() if job.get("seq"))
        return int(seqs[pick % len(seqs)]) if seqs else 1

    @initialize(
        nodes=st.lists(st.tuples(st.integers(1, 2), st.booleans(), KINDS), min_size=2, max_size=3),
        jobs=st.integers(1, 4),
        joined=st.booleans(),
    )
    def begin(self, nodes: list[tuple[int, bool, Hello]], jobs: int, joined: bool) -> None:
        for slots, hears, hello in nodes:
            self.world.start_node(slots=slots, hears=hears, hello=hello)
        self.world.submit(jobs)
        if joined:
            self.world.live_on(STEP)

    @rule(count=st.integers(1, 60), order=ORDER, seconds=PAUSE)
    def calls_arrive(self, count: int, order: int, seconds: float) -> None:
        """In any order, and each perhaps a while before its answer does."""
        choice = Random(order)
        for _ in range(count):
            if messages := self.world.network.in_flight:
                message = choice.choice(messages) if order else messages[0]
                if order and not message.has_landed and choice.random() < 0.3:
                    self.world.land(message)
                else:
                    self.world.go_on(message)
            else:
                self.world.pass_time(seconds)

    @rule(seconds=st.sampled_from([STEP, STEP, A_LEASE]), ending=st.booleans())
    def nothing_goes_wrong_for_a_while(self, seconds: float, ending: bool) -> None:
        self.world.live_on(seconds, ending=ending)

    @rule(seconds=PAUSE)
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(pick=PICK, fate=FATE)
    def a_call_goes_wrong(self, pick: int, fate: str) -> None:
        if messages := self.world.network.in_flight:
            getattr(self.world, fate)(messages[pick % len(messages)])

    @precondition(lambda self: self.world.awake)
    @rule(pick=PICK, fates=st.lists(FATE, min_size=3, max_size=25))
    def a_node_is_cut_off(self, pick: int, fates: list[str]) -> None:
        life = self.life(pick)
        for fate in fates:
            for message in self.world.sent_by(life):
                getattr(self.world, fate)(message)
            self.world.pass_time(1.0)

    @rule(rounds=st.integers(2, 25), fate=FATE, reads=st.booleans())
    def the_store_is_away(self, rounds: int, fate: str, reads: bool) -> None:
        for _ in range(rounds):
            for message in list(self.world.network.in_flight):
                getattr(self.world, "go_on" if reads and not message.is_write else fate)(message)
            self.world.pass_time(1.0)

    @precondition(lambda self: self.world.network.given_up)
    @rule(pick=PICK)
    def a_write_lands_late(self, pick: int) -> None:
        late = self.world.network.given_up
        self.world.land_late(late[pick % len(late)])

    @precondition(lambda self: self.world.running)
    @rule(pick=PICK, how=st.sampled_from(["done", "done", "failed", "crashed"]))
    def a_task_ends(self, pick: int, how: str) -> None:
        _, worker, run = self.world.running[pick % len(self.world.running)]
        self.world.end_task(worker, run, how)

    @precondition(lambda self: self.world.awake)
    @rule(pick=PICK, what=st.sampled_from(["crash", "freeze", "freeze", "stop"]))
    def a_node_stands_still(self, pick: int, what: str) -> None:
        getattr(self.world, what)(self.life(pick))

    @precondition(lambda self: self.world.frozen)
    @rule(pick=PICK, reports_first=st.booleans())
    def a_node_thaws(self, pick: int, reports_first: bool) -> None:
        self.world.thaw(
            self.world.frozen[pick % len(self.world.frozen)], reports_first=reports_first
        )

    @precondition(lambda self: self.world.awake)
    @rule(pick=PICK, reports_first=st.booleans(), ending=st.booleans())
    def a_node_oversleeps(self, pick: int, reports_first: bool, ending: bool) -> None:
        life = self.life(pick)
        self.world.freeze(life)
        self.world.live_on(A_LEASE, ending=ending)
        self.world.thaw(life, reports_first=reports_first)

    @precondition(
        lambda self: (
            len(self.world.awake) + len(self.world.frozen) < 4 and len(self.world.lives) < 8
        )
    )
    @rule(again=st.booleans(), pick=PICK, hears=st.booleans())
    def a_node_starts(self, again: bool, pick: int, hears: bool) -> None:
        there = {life.name for life in self.world.lives if not life.is_over}
        over = sorted({life.name for life in self.world.lives} - there)
        self.world.start_node(over[pick % len(over)] if again and over else None, hears=hears)

    @precondition(lambda self: self.world.awake)
    @rule(pick=PICK, desired=st.sampled_from([Desired.PAUSED, Desired.RUNNING, Desired.STOPPED]))
    def a_node_is_asked(self, pick: int, desired: Desired) -> None:
        self.world.ask_node(self.life(pick), desired)

    @precondition(lambda self: len(self.world.history.jobs) < 12)
    @rule(
        job=st.sampled_from([*RAW, TASK, TASK, TASK, CAREFUL, RARE, RARE]), count=st.integers(1, 3)
    )
    def jobs_are_inserted(self, job: str | dict[str, Any], count: int) -> None:
        if isinstance(job, str):
            self.world.submit(count, job)
        else:
            self.world.insert_raw({**job})

    @precondition(lambda self: self.world.awake)
    @rule(pick=PICK, ring=st.integers(-3, 11))
    def a_node_hears_of_a_job(self, pick: int, ring: int) -> None:
        """Of a number just given, perhaps before its job is there, or again of one that was
        announced long ago."""
        rings = self.world.rings
        seq = self.world.history.counter + ring + 1
        hint = (
            rings[ring % len(rings)] if ring >= 0 and rings else Hint(JOBS, seq, seq, is_fresh=True)
        )
        self.world.announce(self.life(pick), hint)

    @precondition(lambda self: self.world.awake and len(self.world.history.jobs) < 12)
    @rule(
        pick=PICK,
        fate=st.sampled_from(["", "land", "lose", "lose_answer", "give_up"]),
        then=st.sampled_from(["", "", "crash", "freeze"]),
        is_there=st.booleans(),
    )
    def the_claim_of_an_announced_job_goes_wrong(
        self, pick: int, fate: str, then: str, is_there: bool
    ) -> None:
        """Or nothing does, yet: it is under way when the next thing happens."""
        self.life(pick).hears = True
        self.world.live_on(STEP, ending=True)
        self.world.submit()
        with contextlib.suppress(LookupError):
            claim = self.world.flow_until(
                lambda message: is_announced_claim(message.call), within=0.5
            )
            owner = self.world.owner_of(claim.sender)
            for message in self.world.asked("submit") if is_there else ():
                self.world.go_on(message)
            if fate:
                getattr(self.world, fate)(claim)
            if then and owner is not None:
                getattr(self.world, then)(owner)

    @rule(pick=PICK, what=st.sampled_from(["cancel", "retry"]))
    def an_operator_wants_a_job_otherwise(self, pick: int, what: str) -> None:
        getattr(self.world, what)(self.seq(pick))


def stories(count: int) -> settings:
    return settings(
        max_examples=count,
        stateful_step_count=40,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.timeout(0 if MANY else 900)
@pytest.mark.parametrize(
    "part", [2, *(pytest.param(part, marks=pytest.mark.long) for part in (0, 1, 3))]
)
def test_whatever_happens_between_any_two_calls_the_invariants_hold(
    store: Store, part: int
) -> None:
    class Here(Interleavings):
        def __init__(self) -> None:
            super().__init__(store.database)

    machine = Here if MANY else seed(part)(Here)
    run_state_machine_as_test(machine, settings=stories((MANY or EVERYDAY) // PARTS))
