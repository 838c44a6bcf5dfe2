"""`max_age`: a job that was not started in time is cancelled, says so, and never starts; others pay
nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest

from tontine.client import Client
from tontine.diagnose.why import explain
from tontine.diagnose.why import read as evidence
from tontine.errors import ConfigError
from tontine.records.job import Job
from tontine.store import claim, control, insert, late, number, on_demand, schema, settle
from tontine.store.call import Store
from tontine.store.end import TOO_LATE
from tontine.store.insert import Wish
from tontine.store.read import now
from tontine.store.retention import Retention
from tontine.store.settle import Outcome

PAST = datetime(2020, 1, 1, tzinfo=UTC)


def submit(store: Store, **wish: Any) -> Job:
    return store.run(insert.submit(Wish("t.t", **wish), {}))


def grow_old(store: Store, *jobs: Job) -> None:
    """As if they had been submitted long ago."""
    seqs = [job.seq for job in jobs]
    store.database.jobs.update_many({"seq": {"$in": seqs}}, {"$set": {"start_by": PAST}})


def read(store: Store, job: Job) -> dict[str, Any]:
    document = store.database.jobs.find_one({"seq": job.seq})
    assert document is not None
    return dict(document)


def claimed(store: Store, job: Job) -> Job:
    assert store.run(claim.claim("n", [job.seq or 0], job.attempt)) == {job.seq}
    return job


def test_age_counts_from_when_it_is_due(store: Store) -> None:
    at = datetime(2040, 1, 1, tzinfo=UTC)
    now, later, then = (
        submit(store, max_age=60),
        submit(store, max_age=60, delay=10),
        submit(store, max_age=60, run_at=at),
    )
    assert now.start_by is not None
    assert now.created_at is not None
    assert now.start_by - now.created_at == timedelta(seconds=60)
    assert later.start_by is not None
    assert later.run_at is not None
    assert later.start_by - later.run_at == timedelta(seconds=60)
    assert then.start_by == at + timedelta(seconds=60)
    assert "start_by" not in read(store, submit(store)), "a plain job has no further field"


def test_only_what_is_late_is_cancelled_and_it_says_so(store: Store) -> None:
    old, young, plain = submit(store, max_age=60), submit(store, max_age=60), submit(store)
    grow_old(store, old)
    assert store.run(late.cancel_late(Retention(failed=3600.0))) == 1
    document = read(store, old)
    assert document["state"] == "cancelled"
    assert document["error"]["type"] == "TooLate"
    assert "not started by 2020-01-01T00:00:00.000Z" in document["error"]["message"]
    assert document["expire_at"] - document["finished_at"] == timedelta(hours=1)
    assert [read(store, job)["state"] for job in (young, plain)] == ["queued", "queued"]
    (finding, *_) = explain(store.run(evidence.gather(old.seq or 0)))
    assert finding.code == "too-late"
    assert "because it had not started by" in finding.sentence
    assert store.run(late.cancel_late()) == 0


def test_why_tells_a_queued_job_s_limit(store: Store) -> None:
    young, old = submit(store, max_age=3600), submit(store, max_age=3600)
    grow_old(store, old)
    codes = [
        [finding.code for finding in explain(store.run(evidence.gather(job.seq or 0)))]
        for job in (young, old)
    ]
    assert codes[0][0] == "start-by"
    assert codes[1][0] == "too-late"


def test_a_raw_producer_sets_the_instant(store: Store) -> None:
    store.database.jobs.insert_many(
        [
            {"_id": "late", "task": "t.t", "start_by": PAST},
            {"_id": "odd", "task": "t.t", "start_by": "soon"},
            {"_id": "null", "task": "t.t", "start_by": None},
            {"_id": "ancient", "task": "t.t"},
        ]
    )
    store.run(number.give_numbers(store.run(number.find_raw())))
    ancient = {
        "$set": {"start_by": bson.DatetimeMS(-(2**60))}
    }  # BSON has dates that nobody can write out
    store.database.jobs.update_one({"_id": "ancient"}, ancient)
    assert store.run(late.cancel_late()) == 2
    found = {job["_id"]: job for job in store.database.jobs.find({}, {"start_by": 0})}
    states = {name: job["state"] for name, job in found.items()}
    assert states == {
        "late": "cancelled",
        "odd": "failed",
        "null": "queued",
        "ancient": "cancelled",
    }
    assert "`start_by` must be a date" in found["odd"]["error"]["message"]
    assert "a time long past" in found["ancient"]["error"]["message"]


def test_what_was_started_in_time_is_not_late_at_its_second_attempt(store: Store) -> None:
    kinds: Any = ("retry", "lost", "released")
    jobs = [claimed(store, submit(store, max_age=60)) for _ in kinds]
    grow_old(store, *jobs)
    outcomes = [
        Outcome(kind, job.seq or 0, 1, begun=kind == "released")
        for kind, job in zip(kinds, jobs, strict=True)
    ]
    store.run(settle.settle_each("n", outcomes))
    assert store.run(late.cancel_late()) == 0
    assert [read(store, job)["state"] for job in jobs] == ["queued"] * 3
    earlier = submit(
        store, max_age=60
    )  # given back by a node of the release before, which leaves it its limit
    grow_old(store, earlier)
    store.database.jobs.update_one({"seq": earlier.seq}, {"$set": {"fails": 1, "attempt": 1}})
    assert store.run(late.cancel_late()) == 0


def test_what_was_given_back_unstarted_is_late(store: Store) -> None:
    job = claimed(store, submit(store, max_age=60))
    grow_old(store, job)
    store.run(settle.settle_each("n", [Outcome("released", job.seq or 0, 1)]))
    assert store.run(late.cancel_late()) == 1


def test_the_server_decides_whether_a_claimed_job_is_late(store: Store) -> None:
    old, young = (claimed(store, submit(store, max_age=60)) for _ in range(2))
    grow_old(store, old)
    settled = store.run(
        settle.settle_each("n", [Outcome("late", job.seq or 0, 1) for job in (old, young)])
    )
    assert settled.accepted == {old.seq, young.seq}
    document = read(store, old)
    assert (document["state"], document["node"], document["error"]["type"]) == (
        "cancelled",
        "n",
        "TooLate",
    )
    document = read(store, young)
    assert (document["state"], document["node"]) == ("queued", None)
    assert "error" not in document
    assert "finished_at" not in document
    again = store.run(settle.settle_each("n", [Outcome("late", old.seq or 0, 1)]))
    assert again.accepted == {old.seq}, "sent twice, it is settled once"


def test_a_late_outcome_of_another_s_job_is_refused(store: Store) -> None:
    job = claimed(store, submit(store, max_age=60))
    grow_old(store, job)
    settled = store.run(settle.settle_each("other", [Outcome("late", job.seq or 0, 1)]))
    assert settled.dropped == {job.seq}
    assert read(store, job)["state"] == "working"


def test_a_retry_by_hand_lifts_the_limit(store: Store) -> None:
    job = submit(store, max_age=60)
    grow_old(store, job)
    store.run(late.cancel_late())
    store.run(control.retry(job.seq or 0))
    assert store.run(late.cancel_late()) == 0
    assert read(store, job)["state"] == "queued"


@pytest.mark.parametrize("field", ["start_by", "fails", "lost", "errors", "error"])
def test_whatever_is_written_on_one_job_the_others_are_cancelled(store: Store, field: str) -> None:
    odd: list[Any] = [
        None,
        "x",
        5,
        [PAST],
        [],
        {},
        b"x",
        float("nan"),
        bson.Timestamp(1, 1),
        bson.DatetimeMS(-(2**62)),
    ]
    odd += [
        bson.DatetimeMS(2**62),
        bson.Regex("x"),
        bson.MinKey(),
        bson.MaxKey(),
        bson.Decimal128("NaN"),
        True,
    ]
    jobs = [submit(store, max_age=60) for _ in odd]
    good = submit(store, max_age=60)
    grow_old(store, *jobs, good)
    for job, value in zip(jobs, odd, strict=True):
        store.database.jobs.update_one(
            {"seq": job.seq},
            [{"$set": {field: {"$literal": value}}}],
            bypass_document_validation=True,
        )
    assert store.run(late.cancel_late()) >= 1
    assert read(store, good)["state"] == "cancelled"


def test_one_with_no_room_for_the_reason_does_not_keep_the_others(store: Store) -> None:
    full, other = submit(store, max_age=60), submit(store, max_age=60)
    size = len(bson.encode(read(store, full)))
    store.database.jobs.update_one(
        {"seq": full.seq}, {"$set": {"args.fill": "x" * (16 * 1024 * 1024 - size - 60)}}
    )
    grow_old(store, full, other)
    assert store.run(late.cancel_late()) == 2
    assert read(store, other)["state"] == "cancelled"
    assert read(store, full)["state"] in ("cancelled", "failed")


@pytest.mark.parametrize("wrong", [0, -1, "0s", 10**12])
def test_an_age_that_cannot_be_is_refused(store: Store, mongo_uri: str, wrong: Any) -> None:
    with (
        Client(mongo_uri, database=store.database.name) as client,
        pytest.raises(ConfigError, match="max_age"),
    ):
        client.submit("t.t", max_age=wrong)
    assert store.database.jobs.count_documents({}) == 0


def test_plain_jobs_are_in_none_of_these_indexes(store: Store) -> None:
    store.run(on_demand.want_all())
    store.run(schema.mend())
    store.run(insert.submit_many(Wish("t.t"), [{}] * 50))
    for index in ("start_by", "held_key"):
        sizes = store.database.command("collStats", "jobs")["indexSizes"]
        assert index in sizes
        explained = store.database.command(
            "explain",
            {"find": "jobs", "filter": _covered(index), "hint": index},
            verbosity="executionStats",
        )
        assert explained["executionStats"]["totalKeysExamined"] <= 1
    assert store.run(now())


def _covered(index: str) -> dict[str, Any]:
    if index == "start_by":
        return {"state": "queued", "start_by": {"$exists": True}}
    return {"held_key": {"$gt": ""}}


def test_one_without_a_number_is_numbered_before_it_is_late(store: Store) -> None:
    """Before: it was cancelled first, and then refused because of that."""
    store.database.jobs.insert_one({"task": "t.t", "state": "queued", "start_by": PAST})
    assert store.run(late.cancel_late()) == 0
    store.run(number.give_numbers(store.run(number.find_raw())))
    assert store.run(late.cancel_late()) == 1
    found = store.database.jobs.find_one() or {}
    assert (found["state"], found["error"]["type"]) == ("cancelled", TOO_LATE)
