"""The checks of the interleavings can fail: each condition of the protocol, once taken away, is
missed.

Every story goes well as long as the product is whole; with its fault planted it ends in one of the
named violations. The product's own auditor hears of the same changes, and must notice each fault
that documents can show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from pymongo import MongoClient

from tests.support.interleaving.history import (
    Violation,
    is_announced_claim,
    is_claim,
    is_roster_change,
)
from tests.support.interleaving.life import TIMING, Life
from tests.support.interleaving.network import Message
from tests.support.interleaving.planted import FAULTS, NONE
from tests.support.interleaving.world import STEP, World
from tontine.records.states import NodeState
from tontine.store import schema
from tontine.store.call import Store

pytestmark = pytest.mark.long

A_LEASE = TIMING.lease_for + 2 * STEP


def is_settlement(message: Message) -> bool:
    return (
        message.is_write
        and message.call.collection == "jobs"
        and message.sender[1] == "-"
        and not is_numbering(message)
    )


def is_numbering(message: Message) -> bool:
    return message.call.method == "bulk_write" and message.call.args[0][0]._filter.keys() == {
        "_id",
        "seq",
    }


def is_beat(message: Message) -> bool:
    return message.call.collection == "nodes" and message.call.method == "find_one_and_update"


def is_burial(message: Message) -> bool:
    return (
        message.call.collection == "nodes" and message.is_write and "beat" in message.call.args[0]
    )


def claims(message: Message) -> bool:
    return is_claim(message.call)


def claims_announced(message: Message) -> bool:
    return is_announced_claim(message.call)


def changes_roster(message: Message) -> bool:
    return is_roster_change(message.call)


def by(life: Life, match: Callable[[Message], bool]) -> Callable[[Message], bool]:
    return lambda message: message.sender in life.ids and match(message)


def nodes(world: World, count: int) -> list[Life]:
    lives = [world.start_node() for _ in range(count)]
    world.live_on(2 * STEP)
    return lives


def listeners(world: World, count: int) -> list[Life]:
    lives = nodes(world, count)
    for life in lives:
        life.hears = True
    return lives


def run_one(world: World) -> None:
    world.submit()
    world.flow_until(lambda _: bool(world.running))


def end_one(world: World) -> None:
    _, worker, run = world.running[0]
    world.end_task(worker, run, "done")


def a_settlement_lands_again_in_the_next_life(world: World) -> None:
    nodes(world, 1)
    run_one(world)
    end_one(world)
    world.give_up(world.flow_until(is_settlement))
    world.live_on(STEP)
    world.retry(1)
    world.flow_until(lambda _: bool(world.running))
    end_one(world)
    world.land_late(world.network.given_up[0])


def a_settlement_lands_twice(world: World) -> None:
    nodes(world, 1)
    run_one(world)
    end_one(world)
    world.give_up(world.flow_until(is_settlement))
    world.live_on(STEP)
    world.land_late(world.network.given_up[0])


def a_zombie_settles(world: World) -> None:
    nodes(world, 2)
    run_one(world)
    zombie = world.running[0][0]
    world.freeze(zombie)
    world.flow_until(lambda _: bool(world.running))
    world.thaw(zombie, reports_first=True)
    world.live_on(STEP)


def a_job_is_cancelled_before_its_claim_lands(world: World) -> None:
    nodes(world, 1)
    world.submit()
    cancel_before(world, world.flow_until(claims))


def a_job_is_cancelled_before_its_announced_claim_lands(world: World) -> None:
    listeners(world, 1)
    world.submit()
    world.flow_until(
        lambda message: message.sender == "submit" and message.call.collection == "jobs"
    )
    claim = world.flow_until(claims_announced)
    insert = next(message for message in world.network.in_flight if message.sender == "submit")
    world.go_on(insert)
    cancel_before(world, claim)


def cancel_before(world: World, claim: Message) -> None:
    world.cancel(1)
    for message in [message for message in world.network.in_flight if message.sender == "cancel"]:
        world.go_on(message)
    world.flow_until(lambda message: message.sender == "cancel" and message.is_write)
    world.go_on(next(message for message in world.network.in_flight if message.sender == "cancel"))
    world.go_on(claim)


def a_claim_lands_after_the_next_attempt(world: World) -> None:
    nodes(world, 1)
    world.submit()
    give_up_until_the_next_attempt(world, world.flow_until(claims))


def an_announced_claim_lands_after_the_next_attempt(world: World) -> None:
    listeners(world, 1)
    world.submit()
    give_up_until_the_next_attempt(world, world.flow_until(claims_announced))


def give_up_until_the_next_attempt(world: World, claim: Message) -> None:
    world.give_up(claim)
    world.flow_until(lambda _: bool(world.running))
    _, worker, run = world.running[0]
    world.end_task(worker, run, "failed")
    world.go_on(world.flow_until(is_settlement))
    world.flow_until(claims)
    world.land_late(world.network.given_up[0])


def a_node_dies_while_two_others_work(world: World) -> None:
    first = nodes(world, 3)[0]
    world.submit(6)
    world.flow_until(lambda _: len(world.running) == 3)
    world.crash(first)
    world.live_on(A_LEASE)


def a_number_lands_after_another(world: World) -> None:
    nodes(world, 2)
    world.insert_raw({"task": "t.plain"})
    numberer = world.owner_of(world.flow_until(is_numbering).sender)
    assert numberer is not None
    world.crash(numberer)
    world.flow_until(lambda _: any(job.get("attempt") for job in world.history.jobs.values()))
    world.land_late(next(message for message in world.network.given_up if is_numbering(message)))


def a_beat_lands_after_the_burial(world: World) -> None:
    first = nodes(world, 2)[0]
    world.give_up(world.flow_until(by(first, is_beat)))
    world.freeze(first)
    world.live_on(A_LEASE)
    world.land_late(world.network.given_up[0])


def a_burial_lands_after_the_next_beat(world: World) -> None:
    first = nodes(world, 2)[0]
    world.freeze(first)
    burial = world.flow_until(is_burial)
    world.thaw(first)
    world.pass_time(0.5)
    world.go_on(next(message for message in world.network.in_flight if by(first, is_beat)(message)))
    world.go_on(burial)


def two_join_at_once(world: World) -> None:
    first, second = world.start_node(), world.start_node()
    joining = [world.flow_until(by(life, changes_roster)) for life in (first, second)]
    for message in joining:
        world.go_on(message)


def a_job_is_retried(world: World) -> None:
    nodes(world, 1)
    run_one(world)
    end_one(world)
    world.live_on(STEP)
    world.retry(1)
    world.live_on(STEP)


def a_running_job_is_cancelled(world: World) -> None:
    nodes(world, 1)
    run_one(world)
    world.cancel(1)
    world.live_on(STEP)


def a_claim_is_long_without_its_answer(world: World) -> None:
    nodes(world, 1)
    world.submit()
    claim = world.flow_until(claims)
    world.land(claim)
    for _ in range(10):
        world.pass_time(0.5)
        while others := [message for message in world.network.in_flight if message is not claim]:
            world.go_on(others[0])
    world.answer(claim)


def beats_are_lost_while_jobs_arrive(world: World) -> None:
    (only,) = nodes(world, 1)
    live_without_beats(world, only, 10.0, hold=None)
    world.submit()
    look = live_without_beats(world, only, 4.0, hold=is_look_up)
    assert look is not None
    live_without_beats(world, only, 6.0, hold=is_look_up)
    world.go_on(look)  # what it tells is claimed, unless the lease has run out meanwhile


def live_without_beats(
    world: World, life: Life, seconds: float, hold: Callable[[Message], bool] | None
) -> Message | None:
    """All goes well but for its beats, and but for the call to hold."""
    until = world.clock.now() + seconds
    while world.clock.now() < until:
        for message in list(world.network.in_flight):
            if message in world.network.in_flight and not (hold and hold(message)):
                (world.lose if by(life, is_beat)(message) else world.go_on)(message)
        world.pass_time(0.2)
    return next(filter(hold, world.network.in_flight), None) if hold else None


def is_look_up(message: Message) -> bool:
    return message.call.method == "find" and message.call.options.get("hint") == "seq"


def nobody_can_write_for_long(world: World) -> None:
    _, second = nodes(world, 2)
    for _ in range(25):
        for message in list(world.network.in_flight):
            if message in world.network.in_flight:
                (world.lose if message.is_write else world.go_on)(message)
        world.pass_time(2.0)
    for _ in range(10):
        # The store is back, but the second node has not beaten yet: the first one must not hold
        # that against it.
        for message in list(world.network.in_flight):
            if message in world.network.in_flight and not by(second, is_beat)(message):
                world.go_on(message)
        world.pass_time(1.0)
    world.live_on(A_LEASE)
    if dead := [
        record["_id"]
        for record in world.history.nodes.values()
        if record["state"] == NodeState.DEAD
    ]:
        raise Violation("L2", f"an outage killed {dead}")


@dataclass(frozen=True)
class Planted:
    """A story, and what it comes to with a fault in the product."""

    fault: str
    story: Callable[[World], None]
    noticed_as: str
    audited_as: str = ""
    """What the product's auditor calls it; empty where documents do not show it: whose result it
    is, what ran, and when a lease ran out in the eyes of the node itself."""


PLANTED = [
    Planted("a settlement without its attempt", a_settlement_lands_again_in_the_next_life, "S2"),
    Planted("a settlement without `working`", a_settlement_lands_twice, "S1", "S1"),
    Planted("a settlement by seq alone", a_zombie_settles, "S2 S3"),
    Planted("a claim without `queued`", a_job_is_cancelled_before_its_claim_lands, "S1", "S1"),
    Planted("a claim without its attempt", a_claim_lands_after_the_next_attempt, "S4", "S4"),
    Planted(
        "an announced claim without `queued`",
        a_job_is_cancelled_before_its_announced_claim_lands,
        "S1",
        "S1",
    ),
    Planted(
        "an announced claim without its attempt",
        an_announced_claim_lands_after_the_next_attempt,
        "S4",
        "S4",
    ),
    Planted("a repair of everybody's jobs", a_node_dies_while_two_others_work, "S2 S3", "S2"),
    Planted("a number for a job that has one", a_number_lands_after_another, "S7", "S4 S7"),
    Planted("a heartbeat of the dead", a_beat_lands_after_the_burial, "S6", "S6"),
    Planted("a burial without the beat", a_burial_lands_after_the_next_beat, "S8", "S8"),
    Planted("a roster written over another", two_join_at_once, "S5", "S5"),
    Planted("a retry from attempt zero", a_job_is_retried, "S4", "S4"),
    Planted("a cancel of what runs", a_running_job_is_cancelled, "S3", "S2"),
    Planted("a reconcile that forgets pending claims", a_claim_is_long_without_its_answer, "S2"),
    Planted("a node that ignores its lease", beats_are_lost_while_jobs_arrive, "M4"),
    Planted("a watcher that trusts its own eyes", nobody_can_write_for_long, "L2"),
]


def test_every_fault_has_its_story() -> None:
    assert [planted.fault for planted in PLANTED] == list(FAULTS)


@pytest.fixture(scope="module")
def store(mongo_client: MongoClient[dict[str, object]]) -> Iterator[Store]:
    """One database for all: a new world empties it."""
    store = Store(mongo_client["planted_faults"])
    store.run(schema.init())
    yield store
    mongo_client.drop_database("planted_faults")


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.story.__name__)
def test_the_story_goes_well(store: Store, planted: Planted) -> None:
    world = World(store.database, NONE)
    try:
        planted.story(world)
        world.calm_down()
    finally:
        world.close()


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.fault)
def test_the_fault_is_noticed(store: Store, planted: Planted) -> None:
    world = World(store.database, FAULTS[planted.fault])
    try:
        with pytest.raises(Violation) as caught:
            planted.story(world)
        assert caught.value.invariant in planted.noticed_as.split()
        assert {found.invariant for found in world.auditor.findings} == set(
            planted.audited_as.split()
        )
    finally:
        world.close()
