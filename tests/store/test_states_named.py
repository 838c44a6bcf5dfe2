"""Named states in the store: a version only grows, whoever sets it at the same time (MI7)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.interleaving.network import Message
from tests.support.interleaving.worker import RARE, TASK, hello_with
from tests.support.interleaving.world import STEP, World
from tontine import ConfigError
from tontine.store import claim, states
from tontine.store.call import Store
from tontine.store.names import STATES
from tontine.store.states import LARGEST

KEY = "shop/prices"


def set_to(store: Store, value: Any, if_version: int | None = None) -> int:
    steps = states.set_state(KEY, repr(value).encode(), value, by="me", if_version=if_version)
    return store.run(steps).version


def test_every_value_has_the_next_version_also_after_a_removal(store: Store) -> None:
    assert [set_to(store, value) for value in ("a", {"$x": [1, None]})] == [1, 2]
    found = store.run(states.read_state(KEY))
    assert found is not None
    assert (found.data, found.version, found.by, found.bytes) == ({"$x": [1, None]}, 2, "me", 17)
    assert store.run(states.remove_state(KEY))
    assert store.run(states.read_state(KEY)) is None
    assert not store.run(states.remove_state(KEY))
    assert set_to(store, b"x", if_version=0) == 4
    assert [one.version for one in store.run(states.list_states(["shop"]))] == [4]
    assert store.run(states.list_states(["other"])) == []
    assert store.run(claim.overview()).state_changes == 4


def test_a_condition_that_does_not_hold_changes_nothing(store: Store) -> None:
    set_to(store, 1)
    with pytest.raises(ConfigError, match="is at version 1, not 0"):
        set_to(store, 2, if_version=0)
    assert set_to(store, 2, if_version=1) == 2


def test_set_by_many_at_once_each_has_a_version_of_its_own(store: Store) -> None:
    with ThreadPoolExecutor(4) as many:
        versions = list(many.map(lambda value: set_to(store, value), range(16)))
    assert sorted(versions) == list(range(1, 17))
    found = store.run(states.read_state(KEY))
    assert found is not None
    assert found.version == 16


def test_of_two_with_the_same_condition_one_wins(store: Store) -> None:
    set_to(store, "first")
    steps = [states.set_state(KEY, b"x", value, by="me", if_version=1) for value in ("one", "two")]
    calls = [next(one) for one in steps]
    # Both have read version 1 before either writes.
    writes = [one.send(store._answer(call)) for one, call in zip(steps, calls, strict=True)]
    answers = [store._answer(call) for call in writes]
    assert [answer.modified_count for answer in answers] == [1, 0]
    again = steps[1].send(answers[1])
    with pytest.raises(ConfigError, match="is at version 2, not 1"):
        steps[1].send(store._answer(again))


@pytest.mark.parametrize("key", ["prices", "shop/", "/x", "shop/a b", "sh op/x", "a/b/c", ""])
def test_what_cannot_name_a_state_is_refused(store: Store, key: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a state"):
        store.run(states.set_state(key, b"", 1, by="me"))


def test_what_is_too_large_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="4 MB"):
        store.run(states.set_state(KEY, b"x" * (LARGEST + 1), b"", by="me"))


def test_what_is_small_as_text_and_too_large_as_a_value_is_refused_with_a_way_out(
    store: Store,
) -> None:
    text, value = b"[" + b"1," * 1_899_999 + b"1]", [1] * 1_900_000
    assert len(text) < LARGEST
    with pytest.raises(ConfigError, match=r"more than 16 MB as the value that it is.*--bytes"):
        store.run(states.set_state(KEY, text, value, by="me"))
    store.run(states.set_state(KEY, text, text, by="me"))


@pytest.mark.parametrize("odd", [None, "x", 1.5, -1, True, [1]], ids=str)
def test_odd_documents_are_no_states(store: Store, odd: Any) -> None:
    store.database.get_collection("states").insert_one(
        {"_id": "shop/odd", "module": "shop", "name": "odd", "version": odd},
        bypass_document_validation=True,
    )
    set_to(store, 1)
    assert [one.key for one in store.run(states.list_states(["shop"]))] == [KEY]
    store.database.cluster.update_one(
        {"_id": "states"}, {"$set": {"changes": odd}}, bypass_document_validation=True
    )
    assert isinstance(store.run(claim.overview()).state_changes, int)


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


def test_nothing_of_a_module_begins_before_its_states_were_read(world: World, store: Store) -> None:
    """A worker brings a module that the node did not have; reading what it has takes long."""
    life = world.start_node(hello=hello_with(TASK))
    world.live_on(STEP)
    world.submit(1, TASK)
    world.flow_until(lambda _: bool(world.running))
    life.hello = hello_with(TASK, RARE)
    _, worker, run = world.running[0]
    world.submit(1, RARE)
    world.end_task(worker, run, "crashed")

    def asks_for_states(message: Message) -> bool:
        return message.call.collection == STATES and "'u'" in str(message.call.args)

    world.flow_until(asks_for_states)
    for _ in range(40):
        for message in list(world.network.in_flight):
            if not asks_for_states(message):
                world.go_on(message)
        world.end_tasks()
        world.pass_time(0.5)
    assert not any(run.seq == 2 for run in world.runs), "it would lack what is there"
    world.flow_until(lambda _: any(run.seq == 2 for run in world.runs))
