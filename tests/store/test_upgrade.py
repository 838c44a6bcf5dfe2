"""Versions of the schema: one comes after the other while nodes of both start, and nothing unique
is ever missing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import MongoClient

from tests.support import earlier_schema
from tests.support.eventually import eventually
from tontine.errors import DuplicateKey
from tontine.records import share
from tontine.store import (
    claim,
    indexes,
    insert,
    logs,
    members,
    number,
    postponed,
    schema,
    settle,
)
from tontine.store.call import Store
from tontine.store.insert import Wish
from tontine.store.logs import Part
from tontine.store.retention import Retention, keep
from tontine.store.settle import Outcome

AT_ONCE = 6


@pytest.fixture
def bare(mongo_client: MongoClient[dict[str, object]], database: str) -> Store:
    return Store(mongo_client[database])


@pytest.fixture
def earlier(bare: Store) -> Store:
    """A database as the release before this one made it."""
    earlier_schema.init(bare.database)
    return bare


def at_once(store: Store, times: int = AT_ONCE) -> None:
    """So many nodes start at once; an error of one is an error."""
    barrier = threading.Barrier(times)

    def start(_: int) -> None:
        barrier.wait()
        store.run(schema.ensure())

    with ThreadPoolExecutor(times) as pool:
        list(pool.map(start, range(times)))


@contextmanager
def never_without_unique_seqs(store: Store) -> Iterator[None]:
    """In a tight loop from another thread: some unique index of `seq` is always there."""
    stop, gaps, looks = threading.Event(), [], 0

    def watch() -> None:
        nonlocal looks
        while not stop.is_set():
            there = list(store.database.jobs.list_indexes())
            looks += 1
            if not any(dict(index["key"]) == {"seq": 1} and index.get("unique") for index in there):
                gaps.append([index["name"] for index in there])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    assert looks > 3
    assert gaps == []


def names(store: Store, collection: str) -> set[str]:
    return set(store.database[collection].index_information())


def test_six_nodes_that_start_at_once_bring_the_earlier_schema_up_to_date(earlier: Store) -> None:
    earlier.run(insert.submit_many(Wish("t.t"), [{}] * 500))
    with never_without_unique_seqs(earlier):
        at_once(earlier)
    assert earlier.run(schema.faults()) == []
    assert "expire" not in names(earlier, "jobs")
    assert earlier.run(schema.read_version()) == schema.VERSION
    document = earlier.database.cluster.find_one({"_id": "schema"})
    assert document is not None
    assert set(document) == {"_id", "version", "by"}, "nobody has the turn any more"


def test_a_node_of_the_release_before_drops_nothing_unique_and_what_it_brings_back_is_retired_again(
    store: Store,
) -> None:
    with never_without_unique_seqs(store), ThreadPoolExecutor(4) as pool:
        dropped = list(pool.map(lambda _: earlier_schema.init(store.database), range(4)))
        at_once(store, 3)
    assert dropped == [[]] * 4
    store.run(schema.ensure())
    assert store.run(schema.faults()) == []


@pytest.mark.parametrize(
    "wrong", [{}, {"unique": True}, {"partialFilterExpression": {"seq": {"$gt": 5}}}]
)
def test_an_index_made_by_hand_in_the_place_of_ours_is_replaced_without_a_gap(
    store: Store, wrong: dict[str, Any]
) -> None:
    store.run(insert.submit_many(Wish("t.t"), [{}] * 50))
    store.database.command(
        {
            "createIndexes": "jobs",
            "indexes": [{"name": "guard", "key": {"seq": 1, "x": 1}, "unique": True}],
        }
    )
    store.database.jobs.drop_index("seq")
    store.database.command(
        {"createIndexes": "jobs", "indexes": [{"name": "seq", "key": {"seq": 1}, **wrong}]}
    )
    store.database.jobs.drop_index("fresh")
    store.database.jobs.create_index("task", name="fresh")
    store.database.jobs.drop_index("held")
    store.database.jobs.create_index(
        "node", name="by_node", partialFilterExpression={"state": "working"}
    )
    at_once(store)
    assert store.run(schema.faults()) == []
    assert names(store, "jobs") == {
        "_id_",
        "guard",
        *(index["name"] for index in indexes.INDEXES["jobs"]),
    }


def test_the_unique_index_in_another_place_is_never_missing_while_it_moves(store: Store) -> None:
    index = next(dict(index) for index in indexes.INDEXES["jobs"] if index["name"] == "seq")
    store.database.jobs.drop_index("seq")
    store.database.command({"createIndexes": "jobs", "indexes": [{**index, "name": "numbers"}]})
    with never_without_unique_seqs(store):
        at_once(store)
    assert store.run(schema.faults()) == []


def test_whoever_finds_the_turn_taken_drops_nothing_until_it_is_over(earlier: Store) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    earlier.database.cluster.insert_one({"_id": "schema", "turn": 1, "turn_until": later})
    earlier.run(schema.ensure())
    assert {"expire", "expiry"} <= names(earlier, "jobs")
    assert earlier.run(schema.read_version()) == 0
    earlier.database.cluster.update_one(
        {"_id": "schema"}, {"$set": {"turn_until": later - timedelta(days=1)}}
    )
    earlier.run(schema.ensure())
    assert earlier.run(schema.faults()) == []


def test_a_newer_schema_is_respected_and_only_what_this_version_needs_is_made(store: Store) -> None:
    store.database.cluster.update_one(
        {"_id": "schema"}, {"$set": {"version": schema.VERSION + 1, "by": "9.9"}}
    )
    store.database.jobs.drop_index("due_by_task")
    store.database.jobs.drop_index("fresh")
    store.database.jobs.create_index("task", name="fresh")
    store.database.jobs.create_index("x", name="expire")
    store.database.command("collMod", "jobs", validator={"x": None})
    mended = store.run(schema.mend())
    assert (mended.is_newer, mended.made) == (True, ["jobs.due_by_task"])
    assert set(store.run(schema.faults())) == {
        "jobs has another validator",
        "jobs.fresh is different",
        "jobs.expire is outdated",
    }
    assert store.run(schema.read_version()) == schema.VERSION + 1


def test_a_unique_index_that_the_data_forbids_keeps_no_node_from_starting(store: Store) -> None:
    """Doubles of a key or a number are parted; lines of one attempt in two documents are nobody's
    to choose from."""
    store.database.logs.drop_index("attempt")
    store.database.logs.drop_index("expiry")
    store.database.logs.insert_many([{"seq": 7, "attempt": 1}, {"seq": 7, "attempt": 1}])
    store.run(schema.ensure())
    mended = store.run(schema.mend())
    assert list(mended.failed) == ["logs.attempt"]
    assert "seq: 7" in str(mended.failed["logs.attempt"])
    assert "expiry" in names(store, "logs"), "the others are made all the same"
    with pytest.raises(DuplicateKey):
        store.run(schema.init())


def test_lines_of_the_release_before_follow_the_retention_that_is_in_force(earlier: Store) -> None:
    written = datetime(2026, 1, 1, tzinfo=UTC)
    earlier.run(keep(Retention(done=3600.0, failed=7200.0)))
    earlier.database.logs.insert_one({"seq": 1, "attempt": 1, "at": datetime.now(UTC), "lines": []})
    earlier.run(schema.ensure())
    document = earlier.database.logs.find_one({})
    assert document is not None
    assert document["expire_at"] - document["at"] == timedelta(hours=2)
    assert written < document["expire_at"]


@pytest.mark.long  # the server looks for what has expired once a minute
def test_only_jobs_that_have_ended_expire(store: Store) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC)
    job = {"task": "t.t", "args": {}, "attempt": 0, "fails": 0, "lost": 0, "expire_at": past}
    store.database.jobs.insert_many(
        [
            {"_id": "raw", **job},
            {"_id": "queued", "seq": 1, "state": "queued", **job},
            {"_id": "working", "seq": 2, "state": "working", "node": "n", **job},
            {"_id": "done", "seq": 3, "state": "done", **job},
        ]
    )
    eventually(
        lambda: store.database.jobs.count_documents({"_id": "done"}) == 0,
        within=90,
        what="the expiry",
    )
    assert store.database.jobs.count_documents({}) == 3


def test_all_that_nodes_and_producers_write_passes_the_validators(store: Store) -> None:
    """Odd documents are numbered as `failed`, as the release before does it, and every outcome can
    be written."""
    odd: list[dict[str, Any]] = [
        {},
        {"task": 5},
        {"task": "t.t", "timeout": "30s"},
        {"task": "t.t", "priority": 0.5},
    ]
    odd += [
        {"task": "t.t", "node": {}, "attempt": "x", "progress": 1},
        {"task": "t.t", "args": None, "key": ""},
    ]
    store.database.jobs.insert_many(odd)
    assert store.run(number.give_numbers(store.run(number.find_raw()))) == len(odd)
    assert store.database.jobs.count_documents({"seq": None}) == 0
    store.run(
        insert.submit(
            Wish("t.t", delay=5.0, priority=3, key="k", max_attempts=2, timeout=0.5), {"a": 1}
        )
    )
    many = store.run(insert.submit_many(Wish("t.t"), [{}] * 5))
    seqs = [job.seq or 0 for job in many]
    assert store.run(claim.claim("n", seqs, 0)) == set(seqs)
    kinds: Any = ("done", "failed", "retry", "released", "lost")
    result = b"\x05\x00\x00\x00\x00"
    outcomes = [Outcome(kind, seq, 1, 0.1, result) for kind, seq in zip(kinds, seqs, strict=True)]
    assert store.run(settle.settle_each("n", outcomes)).accepted == set(seqs)
    assert store.run(members.presume_dead("ghost")) == "dead"


def test_a_number_s_lines_are_never_another_job_s(store: Store) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    store.run(logs.append([Part("first", 5, 1, [(at, "old")])]))
    store.run(logs.append([Part("first", 5, 2, [(at, "older")])]))
    store.run(
        logs.append([Part("second", 5, 1, [(at, "new")]), Part("second", 5, 1, [(at, "newer")])])
    )
    assert [line.text for line in store.run(logs.read_lines(5, "second"))] == ["new", "newer"]
    assert [line.text for line in store.run(logs.read_lines(5, "first"))] == ["older"]
    store.database.logs.insert_one(
        {"seq": 5, "attempt": 3, "lines": [{"at": at, "text": "of an older node"}]}
    )
    assert store.run(logs.read_lines(5, "second"))[-1].text == "of an older node"


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (Retention(3600.0, 7200.0), 7200),
        (Retention(3600.0, None), None),
        (Retention(None, 7200.0), None),
    ],
)
def test_lines_are_kept_as_long_as_any_end_of_their_job(
    store: Store, retention: Retention, kept: int | None
) -> None:
    def ages() -> list[float | None]:
        found = store.database.logs.find().sort("seq")
        return [
            (one["expire_at"] - one["at"]).total_seconds() if "expire_at" in one else None
            for one in found
        ]

    store.run(logs.append([Part("a", 1, 1, [])], Retention(60.0, 60.0)))
    store.run(keep(retention))
    store.run(logs.append([Part("b", 2, 1, [])], retention))
    assert ages() == [kept, kept]


def test_what_the_release_before_asks_for_serves_until_the_new_indexes_are_there(
    earlier: Store,
) -> None:
    """A node that may make no index works on, and only `tontine init` takes the old ones away."""
    queued = {"task": "t.t", "state": "queued", "attempt": 0, "fails": 0, "lost": 0}
    earlier.database.jobs.insert_one({**queued, "seq": 1, "run_at": LONG_AGO})
    earlier.database.jobs.insert_one({**queued, "seq": 2, "priority": 3})
    mine = [share.Part(("t.t",), share.Share(1, 0, 1))]
    for _ in range(2):
        assert [job["seq"] for job in earlier.run(postponed.find_due(mine, 0.0, 9))] == [1]
        assert [job["seq"] for job in earlier.run(postponed.find_ranked(mine, 9))] == [2]
        missing = earlier.run(schema.missing_indexes())
        assert not {"jobs.due_by_task", "jobs.ranked_by_task"} & set(missing)
        earlier.run(schema.mend())
    assert {"due", "ranked", "due_by_task", "ranked_by_task"} <= names(earlier, "jobs")
    assert earlier.run(schema.retire()) == ["jobs.due", "jobs.ranked"]
    assert earlier.run(schema.retire()) == []
    assert [job["seq"] for job in earlier.run(postponed.find_due(mine, 0.0, 9))] == [1]


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
