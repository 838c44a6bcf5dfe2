"""A node with nothing to do asks the store for little: counted in calls per simulated minute, never
in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.interleaving.network import Message
from tests.support.interleaving.worker import TASK
from tests.support.interleaving.world import World
from tontine.records.states import NodeState
from tontine.store import insert
from tontine.store.call import Store
from tontine.store.insert import Wish

TICK = 0.05
HEARTBEATS = 32
FIRST, OTHERS = 238, 198
"""Calls in a minute: of the member that looks for raw jobs and new plans, and of each other one."""
OF_MANY = 95
"""Of each of many, who share what any of them can do."""
POLLING = 570


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


def calls_in_a_minute(world: World) -> Counter[str]:
    """What all nodes ask for in a minute, by collection and method."""
    calls: Counter[str] = Counter()
    sent = world.network.sent

    def count(message: Message) -> None:
        calls[f"{message.call.collection}.{message.call.method}"] += 1
        sent(message)

    world.network.sent = count
    for _ in range(round(60 / TICK)):
        world.pass_time(TICK)
        world.flow()
    world.network.sent = sent
    return calls


@pytest.mark.long
def test_each_of_many_asks_for_less(world: World) -> None:
    nodes = 24
    for number in range(nodes):
        world.start_node(f"n{number}", hears=True)
    world.live_on(90.0)
    assert {life.node.turns[0].lanes.fewest for life in world.lives} == {nodes}
    calls = calls_in_a_minute(world)
    assert calls.total() <= FIRST + OF_MANY * (nodes - 1), calls


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_node_that_hears_the_bell_looks_seldom(world: World, nodes: int) -> None:
    for _ in range(nodes):
        world.start_node(hears=True)
    world.live_on(90.0)
    calls = calls_in_a_minute(world)
    assert calls["nodes.find_one_and_update"] <= HEARTBEATS * nodes
    assert calls["cluster.find"] <= 15 * nodes, calls
    assert calls.total() <= FIRST + OTHERS * (nodes - 1), calls


def test_a_node_that_only_polls_looks_more_often_but_not_without_bound(world: World) -> None:
    world.start_node()
    world.live_on(90.0)
    calls = calls_in_a_minute(world)
    assert calls.total() <= POLLING, calls


def test_a_node_that_did_something_calms_down_again(world: World) -> None:
    world.start_node(hears=True)
    world.live_on(10.0)
    world.submit(20)
    world.live_on(90.0, ending=True)
    calls = calls_in_a_minute(world)
    assert calls.total() <= FIRST, calls


def test_jobs_that_wait_for_their_time_are_not_looked_at_again_and_again(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tontine_node.claiming.postponed.DUE_EVERY", 3600.0
    )  # so that they are soon due, and not due by the end
    store.run(insert.submit_many(Wish(TASK, delay=1000.0), [{}] * 50))
    world.start_node(hears=True)
    world.live_on(90.0)
    calls = calls_in_a_minute(world)
    assert calls.total() <= FIRST, calls


def test_a_node_that_was_idle_soon_looks_after_what_comes_in(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tontine_node.node.CONTROL_IDLE_EVERY", 3600.0)
    life = world.start_node(hears=True)
    world.live_on(90.0)
    world.submit(1)
    world.live_on(10.0)
    assert world.running
    assert life.node.state is NodeState.WORKING
