"""(2) Number: documents of any driver become jobs in the order of their arrival, or fail with a
reason."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import bson
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Timestamp
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument

from tontine.store import claim, counter, fresh, insert, number, read
from tontine.store.call import Store
from tontine.store.insert import Wish

ANY_IDS: list[Any] = [
    "text",
    5,
    ObjectId("ffffffffffffffffffffffff"),
    -1.5,
    {"nested": {"b": 1, "a": 2}},
    Int64(2**40),
    datetime(2030, 1, 1, tzinfo=UTC),
    None,
    True,
    Binary(b"\x00\xff", 0),
    ObjectId("000000000000000000000000"),
    Decimal128("1.10"),
    MinKey(),
    Timestamp(1, 2),
    "",
    MaxKey(),
    Binary.from_uuid(UUID(int=7)),
    Code("f()"),
    float("nan"),
    DatetimeMS(2**60),
    0,
]


def number_all(store: Store) -> int:
    return store.run(number.give_numbers(store.run(number.find_raw())))


def jobs(store: Store) -> list[dict[str, Any]]:
    return list(store.database.jobs.find().sort("seq"))


def test_a_block_is_nobody_elses(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        blocks = list(
            pool.map(lambda count: store.run(counter.take(count)), [1, 5, 2, 9, 3, 1, 4, 7])
        )
    assert sorted(seq for block in blocks for seq in block) == list(range(1, 33))


def test_raw_jobs_are_numbered_in_the_order_of_their_arrival_whatever_their_ids(
    store: Store,
) -> None:
    for place, one in enumerate(ANY_IDS):
        store.database.jobs.insert_one(
            {"_id": one, "task": "shop.resize", "args": {"place": place}}
        )
    assert number_all(store) == len(ANY_IDS)
    assert [job["args"]["place"] for job in jobs_in_order(store)] == list(range(len(ANY_IDS)))
    assert [job["seq"] for job in jobs_in_order(store)] == list(range(1, len(ANY_IDS) + 1))
    assert store.run(number.find_raw()) == []


def jobs_in_order(store: Store) -> list[dict[str, Any]]:
    # pymongo's defaults cannot decode a date beyond the year 9999, which is one of the ids.
    return list(store.database.jobs.find({}, {"_id": 0}).sort("seq"))


def test_the_order_of_arrival_holds_beyond_one_round(store: Store) -> None:
    store.database.jobs.insert_many(
        {"_id": -place, "task": "t.t", "args": {"n": place}} for place in range(25)
    )
    while raw := store.run(number.find_raw(limit=10)):
        store.run(number.give_numbers(raw))
    assert [job["args"]["n"] for job in jobs(store)] == list(range(25))


def test_looking_for_raw_jobs_costs_what_is_found_however_many_are_numbered(store: Store) -> None:
    store.run(insert.submit_many(Wish("t.t"), [None] * 300))
    store.database.jobs.insert_many([{"task": "t.t"}, {"task": "t.t"}])
    call = next(number.find_raw())
    command = {
        "find": "jobs",
        "filter": call.args[0],
        "hint": call.options["hint"],
        "sort": dict(call.options["sort"]),
    }
    plan = store.database.command({"explain": command, "verbosity": "executionStats"})
    assert plan["executionStats"]["totalDocsExamined"] == 2


def test_what_claims_rely_on_is_filled_in(store: Store) -> None:
    store.database.jobs.insert_one({"_id": 1, "task": "shop.resize"})
    before = store.run(read.now())
    number_all(store)
    (job,) = jobs(store)
    assert before <= job.pop("created_at") <= store.run(read.now())
    assert job == {
        "_id": 1,
        "task": "shop.resize",
        "seq": 1,
        "attempt": 0,
        "fails": 0,
        "lost": 0,
        "state": "queued",
        "args": {},
    }
    assert store.run(claim.claim("x", [1], 0)) == {1}


def test_what_the_producer_said_is_kept_but_for_the_counts(store: Store) -> None:
    wish = {
        "args": {"$weird": {"a.b": "$c"}},
        "priority": 3,
        "key": "k",
        "timeout": 2.5,
        "max_attempts": 2,
        "own": [1],
    }
    store.database.jobs.insert_one(
        {"task": "t.t", "attempt": 9, "fails": "x", "lost": 7, "state": "queued"} | wish
    )
    number_all(store)
    (job,) = jobs(store)
    assert {name: job[name] for name in wish} == wish
    assert (job["attempt"], job["fails"], job["lost"], job["state"]) == (0, 0, 0, "queued")


def test_nulls_mean_the_defaults(store: Store) -> None:
    names = ("state", "run_at", "priority", "max_attempts", "timeout")
    store.database.jobs.insert_one({"task": "t.t"} | dict.fromkeys(names))
    number_all(store)
    (job,) = jobs(store)
    assert job["state"] == "queued"
    assert "run_at" not in job
    assert [raw["seq"] for raw in store.run(fresh.find_fresh([1], ["t.t"]))] == [1]


def test_a_raw_job_may_be_postponed(store: Store) -> None:
    later = datetime(2040, 1, 1, tzinfo=UTC)
    store.database.jobs.insert_one({"task": "t.t", "run_at": later})
    number_all(store)
    (job,) = jobs(store)
    assert (job["state"], job["run_at"]) == ("queued", later)
    assert store.run(fresh.find_fresh([1], ["t.t"])) == []


def test_what_cannot_be_a_job_fails_with_the_reason(store: Store) -> None:
    reasons: list[tuple[dict[str, Any], str]] = [
        ({}, "no `task`"),
        ({"task": 5}, "`task` must be a text"),
        ({"task": "t.t", "args": [1]}, "`args` must be an object"),
        ({"task": "t.t", "state": "done"}, "`state` must be absent"),
        ({"task": "t.t", "run_at": "soon"}, "`run_at` must be a date"),
        ({"task": "t.t", "run_at": DatetimeMS(2**60)}, "`run_at` must be a date"),
        ({"task": "t.t", "priority": "high"}, "`priority` must be a whole number"),
        ({"task": "t.t", "max_attempts": 0}, "`max_attempts` must be at least 1"),
        ({"task": "t.t", "timeout": -1}, "`timeout` must be a number of seconds"),
        ({"task": "t.t", "key": 5}, "`key` must be a text"),
        (
            {"taks": "t.t"},
            'it has no `task`: name the task to run, like "shop.resize"; its field `taks` is none',
        ),
    ]
    store.database.jobs.insert_many([document for document, _ in reasons])
    store.database.jobs.insert_one({"task": "t.t"})
    number_all(store)
    assert store.database.jobs.find_one({"seq": 12})["state"] == "queued", (
        "the bad do not hold up the good"
    )
    for job, (_, reason) in zip(
        store.database.jobs.find({"seq": {"$lt": 12}}, {"run_at": 0}).sort("seq"),
        reasons,
        strict=True,
    ):
        assert (job["state"], job["error"]["type"]) == ("failed", "InvalidJob")
        assert reason in job["error"]["message"]
        assert job["finished_at"] == job["created_at"]
    assert store.run(number.find_raw()) == []


def test_two_numberers_at_once_give_one_number_to_each_job(store: Store) -> None:
    store.database.jobs.insert_many({"_id": place, "task": "t.t"} for place in range(100))
    raw = store.run(number.find_raw())
    with ThreadPoolExecutor(4) as pool:
        numbered = list(pool.map(lambda _: store.run(number.give_numbers(raw)), range(4)))
    assert sum(numbered) == 100, "the filter lets one of them win each job"
    seqs = [job["seq"] for job in jobs(store)]
    assert len(set(seqs)) == 100
    last = store.database.cluster.find_one({"_id": "counter"})["seq"]
    assert max(seqs) <= last == 400, "the numbers of the others are holes"


def test_a_late_numberer_changes_nothing(store: Store) -> None:
    store.database.jobs.insert_one({"_id": 1, "task": "t.t"})
    raw = store.run(number.find_raw())
    store.run(number.give_numbers(raw))
    store.run(claim.claim("x", [1], 0))
    before = jobs(store)
    assert store.run(number.give_numbers(raw)) == 0
    assert jobs(store) == before


def test_of_two_raw_jobs_with_one_key_the_later_fails(store: Store) -> None:
    store.database.jobs.insert_many(
        [{"task": "t.t", "key": "k", "args": {"n": place}} for place in range(3)]
    )
    number_all(store)
    first, *later = jobs(store)
    assert (first["args"]["n"], first["state"]) == (0, "queued")
    assert {job["state"] for job in later} == {"failed"}
    assert all(
        "an unfinished job has its key 'k' already" in job["error"]["message"] for job in later
    )


def test_a_raw_job_with_the_key_of_an_unfinished_one_fails(store: Store) -> None:
    store.run(insert.submit(Wish("t.t", key="k"), {}))
    store.database.jobs.insert_many([{"task": "t.t", "key": "k"}, {"task": "t.t", "key": "other"}])
    assert number_all(store) == 2
    assert [job["state"] for job in jobs(store)] == ["queued", "failed", "queued"]


def test_a_job_inserted_in_a_transaction_exists_when_that_commits(store: Store) -> None:
    client, jobs = store.database.client, store.database.jobs
    with client.start_session() as session:
        with session.start_transaction():
            store.database.orders.insert_one({"_id": 1}, session=session)
            jobs.insert_one({"task": "t.t", "args": {}}, session=session)
            assert store.run(read.find_unnumbered(10)) == []
        assert len(store.run(read.find_unnumbered(10))) == 1
        with session.start_transaction():
            jobs.insert_one({"task": "t.t", "args": {}}, session=session)
            session.abort_transaction()
    assert jobs.count_documents({}) == 1


def test_whoever_numbers_hears_of_what_cannot_be_a_job_and_why(store: Store) -> None:
    store.run(insert.submit(Wish("t.t", key="held"), {}))
    odd: list[dict[str, Any]] = [{"_id": "no task"}, {"_id": "args", "task": "t.t", "args": []}]
    store.database.jobs.insert_many(
        [*odd, {"_id": "good", "task": "t.t"}, {"_id": "key", "task": "t.t", "key": "held"}]
    )
    heard: dict[str, str] = {}
    raw = store.run(number.find_raw())
    store.run(number.give_numbers(raw, lambda job, why: heard.update({job["_id"]: why})))
    assert {name: why.split(":")[0] for name, why in heard.items()} == {
        "no task": "it has no `task`",
        "args": "`args` must be an object with the task's keyword arguments, not an array",
        "key": "an unfinished job has its key 'held' already",
    }


def test_a_document_with_a_million_fields_keeps_no_other_from_its_number(store: Store) -> None:
    """Before: their names were more than an answer can hold, and nobody numbered anything any
    more."""
    many = RawBSONDocument(
        bson.encode({"_id": "many", "task": "t.t"} | {f"{n:x}": None for n in range(1_000_000)})
    )
    store.database.jobs.insert_one(many)
    store.database.jobs.insert_one({"_id": "one", "task": "t.t", "prioriy": 1})
    found = store.run(number.find_raw())
    assert [len(one["names"]) for one in found] == [number.NAMES_AT_MOST, 3]
    store.run(number.give_numbers(found))
    assert store.database.jobs.count_documents({"_id": "one", "seq": {"$gte": 0}}) == 1
