"""A paused node: at rest, with nothing left in doubt and nothing kept from others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.interleaving.history import is_claim
from tests.support.interleaving.network import Message
from tests.support.interleaving.world import STEP, World
from tontine.records.states import Desired, NodeState
from tontine.store.call import Store
from tontine_node.claims import Status


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


def lose_jobs_until(world: World, condition: Callable[[], bool]) -> None:
    """Calls about jobs are lost, all others arrive."""
    while not condition():
        for message in list(world.network.in_flight):
            (world.lose if message.call.collection == "jobs" else world.go_on)(message)
        world.pass_time(0.5)


def test_a_paused_node_that_gave_jobs_back_rests(world: World) -> None:
    life = world.start_node()
    world.live_on(STEP)
    world.submit(3)
    world.flow_until(lambda _: bool(world.running))
    world.ask_node(life, Desired.PAUSED)
    world.live_on(STEP)
    assert len(life.node.claims) == 1, "two were given back"
    world.end_tasks()
    world.live_on(
        2 * STEP
    )  # a loop that does not rest never comes to the end of a moment, and that is a violation
    assert life.node.state is NodeState.PAUSED


@pytest.mark.parametrize("desired", [Desired.PAUSED, Desired.STOPPED])
def test_a_claim_in_doubt_is_resolved_and_given_back_before_a_node_pauses_or_stops(
    world: World, desired: Desired
) -> None:
    life = world.start_node()
    world.live_on(STEP)
    world.submit()
    world.lose_answer(world.flow_until(lambda message: is_claim(message.call)))
    world.ask_node(life, desired)
    lose_jobs_until(
        world, lambda: life.node.beat.desired is desired and life.node.claimer.has_doubts
    )
    assert [entry.status for entry in life.node.claims] == [Status.PENDING]
    world.live_on(5 * STEP)
    assert world.history.nodes[life.node.id]["state"] == (
        "paused" if desired is Desired.PAUSED else "dead"
    )
    job = world.history.by_seq(1)
    assert (job["state"], job["attempt"], job["lost"]) == ("queued", 1, 0), "given back at no cost"
    world.calm_down()


def test_a_move_that_was_given_up_and_lands_late_does_not_stay(world: World) -> None:
    life = world.start_node()
    world.live_on(STEP)
    world.ask_node(life, Desired.PAUSED)
    world.live_on(3 * STEP)
    assert life.node.state is NodeState.PAUSED
    world.ask_node(life, Desired.RUNNING)
    moving = world.flow_until(lambda message: moves_to(message, NodeState.WAITING))
    world.give_up(moving)
    world.live_on(3 * STEP)
    world.ask_node(life, Desired.PAUSED)
    world.live_on(3 * STEP)
    assert life.node.state is NodeState.PAUSED
    world.land_late(moving)
    assert world.history.nodes[life.node.id]["state"] == "waiting", "which it is not"
    world.live_on(3 * STEP)
    assert world.history.nodes[life.node.id]["state"] == "paused"


def moves_to(message: Message, state: NodeState) -> bool:
    call = message.call
    return (
        call.collection == "nodes"
        and call.method == "update_one"
        and call.args[1][0]["$set"].get("state") == state
    )
