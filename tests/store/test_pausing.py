"""A paused node: at rest, with nothing left in doubt and nothing kept from others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.interleaving.world import STEP, World
from tontine.states import Desired, NodeState
from tontine.store.call import Store


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


def test_a_paused_node_that_gave_jobs_back_rests(world: World) -> None:
    life = world.start_node()
    world.live_on(STEP)
    world.submit(3)
    world.flow_until(lambda _: bool(world.running))
    world.ask_node(life, Desired.PAUSED)
    world.live_on(STEP)
    assert len(life.node.table) == 1, "two were given back"
    world.end_tasks()
    world.live_on(2 * STEP)  # a loop that does not rest never comes to the end of a moment, and that is a violation
    assert life.node.state is NodeState.PAUSED
