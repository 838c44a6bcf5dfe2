"""What a node's record says of its modules (MI4) and its share stays true, also when a write that
was given up lands after a later one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.interleaving.network import Message
from tests.support.interleaving.worker import RARE, TASK, hello_with
from tests.support.interleaving.world import STEP, World
from tontine.store.call import Store
from tontine.store.names import NODES


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


def test_a_late_write_does_not_bring_back_what_is_gone(world: World, store: Store) -> None:
    life = world.start_node(hello=hello_with(TASK))
    world.live_on(STEP)

    def shown() -> set[str]:
        record = store.database.nodes.find_one({"_id": life.node.id}) or {}
        return {task for module in record["modules"] for task in module["tasks"]}

    def tells_of_it(message: Message) -> bool:
        call = message.call
        is_told = call.collection == NODES and "careful" not in str(call.args)
        return is_told and message.is_write and RARE in str(call.args)

    def replace_worker(*tasks: str) -> None:
        life.hello = hello_with(*tasks)
        world.submit(1, TASK)
        world.flow_until(lambda _: bool(world.running))
        _, worker, run = world.running[0]
        world.end_task(worker, run, "crashed")

    replace_worker(TASK, RARE)
    late = world.flow_until(tells_of_it)
    world.give_up(late)
    replace_worker(TASK)
    world.live_on(60 * STEP, ending=True)
    assert shown() == {TASK}
    world.land_late(late)
    assert shown() == {TASK, RARE}
    world.live_on(10.0, ending=True)
    assert shown() == {TASK}


def test_a_late_write_does_not_bring_back_an_old_share(world: World, store: Store) -> None:
    life = world.start_node(hello=hello_with(TASK))
    world.live_on(STEP)

    def shown() -> object:
        return (store.database.nodes.find_one({"_id": life.node.id}) or {}).get("share")

    def tells_of_it(message: Message) -> bool:
        is_ours = life.node.id in str(message.call.args)
        return (
            message.call.collection == NODES and is_ours and "'size': 2" in str(message.call.args)
        )

    other = world.start_node(hello=hello_with(TASK))
    late = world.flow_until(tells_of_it)
    world.give_up(late)
    world.stop(other)
    world.live_on(60 * STEP, ending=True)
    assert shown() == life.node.member.share_document()
    world.land_late(late)
    assert shown() != life.node.member.share_document()
    world.live_on(10.0, ending=True)
    assert shown() == life.node.member.share_document()
