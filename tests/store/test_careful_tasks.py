"""A task that must not run twice does not, however its worker ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.interleaving.life import TIMING, Life
from tests.support.interleaving.worker import CAREFUL, TASK, hello_with
from tests.support.interleaving.world import STEP, World
from tontine.store import members
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


def test_one_that_came_with_a_later_worker_is_failed_after_its_node_died(world: World) -> None:
    """The files of a module changed, and a worker was replaced: what it has is news (MO7)."""
    life = world.start_node(hello=hello_with(TASK))
    world.live_on(STEP)
    world.submit(1, TASK)
    world.flow_until(lambda _: bool(world.running))
    life.hello = hello_with(TASK, CAREFUL)
    _, worker, run = world.running[0]
    world.end_task(worker, run, "crashed")
    world.live_on(3 * STEP)
    world.end_tasks()
    world.submit(1, CAREFUL)
    world.flow_until(lambda _: any(run.seq == 2 for _, _, run in world.running))
    assert CAREFUL in world.history.nodes[life.node.id]["careful"]
    world.crash(life)
    world.start_node(hello=hello_with(TASK))
    world.live_on(TIMING.lease_for + 2 * STEP)
    world.live_on(STEP)
    assert world.history.by_seq(2)["state"] == "failed"


def test_no_key_is_claimed_before_the_record_says_that_it_must_not_run_twice(
    world: World,
) -> None:
    world.submit(1, CAREFUL)
    world.flow()
    world.start_node()
    noting = world.flow_until(lambda message: "careful_changes" in str(message.call.args))
    world.pass_time(0.1)
    assert world.history.by_seq(1)["state"] == "queued"
    world.lose_answer(noting)  # it is unknown whether it landed
    world.flow_until(lambda _: bool(world.running))


def test_a_key_stays_as_long_as_a_job_of_it_is_in_the_table(world: World, life: Life) -> None:
    """Also when no worker has it any more."""
    (dispatcher,) = life.node.contexts
    for child in dispatcher.pool.children.values():
        child.hello = hello_with(TASK)
    dispatcher._renew()
    world.live_on(STEP)
    assert world.history.nodes[life.node.id]["careful"] == [CAREFUL]
    world.end_tasks()
    world.live_on(STEP)
    world.live_on(STEP)
    assert world.history.nodes[life.node.id]["careful"] == []


def test_a_note_that_lands_late_takes_nothing_back(store: Store) -> None:
    store.database.nodes.insert_one({"_id": "x", "state": "waiting", "beat": 1})
    late = [["a"], [], ["a", "b"]]
    for number, keys in enumerate(late, 1):
        assert store.run(members.note_careful("x", keys, number)).is_so
    for number, keys in enumerate(late[:2], 1):
        assert not store.run(members.note_careful("x", keys, number)).is_so
    assert store.run(members.note_careful("x", ["a", "b"], 3)).is_so  # made again
    assert store.database.nodes.find_one({"_id": "x"})["careful"] == ["a", "b"]
