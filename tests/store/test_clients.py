"""(1) Client and AsyncClient over every kind of handle an application may have, and what becomes of
it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient, MongoClient

from tests.support.mongod import free_port
from tontine import AsyncClient, Client, Job, JobState
from tontine.config import StoreConfig
from tontine.errors import ConfigError, JobNotFinished, StoreError, StoreUnavailable, UnknownJob
from tontine.store import control, members, read
from tontine.store.call import CALL_LIMIT, AsyncStore, Call, Operation, Store
from tontine.store.connect import SELDOM_MONITORED, open_store


def test_what_the_uri_says_about_the_connection_wins(mongo_uri: str) -> None:
    def mode(uri: str) -> str:
        with open_store(StoreConfig(uri, "x"), **SELDOM_MONITORED).database.client as client:
            return str(client.options.server_monitoring_mode)

    assert mode(mongo_uri) == "poll"
    assert (
        mode(f"{mongo_uri}{'&' if '?' in mongo_uri else '/?'}serverMonitoringMode=stream")
        == "stream"
    )


def end(store: Store, job: Job, state: str = "done") -> None:
    """What a node would do, as far as a client can tell."""
    store.database.jobs.update_one(
        {"_id": job.id}, {"$set": {"state": state, "result": {"answer": 42}}}
    )


def live(store: Store, client: Client) -> None:
    """Everything a client can do, once."""
    job = client.submit(
        "t.t",
        {"x": 1},
        delay="1m",
        key="k",
        timeout=timedelta(seconds=5),
        max_attempts=2,
        priority=3,
    )
    assert client.submit("t.t", key="k").existed
    stored = client.get(job.seq or 0)
    assert (stored.args, stored.timeout, stored.priority, stored.state) == (
        {"x": 1},
        5.0,
        3,
        JobState.QUEUED,
    )
    assert client.cancel(job.seq or 0).state is JobState.CANCELLED
    assert client.wait(job, timeout=5).state is JobState.CANCELLED
    assert client.retry(job.seq or 0).state is JobState.QUEUED
    heard: list[int] = []
    many = client.submit_many("t.t", [{"n": number} for number in range(3)], progress=heard.append)
    assert heard == [3]
    for one in many:
        end(store, one)
    assert [one.result for one in client.wait(many, timeout=5)] == [{"answer": 42}] * 3
    with pytest.raises(UnknownJob):
        client.get(999_999)


async def live_async(store: Store, client: AsyncClient) -> None:
    job = await client.submit(
        "t.t", {"x": 1}, delay="1m", key="k", timeout=timedelta(seconds=5), priority=3
    )
    assert (await client.submit("t.t", key="k")).existed
    stored = await client.get(job.seq or 0)
    assert (stored.args, stored.timeout, stored.priority, stored.state) == (
        {"x": 1},
        5.0,
        3,
        JobState.QUEUED,
    )
    assert (await client.cancel(job.seq or 0)).state is JobState.CANCELLED
    assert (await client.wait(job, timeout=5)).state is JobState.CANCELLED
    assert (await client.retry(job.seq or 0)).state is JobState.QUEUED
    heard: list[int] = []
    many = await client.submit_many(
        "t.t", [{"n": number} for number in range(3)], progress=heard.append
    )
    assert heard == [3]
    for one in many:
        end(store, one)
    assert [one.result for one in await client.wait(many, timeout=5)] == [{"answer": 42}] * 3
    with pytest.raises(UnknownJob):
        await client.get(999_999)


@pytest.fixture
async def motor(mongo_uri: str) -> AsyncIterator[Any]:
    client: Any = AsyncIOMotorClient(mongo_uri, tz_aware=True)
    yield client
    client.close()


def test_a_client_works_over_a_uri_a_client_and_a_database(store: Store, mongo_uri: str) -> None:
    name = store.database.name
    with Client(mongo_uri, database=name) as client:
        live(store, client)
    for source in (store.database.client, store.database):
        store.database.jobs.delete_many({})
        with Client(source, database=name) as client:
            live(store, client)
        assert store.database.command("ping")["ok"] == 1, "what the application brought stays open"


async def test_an_async_client_works_over_a_uri_a_client_and_a_database(
    store: Store, mongo_uri: str
) -> None:
    name = store.database.name
    async with AsyncClient(mongo_uri, database=name) as client:
        await live_async(store, client)
    async with AsyncMongoClient[dict[str, Any]](mongo_uri) as mongo:
        for source in (mongo, mongo[name]):
            store.database.jobs.delete_many({})
            async with AsyncClient(source, database=name) as client:
                await live_async(store, client)
            assert (await mongo.admin.command("ping"))["ok"] == 1


async def test_an_async_client_works_over_motor(store: Store, motor: Any) -> None:
    name = store.database.name
    for source in (motor, motor[name]):
        store.database.jobs.delete_many({})
        async with AsyncClient(source, database=name) as client:
            await live_async(store, client)
        assert (await motor.admin.command("ping"))["ok"] == 1


async def test_a_client_uses_the_database_that_the_application_s_own_names(
    mongo_uri: str, store: Store
) -> None:
    """Before: every job of an application with `/shop` in its URI went to the database
    `tontine`."""
    name = store.database.name
    uri = mongo_uri.replace("/?", f"/{name}?")
    with Client(uri) as client:
        client.submit("t.t", {"by": 1})
    with MongoClient[dict[str, Any]](uri) as mongo:
        Client(mongo).submit("t.t", {"by": 2})
    async with AsyncClient(uri) as client_of_uri:
        await client_of_uri.submit("t.t", {"by": 3})
    async with AsyncMongoClient[dict[str, Any]](uri) as other:
        await AsyncClient(other).submit("t.t", {"by": 4})
    motor: Any = AsyncIOMotorClient(uri)
    await AsyncClient(motor).submit("t.t", {"by": 5})
    motor.close()
    assert sorted(one["args"]["by"] for one in store.database.jobs.find()) == [1, 2, 3, 4, 5]


def test_a_client_that_opened_its_connection_closes_it(mongo_uri: str, database: str) -> None:
    client = Client(mongo_uri, database=database)
    client.submit("t.t")
    client.close()
    with pytest.raises(StoreError, match="after close"):
        client.submit("t.t")


async def test_the_wrong_kind_of_handle_is_refused_with_advice(
    mongo_uri: str, store: Store, motor: Any
) -> None:
    async with AsyncMongoClient[dict[str, Any]](mongo_uri) as mongo:
        handles: list[Any] = [mongo, mongo["x"], motor, motor["x"], 5, store.database.jobs]
        for handle in handles:
            with pytest.raises(ConfigError, match=f"not {type(handle).__name__}; try AsyncClient"):
                Client(handle)
    for handle in (store.database.client, store.database, b"mongodb://"):
        with pytest.raises(ConfigError, match=f"not {type(handle).__name__}; try Client"):
            AsyncClient(handle)


def test_a_uri_that_is_none_is_refused(database: str) -> None:
    for uri in ("localhost:27017:1", "http://localhost", "mongodb://localhost:99999"):
        with pytest.raises(ConfigError, match="not a usable MongoDB URI"):
            Client(uri)
    with pytest.raises(ConfigError, match="cannot be a database name"):
        Client("mongodb://localhost", database="a b")


async def test_waiting_longer_than_allowed_is_an_error_that_names_the_jobs(
    store: Store, mongo_uri: str
) -> None:
    with Client(store.database) as client:
        jobs = client.submit_many("t.t", [None] * 7)
        end(store, jobs[0])
        with pytest.raises(JobNotFinished, match=r"jobs 1, 2, 3, 4, 5\.\.\. ended within 0\.05 s"):
            client.wait(jobs, timeout=0.05)
        assert client.wait([], timeout=0) == []
    async with AsyncClient(mongo_uri, database=store.database.name) as async_client:
        with pytest.raises(
            JobNotFinished, match=r"job 2 did not end within 0 s: `tontine why 2` tells why"
        ):
            await async_client.wait(jobs[1], timeout=0)


async def test_waiting_holds_up_nobody_else(async_store: AsyncStore, store: Store) -> None:
    client = AsyncClient(async_store.database)
    jobs = await asyncio.gather(*(client.submit("t.t", {"n": number}) for number in range(20)))
    assert sorted(job.seq or 0 for job in jobs) == list(range(1, 21))
    waiting = asyncio.gather(*(client.wait(job, timeout=20) for job in jobs))
    for job in jobs:
        end(store, job, "failed")
    assert {job.state for job in await waiting} == {JobState.FAILED}


def test_a_job_with_an_id_that_python_cannot_hash_can_be_waited_for(store: Store) -> None:
    store.database.jobs.insert_one(
        {"_id": {"order": [1, 2]}, "task": "t.t", "state": "done", "result": 1}
    )
    with Client(store.database) as client:
        assert client.wait(Job({"order": [1, 2]}), timeout=5).result == 1


OPERATIONS: list[Callable[[], Operation[Any]]] = [
    lambda: members.heartbeat("x", {}, 20, within=0.2),
    lambda: read.hurried(control.read_job(1), within=0.2),
    lambda: iter_one(Call("jobs", "insert_one", ({},), within=0.2)),
]


def iter_one(call: Call) -> Operation[Any]:
    return (yield call)


def test_a_call_to_a_server_that_is_not_there_ends_within_its_limit() -> None:
    with MongoClient[dict[str, Any]](
        f"mongodb://127.0.0.1:{free_port()}/?replicaSet=none"
    ) as mongo:
        for operation in OPERATIONS:
            begun = time.monotonic()
            with pytest.raises(StoreUnavailable) as caught:
                Store(mongo["none"]).run(operation())
            assert time.monotonic() - begun < 3
            assert "\n" not in str(caught.value)


async def test_an_async_call_to_a_server_that_is_not_there_ends_within_its_limit() -> None:
    uri = f"mongodb://127.0.0.1:{free_port()}/?replicaSet=none"
    motor: Any = AsyncIOMotorClient(uri)
    async with AsyncMongoClient[dict[str, Any]](uri) as mongo:
        for source in (mongo["none"], motor["none"]):
            begun = time.monotonic()
            tries: list[Awaitable[Any]] = [
                AsyncStore(source).run(operation()) for operation in OPERATIONS
            ]
            for error in await asyncio.gather(*tries, return_exceptions=True):
                assert isinstance(error, StoreUnavailable)
            assert time.monotonic() - begun < 3
    motor.close()


AWAY = "mongodb://127.0.0.1:1/?timeoutMS=200"


def test_an_outage_is_told_within_the_limit_of_the_connection_with_what_was_being_done() -> None:
    """Before: 20 s, whatever the URI said, and then `127.0.0.1:1: timed out`."""
    began = time.monotonic()
    with Client(AWAY) as client:
        with pytest.raises(
            StoreUnavailable,
            match=r"did not answer when it was to read `cluster` in `tontine` \(.+\): is",
        ):
            client.submit("t.t")
        with pytest.raises(
            StoreUnavailable, match=r"when it was to run hello in .* Try again when it answers"
        ):
            client.prepare()
    assert time.monotonic() - began < CALL_LIMIT


@pytest.mark.parametrize("kind", [AsyncMongoClient, AsyncIOMotorClient])
async def test_an_outage_is_told_to_async_clients_in_the_same_way(kind: Any) -> None:
    mongo = kind(AWAY)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="did not answer when it was to read `cluster`"):
        await AsyncClient(mongo).submit("t.t")
    assert time.monotonic() - began < CALL_LIMIT
    closing = mongo.close()
    if closing is not None:
        await closing
