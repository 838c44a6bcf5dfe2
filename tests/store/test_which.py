"""(1) A job by anything that names it; what a client reads of it, follows and raises."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import ObjectId

from tontine import (
    AsyncClient,
    Client,
    Job,
    JobCancelled,
    JobFailed,
    JobNotFinished,
    JobState,
    TooLarge,
)
from tontine.errors import ConfigError, UnknownJob, Unstorable
from tontine.store import logs, which
from tontine.store.call import AsyncStore, Store
from tontine.store.insert import LARGEST_META
from tontine.store.logs import Part


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    with Client(store.database) as client:
        yield client


def end(store: Store, job: Job, state: str = "done", **more: Any) -> None:
    store.database.jobs.update_one({"_id": job.id}, {"$set": {"state": state, **more}})


def test_a_job_is_found_by_anything_that_names_it(client: Client) -> None:
    job = client.submit("t.t", key="k")
    client.submit("t.t", key="other")
    for name in (job, job.seq, str(job.seq), f"0{job.seq}", job.id, str(job.id)):
        assert client.get(name).id == job.id
    assert client.get(key="k").id == job.id


def test_an_id_of_any_kind_is_one(store: Store, client: Client) -> None:
    ids: list[Any] = ["inbox-1", "-5", {"order": [1]}, b"x", 2.5, True]
    store.database.jobs.insert_many([{"_id": one, "task": "t.t"} for one in ids])
    for one in ids:
        assert client.get(one).id == one


def test_digits_are_a_number_first_and_an_id_if_no_job_has_it(store: Store, client: Client) -> None:
    job = client.submit("t.t")
    store.database.jobs.insert_many(
        [{"_id": str(job.seq), "task": "t.t"}, {"_id": "4711", "task": "t.t"}]
    )
    assert client.get(str(job.seq)).id == job.id
    assert client.get("4711").id == "4711"
    with pytest.raises(UnknownJob, match="there is no job 4711"):
        client.get(4711)


def test_by_key_the_unfinished_job_is_meant_and_else_the_newest_that_had_it(
    store: Store, client: Client
) -> None:
    first = client.submit("t.t", key="k")
    end(store, first)
    second = client.submit("t.t", key="k")
    assert client.get(key="k").seq == second.seq
    end(store, second)
    assert client.get(key="k").seq == second.seq
    assert client.retry(key="k").seq == second.seq
    assert client.cancel(key="k").state is JobState.CANCELLED


def test_of_those_that_ended_only_the_newest_are_looked_at(
    store: Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = client.submit("t.t", key="k")
    end(store, job)
    client.submit_many("t.t", [None] * 5)
    monkeypatch.setattr(which, "ENDED_LOOKED_AT", 5)
    with pytest.raises(UnknownJob, match="none of the last 5 that ended had it"):
        client.get(key="k")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (99, "there is no job 99"),
        (-1, "there is no job -1"),
        (2**70, "there is no job"),
        ("99", "no job has the number or _id '99'"),
        ("9" * 40, "no job has the number or _id"),
        ("abc", "no job has the number or _id 'abc'"),
        (
            ObjectId("665f1c0e9b1e8a0001a3c0de"),
            r"no job has the _id ObjectId\('665f1c0e9b1e8a0001a3c0de'\)",
        ),
        (
            Job("gone", 7),
            (
                "job 7 is not there: it was removed, or belongs to a transaction that has not "
                "committed"
            ),
        ),
    ],
)
def test_what_is_not_there_is_said_by_every_call(client: Client, name: Any, said: str) -> None:
    for call in (
        client.get,
        client.cancel,
        client.retry,
        client.logs,
        lambda name: next(client.follow(name)),
    ):
        with pytest.raises(UnknownJob, match=said):
            call(name)


def test_nothing_and_two_things_at_once_are_no_job(client: Client) -> None:
    with pytest.raises(ConfigError, match="say which job"):
        client.get()
    with pytest.raises(ConfigError, match="say which job"):
        client.cancel(1, key="k")
    with pytest.raises(UnknownJob, match="no unfinished job has the key 'k'"):
        client.retry(key="k")


def test_a_job_without_a_number_is_numbered_to_be_cancelled(store: Store, client: Client) -> None:
    store.database.jobs.insert_many([{"_id": "raw", "task": "t.t"}, {"_id": "wrong"}])
    assert client.get("raw").is_numbered is False
    cancelled = client.cancel("raw")
    assert (cancelled.state, cancelled.seq) == (JobState.CANCELLED, 1)
    assert client.cancel("wrong").state is JobState.FAILED, "it cannot be a job, and says so"
    assert client.retry("raw").state is JobState.QUEUED


def test_lines_come_with_time_and_attempt(store: Store, client: Client) -> None:
    job = client.submit("t.t")
    at = datetime(2030, 1, 1, tzinfo=UTC)
    store.run(
        logs.append([Part(job.id, job.seq, 1, [(at, "a")]), Part(job.id, job.seq, 2, [(at, "b")])])
    )
    assert [(line.attempt, line.at, line.text) for line in client.logs(job)] == [
        (1, at, "a"),
        (2, at, "b"),
    ]
    assert client.logs(client.submit("t.t")) == []


def test_following_shows_each_change_until_the_end(store: Store, client: Client) -> None:
    job = client.submit("t.t")
    changes: list[dict[str, Any]] = [
        {"state": "working", "node": "n", "attempt": 1},
        {"progress": {"value": 0.5, "note": "half"}},
        {"state": "done", "result": 42},
    ]
    seen = []
    for one in client.follow(job.seq, timeout=30):
        seen.append((one.state.value, one.progress.value if one.progress else None, one.result))
        if changes:
            store.database.jobs.update_one({"_id": job.id}, {"$set": changes.pop(0)})
    assert seen == [
        ("queued", None, None),
        ("working", None, None),
        ("working", 0.5, None),
        ("done", 0.5, 42),
    ]
    assert [one.result for one in client.follow(job)] == [42], "one that has ended is shown once"


def test_following_ends_with_the_job_that_is_removed_and_with_the_time(
    store: Store, client: Client
) -> None:
    job = client.submit("t.t")
    following = client.follow(job, timeout=0)
    assert next(following).seq == job.seq
    with pytest.raises(JobNotFinished):
        next(following)
    following = client.follow(job)
    next(following)
    store.database.jobs.delete_one({"_id": job.id})
    with pytest.raises(UnknownJob):
        next(following)


def test_waiting_raises_what_failed_if_asked_to(store: Store, client: Client) -> None:
    jobs = client.submit_many("t.t", [None] * 3)
    end(store, jobs[0])
    end(
        store,
        jobs[1],
        "failed",
        error={"type": "ValueError", "message": "no", "traceback": "Traceback"},
    )
    end(store, jobs[2], "cancelled")
    assert [one.state.value for one in client.wait(jobs, timeout=5)] == [
        "done",
        "failed",
        "cancelled",
    ]
    assert client.wait(jobs[0], timeout=5, raises=True).state is JobState.DONE
    with pytest.raises(JobFailed, match="failed: ValueError: no") as caught:
        client.wait(jobs, timeout=5, raises=True)
    assert [job.seq for job in caught.value.failed] == [jobs[1].seq, jobs[2].seq]
    with pytest.raises(JobCancelled, match="was cancelled"):
        client.wait(jobs[2], timeout=5, raises=True)


async def test_the_async_client_does_the_same(store: Store, async_store: AsyncStore) -> None:
    client = AsyncClient(async_store.database)
    job = await client.submit("t.t", key="k", meta={"tenant": 1})
    for name in (job, job.seq, str(job.seq), job.id):
        assert (await client.get(name)).meta == {"tenant": 1}
    assert (await client.cancel(key="k")).state is JobState.CANCELLED
    with pytest.raises(JobCancelled):
        await client.wait(job, raises=True)
    assert (await client.retry(job)).state is JobState.QUEUED
    assert await client.logs(job) == []
    states = []
    async for one in client.follow(job, timeout=30):
        states.append(one.state.value)
        if len(states) == 1:
            end(store, job, "failed")
    assert states == ["queued", "failed"]
    with pytest.raises(JobFailed):
        await client.wait([job], raises=True)
    waiting = client.follow(await client.submit("t.t"), timeout=0)
    await anext(waiting)
    with pytest.raises(JobNotFinished):
        await anext(waiting)


def test_meta_is_kept_with_the_job_through_its_life(store: Store, client: Client) -> None:
    job = client.submit("t.t", meta={"tenant": "ada", "trace": ["x"]})
    end(store, job)
    client.retry(job)
    assert client.get(job).meta == {"tenant": "ada", "trace": ["x"]}
    many = client.submit_many("t.t", [None, None], meta={"tenant": "ada"})
    assert store.database.jobs.count_documents({"meta.tenant": "ada"}) == 1 + len(many)
    assert "meta" not in (
        store.database.jobs.find_one({"_id": client.submit("t.t", meta={}).id}) or {}
    )


def test_meta_that_cannot_be_is_refused(client: Client) -> None:
    client.submit("t.t", meta={"x": "y" * (LARGEST_META - 20)})
    with pytest.raises(TooLarge, match="`meta` has 4117 bytes, and 4096 are allowed"):
        client.submit("t.t", meta={"x": "y" * 4104})
    with pytest.raises(Unstorable, match=r"`meta\['x'\]` is a set"):
        client.submit("t.t", meta={"x": {1}})
    wrong: Any = "tenant"
    with pytest.raises(ConfigError, match="`meta` must be a dictionary, not str"):
        client.submit("t.t", meta=wrong)


@pytest.mark.parametrize(
    "args", [{"n": 2**64}, {"n": {1}}, {"text": "\ud800"}, {"n": [1, {2: 3}]}], ids=str
)
def test_arguments_that_cannot_be_stored_are_named_by_one_and_by_many(
    store: Store, client: Client, args: dict[str, Any]
) -> None:
    name = next(iter(args))
    with pytest.raises(Unstorable, match=rf"this cannot be a job: `args\['{name}'\]"):
        client.submit("t.t", args)
    with pytest.raises(Unstorable, match=rf"this cannot be a job: `args\['{name}'\]"):
        client.submit_many("t.t", [{}, args])
    assert store.database.jobs.count_documents({}) == 0
