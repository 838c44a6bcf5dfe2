"""(1) Insert: every job gets a number of its own, once, and what cannot be a job never arrives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tontine import Module, call
from tontine.client import Client
from tontine.errors import BulkRefused, ConfigError, SubmitInterrupted, TooLarge
from tontine.records.job import Job
from tontine.store import counter, insert, read
from tontine.store.call import Call, Operation, Store
from tontine.store.insert import CHUNK, Wish

WISH = Wish("shop.resize")


def submit(store: Store, args: dict[str, Any] | None = None, **wish: Any) -> Job:
    return store.run(insert.submit(Wish("shop.resize", **wish), args))


def count(store: Store) -> int:
    return int(store.database.jobs.count_documents({}))


def test_numbers_are_unique_and_contiguous_whoever_inserts_at_once(store: Store) -> None:
    sizes = [1, 7, 30, 2, 11, 50, 3, 1]
    with ThreadPoolExecutor(len(sizes)) as pool:
        batches = list(
            pool.map(lambda size: store.run(insert.submit_many(WISH, [None] * size)), sizes)
        )
    for jobs in batches:
        seqs = [job.seq or 0 for job in jobs]
        assert seqs == list(range(seqs[0], seqs[0] + len(jobs))), (
            "one batch has neighbouring numbers"
        )
    assert sorted(job["seq"] for job in store.database.jobs.find()) == list(
        range(1, sum(sizes) + 1)
    )


def test_threads_that_share_a_client_never_share_a_number(store: Store, mongo_uri: str) -> None:
    with Client(mongo_uri, database=store.database.name) as client, ThreadPoolExecutor(2) as pool:
        halves = [
            pool.submit(lambda: [client.submit("t.t").seq for _ in range(200)]) for _ in range(2)
        ]
        seqs = [seq for half in halves for seq in half.result()]
    assert len(set(seqs)) == 400
    assert sorted(job["seq"] for job in store.database.jobs.find()) == sorted(
        seq or 0 for seq in seqs
    )


def test_a_fresh_job_has_the_fields_that_claims_rely_on(store: Store) -> None:
    before = store.run(read.now())
    job = submit(store, {"image": "a.png"})
    document = store.database.jobs.find_one()
    at = document.pop("created_at")
    assert before <= at <= store.run(read.now()), "the server's time"
    assert document == {
        "_id": job.id,
        "seq": 1,
        "task": "shop.resize",
        "args": {"image": "a.png"},
        "state": "queued",
        "attempt": 0,
        "fails": 0,
        "lost": 0,
    }
    assert job.created_at == at
    assert not job.existed


def test_wishes_become_fields(store: Store) -> None:
    at = datetime(2040, 1, 1, tzinfo=UTC)
    submit(store, priority=5, key="k", max_attempts=2, timeout=1.5, run_at=at)
    document = store.database.jobs.find_one()
    assert {
        name: document[name] for name in ("priority", "key", "max_attempts", "timeout", "run_at")
    } == {
        "priority": 5,
        "key": "k",
        "max_attempts": 2,
        "timeout": 1.5,
        "run_at": at,
    }
    delayed = submit(store, delay=90.0)
    assert delayed.run_at is not None
    assert delayed.created_at is not None
    assert delayed.run_at - delayed.created_at == timedelta(seconds=90)


def test_a_key_that_an_unfinished_job_has_gives_that_job(store: Store) -> None:
    first = submit(store, {"a": 1}, key="k")
    for state in ("queued", "working"):
        store.database.jobs.update_one({"seq": first.seq}, {"$set": {"state": state, "node": "x"}})
        again = submit(store, {"a": 2}, key="k")
        assert (again.id, again.seq, again.args, again.existed) == (
            first.id,
            first.seq,
            {"a": 1},
            True,
        )
    assert count(store) == 1


def test_a_key_is_free_again_when_its_job_has_ended(store: Store) -> None:
    ids = {submit(store, key="k").id}
    for state in ("done", "failed", "cancelled"):
        store.database.jobs.update_many({}, {"$set": {"state": state}})
        again = submit(store, key="k")
        assert not again.existed
        ids.add(again.id)
    assert len(ids) == count(store) == 4


def test_of_many_with_one_key_at_once_only_one_is_added(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda _: submit(store, key="k"), range(8)))
    assert count(store) == 1
    assert len({job.id for job in jobs}) == 1
    assert [job.existed for job in jobs].count(False) == 1


def test_many_jobs_go_in_chunks_and_progress_hears_of_each(store: Store) -> None:
    assert len(store.run(insert.submit_many(WISH, []))) == 0
    heard: list[int] = []
    arguments = ({"n": place} for place in range(2 * CHUNK + 5))
    jobs = store.run(insert.submit_many(WISH, arguments, progress=heard.append))
    assert heard == [CHUNK, 2 * CHUNK, 2 * CHUNK + 5]
    stored = store.database.jobs.find({}, {"args": 1}).sort("seq")
    assert [job["args"]["n"] for job in stored] == list(range(2 * CHUNK + 5))
    assert [job.seq for job in jobs] == list(range(1, 2 * CHUNK + 6))
    assert count(store) == 2 * CHUNK + 5


def test_a_refused_wish_inserts_nothing(store: Store) -> None:
    refused: list[dict[str, Any]] = [
        {"task": ""},
        {"task": 5},
        *({"task": task} for task in ("charge", ".charge", "shop.")),
        {"priority": 1.5},
        {"priority": 2**70},
        {"max_attempts": 0},
        {"timeout": -1.0},
        {"key": ""},
        {"delay": -1.0},
        {"delay": 1.0, "run_at": datetime(2040, 1, 1, tzinfo=UTC)},
    ]
    for wish in refused:
        with pytest.raises(ConfigError):
            store.run(insert.submit(Wish(**({"task": "shop.resize"} | wish)), {}))
    assert count(store) == 0


def test_one_bad_arguments_among_good_ones_insert_nothing(store: Store) -> None:
    bad: Any
    for bad in (["a list"], {"x": object()}, {1: "a"}, {"x": 2**64}, {"a\0b": 1}):
        with pytest.raises(ConfigError):
            store.run(insert.submit_many(WISH, [{"x": 1}, bad, {"x": 2}]))
    with pytest.raises(TooLarge):
        store.run(insert.submit_many(WISH, [{"x": 1}, {"x": "y" * (17 * 1024 * 1024)}]))
    assert count(store) == 0


def test_a_batch_that_breaks_off_tells_how_many_are_in(store: Store) -> None:
    arguments: list[dict[str, Any]] = [*[{"x": 1}] * CHUNK, {"x": object()}]
    with pytest.raises(SubmitInterrupted) as caught:
        store.run(insert.submit_many(WISH, arguments))
    assert (caught.value.inserted, caught.value.unknown) == (CHUNK, 0)
    assert count(store) == CHUNK


def test_repeating_an_insert_adds_nothing(store: Store) -> None:
    block = store.run(counter.take(3))
    documents = [{"_id": f"id-{seq}", "seq": seq, **WISH.document(None, block.at)} for seq in block]

    def insert_them() -> Operation[Any]:
        return (yield Call("jobs", "insert_many", (documents,), {"ordered": False}))

    store.run(insert_them())
    with pytest.raises(BulkRefused) as caught:
        store.run(insert_them())
    assert caught.value.refused == dict.fromkeys(range(3), ("_id",))
    assert store.run(insert.put_in(documents)) == {}, "an _id that is there already is ours"
    assert count(store) == 3


own = Module("own")


@own.task(name="pay")
def charge(amount: int = 1) -> None: ...


def test_a_task_is_submitted_by_itself_or_as_a_call_of_it_as_by_its_name(store: Store) -> None:
    client = Client(store.database)
    jobs = [
        client.submit("own.pay", {"amount": 2}),
        client.submit(charge, {"amount": 2}, priority=1),
        client.submit(call(charge, amount=2), key="k"),
        *client.submit_many(charge, [{"amount": 2}, call(charge, 2)], max_attempts=3),
    ]
    assert {(job.task, job.args["amount"]) for job in map(client.get, jobs)} == {("own.pay", 2)}
    assert [job.priority for job in jobs] == [0, 1, 0, 0, 0]
    with pytest.raises(ConfigError, match="print is no task"):
        client.submit(print)
    with pytest.raises(ConfigError, match=r"this cannot be a job: arguments do not fit own\.pay"):
        client.submit(charge, {"amont": 2})
    assert count(store) == 5
    nightly = client.schedule("nightly", call(charge, amount=3), every="1d")
    assert (nightly.task, nightly.args) == ("own.pay", {"amount": 3})
