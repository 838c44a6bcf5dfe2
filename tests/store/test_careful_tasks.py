"""A task that must not run twice does not, however its worker ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.interleaving.life import TIMING, Life
from tests.support.interleaving.worker import CAREFUL
from tests.support.interleaving.world import STEP, World
from tontine.store.call import Store


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


@pytest.fixture
def life(world: World) -> Life:
    """A node that runs a careful task."""
    life = world.start_node()
    world.live_on(STEP)
    world.submit(1, CAREFUL)
    world.flow_until(lambda _: bool(world.running))
    return life


def how_it_ended(world: World) -> tuple[str, int, int]:
    world.calm_down()
    job = world.history.by_seq(1)
    return job["state"], job["attempt"], job["lost"]


def test_after_a_fence_it_is_failed(world: World, life: Life) -> None:
    while life.node.beat.has_lease():
        for message in list(world.network.in_flight):
            world.lose(message)
        world.pass_time(1.0)
    assert not world.running
    assert how_it_ended(world) == ("failed", 1, 1)
    assert "the lease ran out" in world.history.by_seq(1)["error"]["message"]


def test_after_its_worker_crashed_it_is_failed(world: World, life: Life) -> None:
    _, worker, run = world.running[0]
    world.end_task(worker, run, "crashed")
    assert how_it_ended(world) == ("failed", 1, 1)


def test_after_its_node_died_it_is_failed(world: World, life: Life) -> None:
    world.crash(life)
    world.start_node()
    world.live_on(TIMING.lease_for + 2 * STEP)
    assert how_it_ended(world) == ("failed", 1, 1)


def test_on_a_node_that_is_told_to_stop_twice_it_is_failed(world: World, life: Life) -> None:
    world.stop(life)
    world.stop(life)
    world.live_on(STEP)
    assert how_it_ended(world) == ("failed", 1, 1)
