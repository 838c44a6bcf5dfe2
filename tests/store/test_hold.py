"""`unique_for`: a key stays taken for a while after its job was done; decided by one index, whoever
comes at once."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson import DatetimeMS, Decimal128, Int64, MaxKey, MinKey, Regex, Timestamp
from pymongo.errors import DuplicateKeyError

from tontine.errors import ConfigError, DuplicateKey, NotPermitted
from tontine.records.job import Job
from tontine.store import claim, control, hold, insert, on_demand
from tontine.store.call import Call, Operation, Store
from tontine.store.indexes import HELD_KEY
from tontine.store.insert import Wish
from tontine.store.retention import Retention, keep
from tontine.store.settle import Outcome, settle_each

RESULT = b"\x05\x00\x00\x00\x00"


def submit(store: Store, unique_for: float | None = 3600.0, key: str | None = "mail-17") -> Job:
    return store.run(insert.submit(Wish("t.t", key=key, unique_for=unique_for), {}))


def end(store: Store, job: Job, kind: Any = "done", retention: Retention = Retention()) -> Job:  # noqa: B008
    seq, attempt = job.seq or 0, store.run(control.read_job(job.seq or 0)).attempt
    assert store.run(claim.claim("n", [seq], attempt)) == {seq}
    assert store.run(
        settle_each("n", [Outcome(kind, seq, attempt + 1, 0.1, RESULT)], retention)
    ).accepted
    return job


def pass_time(store: Store, seconds: float) -> None:
    """As if what has ended had ended so long before."""
    earlier = [{"$set": {"finished_at": {"$subtract": ["$finished_at", round(seconds * 1000)]}}}]
    store.database.jobs.update_many({"finished_at": {"$type": "date"}}, earlier)
    earlier = [{"$set": {"held_until": {"$subtract": ["$held_until", round(seconds * 1000)]}}}]
    store.database.jobs.update_many({"held_until": {"$type": "date"}}, earlier)


def test_a_done_job_comes_back_until_its_time_is_over(store: Store) -> None:
    first = submit(store)
    assert submit(store).seq == first.seq, "unfinished"
    end(store, first)
    again = submit(store)
    assert (again.seq, again.existed, again.state) == (first.seq, True, "done")
    pass_time(store, 3500)
    assert submit(store).existed
    pass_time(store, 101)
    second = submit(store)
    assert (second.existed, second.seq != first.seq) == (False, True)
    assert submit(store).seq == second.seq
    assert store.database.jobs.count_documents({}) == 2


@pytest.mark.parametrize("kind", ["failed", "cancelled"])
def test_one_that_failed_or_was_cancelled_holds_nothing(store: Store, kind: str) -> None:
    first = end(store, submit(store), kind)
    second = submit(store)
    assert (second.existed, second.seq != first.seq) == (False, True)


def test_a_submit_that_does_not_ask_for_it_does_not_look_back(store: Store) -> None:
    end(store, submit(store))
    plain = submit(store, unique_for=None)
    assert not plain.existed
    assert submit(store).seq == plain.seq, "the unfinished one comes first"
    document = store.database.jobs.find_one({"seq": plain.seq})
    assert document is not None
    assert "held_key" not in document


def test_of_many_that_come_at_once_when_it_is_over_one_is_added(store: Store) -> None:
    end(store, submit(store))
    pass_time(store, 3601)
    barrier = threading.Barrier(12)

    def come(_: int) -> Job:
        barrier.wait()
        return submit(store)

    with ThreadPoolExecutor(12) as pool:
        jobs = list(pool.map(come, range(12)))
    assert len({job.seq for job in jobs}) == 1
    assert sum(not job.existed for job in jobs) == 1
    assert store.database.jobs.count_documents({"state": "queued"}) == 1


def test_whoever_comes_while_it_ends_gets_it_and_adds_none(store: Store) -> None:
    """The job ends between a producer's refused insert and its look for the holder."""
    first = submit(store)
    steps = insert.submit(Wish("t.t", key="mail-17", unique_for=3600.0), {})
    call, ended = next(steps), False
    try:
        while True:
            if call.method == "find_one" and not ended:
                end(store, first)
                ended = True
            try:
                answer = store.run(_one(call))
            except Exception as error:  # noqa: BLE001 - as a store hands it on
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end_:
        job: Job = end_.value
    assert ended
    assert (job.seq, job.existed, job.state) == (first.seq, True, "done")


def _one(call: Call) -> Operation[Any]:
    return (yield call)


def test_a_retried_one_is_the_same_and_holds_anew(store: Store) -> None:
    first = end(store, submit(store))
    pass_time(store, 3500)
    store.run(hold.review_holds())
    store.run(control.retry(first.seq or 0))
    assert submit(store).seq == first.seq
    end(store, first)
    store.run(hold.review_holds())
    pass_time(store, 3000)
    assert submit(store).seq == first.seq


def test_nodes_let_go_of_what_is_over_for_producers_that_may_not(store: Store) -> None:
    end(store, submit(store, key="done"))
    end(store, submit(store, key="failed"), "failed")
    submit(store, key="open")
    assert store.run(hold.review_holds()) == 2
    found = {job["key"]: job for job in store.database.jobs.find()}
    assert found["done"]["held_until"] - found["done"]["finished_at"] == timedelta(hours=1)
    assert "held_key" not in found["failed"]
    assert found["open"]["held_key"] == "open"
    assert store.run(hold.review_holds()) == 0
    pass_time(store, 3601)
    assert store.run(hold.review_holds()) == 1
    assert store.run(hold.review_holds()) == 0
    assert store.database.jobs.count_documents({"held_key": {"$exists": True}}) == 1


ODD: list[Any] = [
    *(
        None,
        "x",
        "",
        True,
        [],
        [1],
        {},
        0,
        -1,
        1e300,
        float("nan"),
        float("inf"),
        b"x",
        DatetimeMS(2**63 - 1),
    ),
    *(
        Decimal128("NaN"),
        Decimal128("Infinity"),
        Decimal128("1E+6000"),
        Decimal128("5"),
        Int64(2**62),
        Int64(-(2**62)),
    ),
    *(DatetimeMS(-(2**62)), Timestamp(1, 1), Regex("x"), MinKey(), MaxKey()),
]


def test_whatever_is_written_on_one_job_the_others_are_looked_after(store: Store) -> None:
    store.run(on_demand.need(HELD_KEY))
    fields = ("unique_for", "finished_at", "held_until", "held_key", "expire_at")
    ended: dict[str, Any] = {
        "task": "t.t",
        "state": "done",
        "attempt": 1,
        "fails": 0,
        "lost": 0,
        "unique_for": 60,
    }
    ended["finished_at"] = datetime.now(UTC)
    for place, (field, value) in enumerate((field, value) for field in fields for value in ODD):
        one = {
            **ended,
            "_id": place,
            "seq": Int64(place + 1),
            "held_key": f"k{place}",
            field: value,
        }
        with contextlib.suppress(DuplicateKeyError):
            store.database.jobs.insert_one(one, bypass_document_validation=True)
    store.database.cluster.update_one(
        {"_id": "counter"}, {"$set": {"seq": Int64(10_000)}}, upsert=True
    )
    end(store, submit(store))
    store.run(hold.review_holds())
    found = store.database.jobs.find_one({"key": "mail-17"}, {"held_until": 1})
    assert found is not None
    assert "held_until" in found


def test_a_producer_that_may_not_update_gets_the_ended_job_until_a_node_lets_go(
    store: Store,
) -> None:
    end(store, submit(store))
    pass_time(store, 3601)
    steps = hold.find_holder("mail-17")
    found = store.run(_one(next(steps)))
    assert steps.send(found).method == "update_one"
    holder = steps.throw(NotPermitted("not allowed"))
    with pytest.raises(StopIteration) as returned:
        steps.send(store.run(_one(holder)))
    assert returned.value.value["key"] == "mail-17"


def test_retention_keeps_it_for_as_long_as_it_holds(store: Store) -> None:
    short = Retention(done=60.0, failed=60.0)
    store.run(keep(short))
    end(store, submit(store), retention=short)
    store.run(hold.review_holds())

    def kept() -> float:
        (job,) = store.database.jobs.find()
        return float((job["expire_at"] - job["finished_at"]).total_seconds())

    assert kept() == 3600
    store.run(keep(short))
    assert kept() == 3600, "also when a retention is put in force later"


def test_the_index_refuses_a_second_holder(store: Store) -> None:
    """What all of it rests on, whoever writes."""
    end(store, submit(store))
    double = {"task": "t.t", "key": "mail-17", "held_key": "mail-17"}
    with pytest.raises(DuplicateKey):
        store.run(_one(Call("jobs", "insert_one", (double,))))


@pytest.mark.parametrize(
    ("key", "unique_for", "why"),
    [(None, 60.0, "goes with a `key`"), ("k", 0.0, "above 0"), ("k", 1e12, "century")],
)
def test_what_cannot_be_is_refused(
    store: Store, key: str | None, unique_for: float, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        submit(store, unique_for, key)


def test_a_job_that_was_retried_holds_its_key_from_its_new_end_on(store: Store) -> None:
    """Before: it kept the end of its first run, and expired with its key still held."""
    short = Retention(done=600, failed=600)
    job = end(store, submit(store), retention=short)
    store.run(hold.review_holds())
    store.run(control.retry(job.seq))
    end(store, job, retention=short)
    store.run(hold.review_holds())
    found = store.database.jobs.find_one() or {}
    assert found["expire_at"] == found["held_until"] == found["finished_at"] + timedelta(hours=1)


def test_one_that_has_no_room_for_it_keeps_no_other_from_being_looked_after(store: Store) -> None:
    large, other = end(store, submit(store)), end(store, submit(store, key="other"))
    room = (
        16 * 1024 * 1024
        - len(bson.encode(store.database.jobs.find_one({"seq": large.seq}) or {}))
        - 20
    )
    store.database.jobs.update_one({"seq": large.seq}, {"$set": {"pad": "x" * room}})
    assert store.run(hold.review_holds()) == 1
    assert "held_until" in (store.database.jobs.find_one({"seq": other.seq}) or {})
    pass_time(store, 3601)
    assert store.run(hold.review_holds()) == 2
    assert store.database.jobs.count_documents({"held_key": {"$exists": True}}) == 0
