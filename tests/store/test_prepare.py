"""The first use makes the database ready, whoever comes first, and jobs that share a key or a
number are parted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bson
import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient, MongoClient

from tests.support import earlier_schema
from tests.support.mongod import mongod
from tontine import AsyncClient, Client
from tontine.errors import ConfigError, StoreError
from tontine.records.job import Job
from tontine.store import doubles, indexes, insert, number, read, schema
from tontine.store.call import Call, Store
from tontine.store.insert import Wish
from tontine.store.prepare import PreparedStore
from tontine.testing import Queue

AT_ONCE = 5


def submit(store: Store) -> None:
    Client(store.database).submit("t.t", key="c")


MAKE_SURE: dict[str, Callable[[Store], Any]] = {
    "init": lambda store: store.run(schema.init()),
    "a node": lambda store: store.run(schema.ensure()),
    "a client": submit,
}


@pytest.fixture
def bare(mongo_client: MongoClient[dict[str, object]], database: str) -> Store:
    return Store(mongo_client[database])


def job(**fields: Any) -> dict[str, Any]:
    return {
        "task": "t.t",
        "args": {},
        "state": "queued",
        "attempt": 0,
        "fails": 0,
        "lost": 0,
        **fields,
    }


def open_jobs(store: Store, key: str) -> list[dict[str, Any]]:
    return list(store.database.jobs.find({"key": key, "state": {"$in": ["queued", "working"]}}))


def test_a_producer_that_comes_first_finds_a_queue(bare: Store, mongo_uri: str) -> None:
    """Before: two jobs of one key, an error of the driver for `get`, and an index that could never
    be made."""
    with Client(mongo_uri, database=bare.database.name) as client:
        first, second = client.submit("t.t", key="k"), client.submit("t.t", key="k")
        assert (second.existed, second.seq) == (True, first.seq)
        assert client.get(first.seq or 0).key == "k"
    assert bare.run(schema.faults()) == []
    for make_sure in MAKE_SURE.values():
        make_sure(bare)
    assert len(open_jobs(bare, "k")) == 1


def test_of_many_who_come_first_at_once_one_adds_the_job(bare: Store, mongo_uri: str) -> None:
    barrier = threading.Barrier(AT_ONCE)

    def submit_first(_: int) -> Job:
        with Client(mongo_uri, database=bare.database.name) as client:
            barrier.wait()
            return client.submit("t.t", key="k")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = list(pool.map(submit_first, range(AT_ONCE)))
    assert sorted(job.existed for job in jobs) == [False, *[True] * (AT_ONCE - 1)]
    assert len({job.seq for job in jobs}) == 1
    assert bare.run(schema.faults()) == []


@pytest.mark.parametrize(
    "kind", ["client", "database", "async client", "async database", "motor", "uri"]
)
async def test_a_client_prepares_over_every_kind_of_handle(
    bare: Store, mongo_uri: str, kind: str
) -> None:
    name = bare.database.name
    source: Any = bare.database if kind == "database" else bare.database.client
    if kind in ("client", "database"):
        Client(source, database=name).submit("t.t", key="k")
    else:
        motor: Any = AsyncIOMotorClient(mongo_uri) if kind == "motor" else None
        async with AsyncMongoClient[dict[str, Any]](mongo_uri) as mongo:
            handles = {
                "async client": mongo,
                "async database": mongo[name],
                "motor": motor,
                "uri": mongo_uri,
            }
            async with AsyncClient(handles[kind], database=name) as client:
                jobs = await asyncio.gather(
                    *(client.submit("t.t", key="k") for _ in range(AT_ONCE))
                )
        assert len({job.seq for job in jobs}) == 1
        if motor is not None:
            motor.close()
    assert bare.run(schema.faults()) == []


class Counting(PreparedStore):
    """Remembers the calls it makes."""

    def __init__(self, database: Any, *, is_looking: bool = False) -> None:
        super().__init__(database, is_looking=is_looking)
        self.calls: list[Call] = []

    def _once(self, call: Call) -> Any:
        self.calls.append(call)
        return super()._once(call)


def test_a_queue_that_is_ready_costs_one_read_once(store: Store) -> None:
    counting = Counting(store.database)
    for _ in range(2):
        counting.run(read.now())
    assert [(call.collection, call.method) for call in counting.calls] == [
        ("cluster", "find_one"),
        ("", "command"),
        ("", "command"),
    ]


def test_looking_makes_no_queue_where_there_is_none_but_prepares_one_that_is(bare: Store) -> None:
    assert Counting(bare.database, is_looking=True).run(read.count_states())["queued"] == 0
    assert bare.database.list_collection_names() == []
    bare.database.jobs.insert_one({"task": "t.t"})
    Counting(bare.database, is_looking=True).run(read.count_states())
    assert list(bare.database.jobs.index_information()) == ["_id_"], "it may be somebody else's"
    bare.run(insert.submit(Wish("t.t"), {}))  # as a client of the release before
    Counting(bare.database, is_looking=True).run(read.count_states())
    assert bare.run(schema.faults()) == []


def test_an_earlier_schema_that_a_producer_can_work_with_is_left_to_nodes(bare: Store) -> None:
    """Building what is new may take long, and the release before is still there."""
    earlier_schema.init(bare.database)
    before = bare.database.jobs.index_information()
    client = Client(bare.database)
    client.submit("t.t", key="k")
    assert bare.database.jobs.index_information() == before
    assert bare.run(schema.read_version()) == 0
    first, second = (client.submit("t.t", key="held", unique_for=60) for _ in range(2))
    assert (first.seq, "held_key" in bare.database.jobs.index_information()) == (second.seq, True)


def test_preparing_by_hand_makes_everything_and_says_so(bare: Store) -> None:
    earlier_schema.init(bare.database)
    prepared = Client(bare.database).prepare()
    assert (prepared.is_complete, "jobs.expiry" in prepared.made) == (True, True)
    assert bare.run(schema.faults()) == []
    assert Client(bare.database).prepare().made == ()


async def test_an_async_client_prepares_by_hand_too(bare: Store, mongo_uri: str) -> None:
    async with AsyncClient(mongo_uri, database=bare.database.name) as client:
        assert (await client.prepare()).is_complete
    assert bare.run(schema.faults()) == []


def test_the_queue_of_the_test_fixture_is_prepared(bare: Store, mongo_uri: str) -> None:
    with Queue(mongo_uri, bare.database.name).client() as client:
        assert client.submit("t.t", key="k").seq == client.submit("t.t", key="k").seq


@pytest.mark.parametrize("who", MAKE_SURE)
def test_of_jobs_with_one_key_the_oldest_stays_and_the_others_say_why_they_failed(
    bare: Store, who: str
) -> None:
    jobs = bare.database.jobs
    jobs.insert_many([job(_id=seq, seq=seq, key=key) for seq, key in enumerate("abab", 1)])
    jobs.insert_one(job(_id=5, seq=5, key="a", state="done"))
    jobs.insert_one({"_id": "raw", "task": "t.t", "key": "a", "state": "queued"})
    MAKE_SURE[who](bare)
    states = {str(one["_id"]): one.get("state") for one in jobs.find({"key": {"$ne": "c"}})}
    assert states == {
        "1": "queued",
        "2": "queued",
        "3": "failed",
        "4": "failed",
        "5": "done",
        "raw": None,
    }
    failed = jobs.find_one({"_id": 3}) or {}
    assert failed["error"]["message"].startswith("job 1 has its key 'a', and was there before it")
    assert failed["finished_at"] is not None
    assert bare.run(schema.faults()) == []
    bare.run(number.give_numbers(bare.run(number.find_raw())))
    raw = jobs.find_one({"_id": "raw"}) or {}
    assert (raw["state"], "an unfinished job has its key" in raw["error"]["message"]) == (
        "failed",
        True,
    )


def test_of_jobs_with_one_number_the_oldest_keeps_it(store: Store) -> None:
    """Before: the index could not come back, for as long as nobody removed one of them."""
    jobs, then = store.database.jobs, datetime(2026, 1, 1, tzinfo=UTC)
    jobs.drop_index("seq")
    states = ("queued", "done", "working", "queued")
    jobs.insert_many(
        job(_id=place, seq=7, state=state, node="n", created_at=then + timedelta(seconds=place))
        for place, state in enumerate(states)
    )
    mended = store.run(schema.mend())
    assert mended.failed == {}
    assert mended.made[0] == "jobs without 3 that had the seq of an older one"
    found = list(jobs.find().sort("_id"))
    assert [one["state"] for one in found] == ["queued", "done", "failed", "failed"]
    assert found[0]["seq"] == 7
    assert len({one["seq"] for one in found}) == len(states)
    assert "an older job has its number 7" in found[3]["error"]["message"]
    assert store.run(schema.faults()) == []


def test_many_who_part_doubles_at_once_leave_one_of_each_key(bare: Store) -> None:
    bare.database.jobs.insert_many([job(seq=seq, key=f"k{seq % 40}") for seq in range(400)])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda _: bare.run(schema.ensure()), range(AT_ONCE)))
    assert all(len(open_jobs(bare, f"k{key}")) == 1 for key in range(40))
    assert bare.run(schema.faults()) == []


def test_more_doubles_than_are_looked_for_at_once_are_parted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubles, "AT_ONCE", 3)
    store.database.jobs.drop_index("key")
    store.database.jobs.insert_many([job(seq=seq, key=f"k{seq % 10}") for seq in range(20)])
    assert store.run(doubles.resolve("key")) == 10


def test_an_index_that_somebody_dropped_is_told_in_words_and_made_by_the_next_call(
    store: Store,
) -> None:
    with Client(store.database) as client:
        one = client.submit("t.t")
        store.database.jobs.drop_index("seq")
        with pytest.raises(
            StoreError, match=r"an index of the queue in .* is missing: .* `tontine init`"
        ):
            client.get(one.seq)
        assert client.get(one.seq).id == one.id


async def test_a_standalone_server_is_refused_by_clients_too(tmp_path: Path) -> None:
    with mongod(tmp_path) as port:
        uri = f"mongodb://127.0.0.1:{port}/shop"
        with (
            Client(uri) as client,
            pytest.raises(ConfigError, match=r"no replica set.*rs.initiate"),
        ):
            client.submit("t.t")
        async with AsyncClient(uri) as other:
            with pytest.raises(ConfigError, match="no replica set"):
                await other.submit("t.t")
        with MongoClient[dict[str, Any]](uri) as mongo:
            assert mongo["shop"].list_collection_names() == []
            mongo["shop"].cluster.insert_one(
                {"_id": "schema", "version": schema.VERSION}
            )  # a dump was restored
            with pytest.raises(ConfigError, match="no replica set"):
                Client(mongo).submit("t.t")


@pytest.mark.parametrize("who", MAKE_SURE)
def test_of_jobs_that_hold_one_key_the_oldest_holds_it(bare: Store, who: str) -> None:
    """Before: neither a node nor a client could begin to work on such a database."""
    jobs, now = bare.database.jobs, datetime.now(UTC)
    held = {
        "held_key": "h",
        "unique_for": 3600.0,
        "finished_at": now,
        "state": "done",
        "attempt": 1,
    }
    jobs.insert_many([job(_id=seq, seq=seq, key="h", **held) for seq in (2, 1)])
    bare.run(indexes.want(indexes.HELD_KEY))
    MAKE_SURE[who](bare)
    assert [one["_id"] for one in jobs.find({"held_key": "h"})] == [1]
    assert [one["state"] for one in jobs.find({"key": "h"})] == ["done", "done"]
    assert bare.run(schema.faults()) == []


def test_one_that_has_no_room_to_say_why_it_failed_keeps_no_node_from_working(bare: Store) -> None:
    large = job(_id=2, seq=2, key="a", pad="")
    large["pad"] = "x" * (16 * 1024 * 1024 - len(bson.encode(large)) - 5)
    bare.database.jobs.insert_one(large)
    bare.database.jobs.insert_many(
        [job(_id=seq, seq=seq, key=key) for seq, key in ((1, "a"), (3, "b"), (4, "b"))]
    )
    bare.run(schema.ensure())
    assert len(open_jobs(bare, "b")) == 1
    assert "jobs.key" in bare.run(schema.mend()).failed


def test_a_double_that_ends_meanwhile_stays_as_it_ended(store: Store) -> None:
    jobs = store.database.jobs
    jobs.drop_index("seq")
    jobs.insert_many([job(_id=1, seq=7), job(_id=2, seq=7, state="working", node="n", attempt=1)])

    class Ending(Store):
        def _once(self, call: Call) -> Any:
            if call.method == "bulk_write":
                jobs.update_one({"_id": 2, "state": "working"}, {"$set": {"state": "done"}})
            return super()._once(call)

    Ending(store.database).run(schema.mend())
    assert [one["state"] for one in jobs.find({"_id": 2})] == ["done"]
    assert store.run(schema.faults()) == []
