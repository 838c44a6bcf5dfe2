"""A job that is announced is claimed by its number alone, and whatever becomes of that call, it
runs and ends once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.interleaving.history import is_announced_claim, is_claim
from tests.support.interleaving.life import TIMING, Life
from tests.support.interleaving.network import Direct, Message
from tests.support.interleaving.worker import TASK
from tests.support.interleaving.world import STEP, World
from tontine.records.plan import PlanRecord
from tontine.rules.plan_deeds import Release
from tontine.store.bell import Hint
from tontine.store.call import Store
from tontine.store.names import JOBS, PLANS
from tontine.store.plans.release import make_one, put
from tontine.store.plans.values import Results
from tontine_node.claims import Status

MANY, EVERYDAY = int(os.environ.get("TONTINE_INTERLEAVINGS", "0")), 12
A_LEASE = TIMING.lease_for + 2 * STEP


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


def listeners(world: World, count: int = 1, slots: int = 1) -> list[Life]:
    """Nodes that have joined, and have an ear at the bell."""
    lives = [world.start_node(slots=slots, hears=True) for _ in range(count)]
    world.live_on(3 * STEP)
    return lives


def is_insert(message: Message) -> bool:
    return message.sender == "submit" and message.call.collection == JOBS


def claims(message: Message) -> bool:
    return is_announced_claim(message.call)


def claim_under_way(world: World) -> Message:
    """The claim of a job that has just been inserted."""
    world.submit()
    world.go_on(world.flow_until(is_insert))
    return world.flow_until(claims)


def facts(world: World, seq: int = 1) -> tuple[Any, ...]:
    job = world.history.by_seq(seq)
    return job["state"], job["attempt"], job["lost"]


def test_it_runs_after_one_call_and_no_look_up(world: World) -> None:
    (only,) = listeners(world)
    claim = claim_under_way(world)
    assert [one for one in world.sent_by(only) if one.call.collection == JOBS] == [claim]
    world.go_on(claim)
    assert [(run.seq, run.attempt) for run in world.runs] == [(1, 1)]
    world.calm_down()
    assert facts(world) == ("done", 1, 0)


def test_announced_before_it_is_inserted_it_is_there_when_asked_for_again(world: World) -> None:
    listeners(world)
    world.submit()
    insert = world.flow_until(is_insert)
    first = world.flow_until(claims)
    world.go_on(first)
    assert first.answer is None
    world.go_on(insert)
    again = world.flow_until(claims)
    world.go_on(again)
    assert [(run.seq, run.attempt) for run in world.runs] == [(1, 1)]


def test_inserted_long_after_it_was_announced_it_is_found_without_another_ring(
    world: World,
) -> None:
    listeners(world)
    world.submit()
    insert = world.flow_until(is_insert)
    for _ in range(2):
        world.go_on(world.flow_until(claims))
    world.pass_time(0.05)
    assert not world.runs
    world.go_on(insert)
    world.pass_time(0.06)  # the later of the two looks after an announcement
    for message in list(world.network.in_flight):
        world.go_on(message)
    claim = world.flow_until(lambda message: is_claim(message.call), within=0.1)
    world.go_on(claim)
    assert [(run.seq, run.attempt) for run in world.runs] == [(1, 1)]


def test_one_that_is_too_deep_for_the_answer_is_claimed_in_the_usual_way(world: World) -> None:
    listeners(world)
    args: dict[str, Any] = {"a": 1}
    for _ in range(178):  # with the job around it MongoDB's limit, which an answer is beyond
        args = {"a": args}
    world.submit(args=args)
    world.go_on(world.flow_until(is_insert))
    world.go_on(world.flow_until(claims))
    assert facts(world) == ("queued", 0, 0), "refused"
    world.go_on(world.flow_until(lambda message: is_claim(message.call), within=0.4))
    assert facts(world) == ("working", 1, 0)


def a_step_under_way(world: World, store: Store, state: str) -> Message:
    """The claim of a plan's job that has just been released."""
    (only,) = listeners(world)
    direct = Direct(store.database)
    plan = {"seq": 7, "state": state, "try": 0, "rev": 0, "steps": {"get": {"task": TASK}}}
    store.database.plans.insert_one(plan)
    released = PlanRecord.from_document(plan)
    direct.run(put([direct.run(make_one(released, Release("step", "get"), Results()))]))
    world.announce(only, Hint(JOBS, 1, 1, is_fresh=True, task=TASK, is_planned=True))
    return world.flow_until(claims)


def is_licence(message: Message) -> bool:
    return message.call.collection == PLANS and message.call.method == "find"


def test_of_a_plan_it_runs_once_its_plan_was_read_after_the_claim(
    world: World, store: Store
) -> None:
    world.go_on(a_step_under_way(world, store, "running"))
    (only,) = world.lives
    (licence,) = [one for one in world.sent_by(only) if one.call.collection in (JOBS, PLANS)]
    assert is_licence(licence), "nothing is read back"
    assert not world.runs, "a claim is not yet a licence"
    world.go_on(licence)
    assert [(run.seq, run.attempt) for run in world.runs] == [(1, 1)]


def test_of_a_plan_that_stops_it_is_refused(world: World, store: Store) -> None:
    world.go_on(a_step_under_way(world, store, "stopping"))
    world.flow_until(lambda _: facts(world)[0] == "cancelled")
    assert not world.runs


@pytest.mark.parametrize("fate", ["lose", "lose_answer", "give_up"])
def test_of_a_plan_whose_licence_is_not_answered_it_waits_for_it(
    world: World, store: Store, fate: str
) -> None:
    world.go_on(a_step_under_way(world, store, "running"))
    getattr(world, fate)(world.flow_until(is_licence))
    assert not world.runs
    world.flow_until(lambda _: bool(world.runs))
    assert [(run.seq, run.attempt) for run in world.runs] == [(1, 1)]


def test_a_lost_answer_leaves_it_pending_until_the_node_gives_it_back(world: World) -> None:
    (only,) = listeners(world)
    claim = claim_under_way(world)
    world.lose_answer(claim)
    assert facts(world) == ("working", 1, 0), "the claim has landed"
    (entry,) = only.node.claims
    assert (entry.seq, entry.status, entry.raw) == (1, Status.PENDING, b""), (
        "what it is was in the answer"
    )
    assert not world.runs
    world.flow_until(lambda _: facts(world)[0] == "queued")
    assert only.node.claims.get(1) is None or not world.runs
    world.calm_down()
    assert facts(world) == ("done", 2, 0), "given back at no cost, and run once"
    assert [(run.seq, run.attempt) for run in world.runs] == [(1, 2)]


def test_a_claim_that_never_arrived_is_made_again(world: World) -> None:
    listeners(world)
    world.lose(claim_under_way(world))
    world.calm_down()
    assert facts(world) == ("done", 1, 0)
    assert len(world.runs) == 1


def test_a_claim_that_lands_after_the_node_has_given_it_up_is_given_back(world: World) -> None:
    (only,) = listeners(world)
    claim = claim_under_way(world)
    world.give_up(claim)
    world.flow_until(lambda _: 1 not in only.node.claims)
    world.land_late(claim)
    world.calm_down()
    assert facts(world)[0] == "done"
    assert len(world.runs) == 1


def test_a_node_that_dies_with_its_claim_under_way_leaves_the_job_to_others(world: World) -> None:
    listeners(world, 2)
    claim = claim_under_way(world)
    owner = world.owner_of(claim.sender)
    assert owner is not None
    world.crash(owner)
    world.land_late(claim)
    assert facts(world) == ("working", 1, 0)
    world.live_on(A_LEASE, ending=True)
    world.calm_down()
    assert facts(world) == ("done", 2, 1)
    assert len(world.runs) == 1


def test_a_node_that_sleeps_through_the_answer_and_its_lease_does_not_start_it(
    world: World,
) -> None:
    listeners(world, 2)
    claim = claim_under_way(world)
    owner = world.owner_of(claim.sender)
    assert owner is not None
    world.land(claim)
    world.freeze(owner)
    world.live_on(A_LEASE, ending=True)
    world.thaw(owner)
    world.go_on(claim)
    world.calm_down()
    assert facts(world)[0] == "done"
    assert len(world.runs) == 1


def test_only_the_member_whose_share_it_is_reaches_for_it(world: World) -> None:
    first, second = listeners(world, 2)
    claim = claim_under_way(world)
    owners = {life for life in (first, second) if claim.sender in life.ids}
    assert len(owners) == 1
    (other,) = {first, second} - owners
    assert not [one for one in world.sent_by(other) if is_claim(one.call)]


def test_a_node_without_a_free_slot_does_not_reach_for_it(world: World) -> None:
    (only,) = listeners(world)
    world.go_on(claim_under_way(world))
    assert len(world.runs) == 1
    world.submit()
    world.go_on(world.flow_until(is_insert))
    assert not [one for one in world.sent_by(only) if is_announced_claim(one.call)]
    world.calm_down()
    assert facts(world, 2) == ("done", 1, 0)


def test_a_ring_of_a_job_that_ended_long_ago_changes_nothing(world: World) -> None:
    (only,) = listeners(world)
    world.go_on(claim_under_way(world))
    world.end_tasks()
    world.live_on(STEP)
    before = world.history.by_seq(1)
    for _ in range(3):
        world.announce(only, Hint(JOBS, 1, 1, is_fresh=True))
        world.flow()
    assert world.history.by_seq(1) == before
    world.calm_down()
    assert len(world.runs) == 1


def test_a_paused_node_does_not_collect_what_it_hears(world: World) -> None:
    (only,) = listeners(world)
    only.node.claimer.is_open = False
    for seq in range(1, 1000):
        only.hear(Hint(JOBS, seq, seq, is_fresh=True))
    assert len(only.node.turns[0]._announced) <= 2


TROUBLES = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(["", "land", "lose", "lose_answer", "give_up"]),
        st.sampled_from(["", "", "", "crash", "freeze"]),
        st.sampled_from([0.0, 0.05, 0.5, STEP, A_LEASE]),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.timeout(0 if MANY else 180)
@settings(
    max_examples=MANY or EVERYDAY,
    derandomize=not MANY,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(nodes=st.integers(1, 3), slots=st.integers(1, 2), troubles=TROUBLES)
def test_whatever_becomes_of_one_claim_after_the_other_every_job_ends_once(
    store: Store, nodes: int, slots: int, troubles: list[tuple[bool, str, str, float]]
) -> None:
    world = World(store.database)
    try:
        listeners(world, nodes, slots)
        for is_there, fate, then, seconds in troubles:
            if not world.awake:
                listeners(world)
            world.submit()
            with contextlib.suppress(LookupError):
                claim = world.flow_until(claims, within=1.0)
                for message in world.asked("submit") if is_there else ():
                    world.go_on(message)
                owner = world.owner_of(claim.sender)
                if fate:
                    getattr(world, fate)(claim)
                if then and owner is not None:
                    getattr(world, then)(owner)
            world.live_on(seconds, ending=True)
        world.calm_down()
        assert {job["state"] for job in world.history.jobs.values()} == {"done"}
        assert len(world.history.jobs) == len(troubles)
    finally:
        world.close()
