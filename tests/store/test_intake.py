"""(1) Who looks into the inbox: nobody where there is none, one member often, the others when that
one does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.interleaving.network import Message
from tests.support.interleaving.worker import TASK
from tests.support.interleaving.world import World
from tontine.store import inbox, names
from tontine.store.call import Call, Store

TICK = 0.05


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


def looks_in_a_minute(world: World) -> Counter[str]:
    """How often each node asks for something of the inbox."""
    looks: Counter[str] = Counter()
    sent = world.network.sent

    def count(message: Message) -> None:
        if is_about_inbox(message.call):
            looks[message.sender.partition("-")[0]] += 1
        sent(message)

    world.network.sent = count
    for _ in range(round(60 / TICK)):
        world.pass_time(TICK)
        world.flow()
    world.network.sent = sent
    return looks


def is_about_inbox(call: Call) -> bool:
    return call.collection == names.INBOX or (
        call.method == "command" and call.args[0].get("find") == names.INBOX
    )


def test_without_an_inbox_nobody_looks_and_with_one_the_others_seldom(
    world: World, store: Store
) -> None:
    first, other = world.start_node("a", hears=True), world.start_node("b", hears=True)
    world.live_on(30.0)
    assert not looks_in_a_minute(world)
    store.run(inbox.make())
    world.live_on(30.0)
    looks = looks_in_a_minute(world)
    rank = {life.name: life.node.member.roster.share_of(life.node.id) for life in (first, other)}
    by_rank = {share.rank: looks[name] for name, share in rank.items() if share}
    assert 50 <= by_rank[0] <= 80
    assert 10 <= by_rank[1] <= 16


def test_another_member_takes_what_the_first_leaves_lying(world: World, store: Store) -> None:
    store.run(inbox.make())
    for name in "ab":
        world.start_node(name, hears=True)
    world.live_on(10.0)
    first = next(
        life for life in world.lives if (share := life.node.member.shown_share) and share.rank == 0
    )
    other = next(life for life in world.lives if life is not first)
    first.node.intake._is_open = lambda: False  # alive, and stuck
    store.database.inbox.insert_one({"task": TASK})
    world.live_on(30.0, ending=True)
    (job,) = store.database.jobs.find()
    assert job["state"] == "done"
    assert store.database.inbox.count_documents({}) == 0
    assert not other.node.troubles


COUNTS = {"attempt": 1, "fails": 0, "lost": 0}


def test_what_the_server_never_takes_is_told_and_holds_nobody_up(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tontine_node.claiming.intake.ASIDE_FOR", 60.0)
    store.run(inbox.make())
    # Somebody's own index, which nodes leave alone.
    only_once = {"unique": True, "partialFilterExpression": {"task": "t.bad"}}
    store.database.jobs.create_index("task", name="mine", **only_once)
    store.database.jobs.insert_one(
        {"_id": "first", "task": "t.bad", "state": "done", "seq": 0, **COUNTS}
    )
    life = world.start_node(hears=True)
    store.database.inbox.insert_many([{"task": "t.bad"}, {"task": TASK}])
    world.live_on(30.0, ending=True)
    assert [job["task"] for job in store.database.jobs.find({"_id": {"$ne": "first"}})] == [TASK]
    (trouble,) = life.node.troubles.to_document()
    assert (trouble["what"], trouble["times"]) == ("intake", 1)
    assert "1 document of the inbox" in trouble["why"]
    store.database.jobs.drop_index("mine")
    world.live_on(90.0, ending=True)
    assert store.database.jobs.count_documents({"task": "t.bad", "_id": {"$ne": "first"}}) == 1
    assert not life.node.troubles
