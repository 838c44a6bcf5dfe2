"""A real MongoDB for every test: a one-member replica set per test process, a fresh database per
test."""

from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from pymongo import AsyncMongoClient, MongoClient

from tests.support.cluster import Cluster
from tests.support.data import data_directory
from tontine.embedded import server as embedded
from tontine.store import schema
from tontine.store.call import AsyncStore, Store

SERVER = {
    "ttlMonitorSleepSecs": 1,  # instead of a minute
    "journalCommitInterval": 10,  # instead of 100 ms, which every dropped database waits for
    "minSnapshotHistoryWindowInSeconds": 10,  # instead of five minutes
}
DROPPED = itertools.count(1)
DROPPED_AT_ONCE = 50
"""After so many databases a checkpoint is made: until then, and until their history is over, their
files stay open, 44 of each, and a server ends that cannot open any more."""


def pytest_configure() -> None:
    """A shell starts what runs in the background so that it ignores Ctrl-C, and all that it starts
    in turn."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Both are times that a test could miss on a slow day.
    settings.register_profile(
        "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def mongo_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with data_directory(tmp_path_factory.mktemp("mongo")) as home:
        yield embedded.start(home).uri
        embedded.stop(home)


@pytest.fixture(scope="session")
def mongo_client(mongo_uri: str) -> Iterator[MongoClient[dict[str, object]]]:
    with MongoClient[dict[str, object]](mongo_uri, tz_aware=True) as client:
        for name, value in SERVER.items():
            client.admin.command({"setParameter": 1, name: value})
        yield client


@pytest.fixture
def database(mongo_client: MongoClient[dict[str, object]]) -> Iterator[str]:
    name = f"test_{uuid4().hex[:12]}"
    yield name
    mongo_client.drop_database(name)
    if next(DROPPED) % DROPPED_AT_ONCE == 0:
        mongo_client.admin.command("fsync")


@pytest.fixture
def store(mongo_client: MongoClient[dict[str, object]], database: str) -> Store:
    """A store over a fresh database with collections and indexes."""
    store = Store(mongo_client[database])
    store.run(schema.init())
    return store


@pytest.fixture
async def async_store(mongo_uri: str, store: Store) -> AsyncIterator[AsyncStore]:
    async with AsyncMongoClient[dict[str, object]](mongo_uri, tz_aware=True) as client:
        yield AsyncStore(client[store.database.name])


@pytest.fixture
def own_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file `tasks.py` that a test imports is its own, and forgotten at its end, as is where it
    lies."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "tasks", sys)
    del sys.modules["tasks"]


@pytest.fixture
def cluster(mongo_uri: str, store: Store, tmp_path: Path) -> Iterator[Cluster]:
    """Node processes on a fresh database; whatever is left of them at the end is killed."""
    cluster = Cluster(mongo_uri, store, tmp_path)
    yield cluster
    cluster.close()
