"""The pytest fixtures that come with the package, in the tests of an application."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tontine import Module
from tontine.testing import EagerQueue, Queue

pytestmark = [pytest.mark.story, pytest.mark.long]

own = Module("own")


@own.task
def double(x: int) -> int:
    return 2 * x


@pytest.fixture(scope="session")
def tontine_mongodb(mongo_uri: str) -> str:
    return mongo_uri


@pytest.fixture
def tontine_modules() -> Sequence[Module | str]:
    return (own,)


def test_the_eager_fixture_runs_the_modules_of_the_application(tontine_eager: EagerQueue) -> None:
    assert tontine_eager.wait(tontine_eager.submit("own.double", {"x": 2})).result == 4


def test_the_queue_is_ready_before_the_test(
    tontine_queue: Queue, mongo_client: MongoClient[dict[str, Any]]
) -> None:
    assert {"seq", "key"} <= set(mongo_client[tontine_queue.database].jobs.index_information())
    with tontine_queue.client() as client:
        first = client.submit("own.double", {"x": 1}, key="one")
        assert client.submit("own.double", {"x": 2}, key="one").seq == first.seq
        client.submit("own.halve")
    assert [job.args for job in tontine_queue.submitted("own.double")] == [{"x": 1}]
    assert [job.task for job in tontine_queue.submitted()] == ["own.double", "own.halve"]


async def test_the_queue_has_an_async_client(tontine_queue: Queue) -> None:
    async with tontine_queue.async_client() as client:
        await client.submit("own.double", {"x": 1})
    assert len(tontine_queue.submitted()) == 1


APPLICATION = """
import pytest

@pytest.mark.parametrize("number", range(2))
def test_it(tontine_queue, number):
    with tontine_queue.client() as client:
        assert client.submit("shop.resize").seq == 1
        with open("used", "a") as used:
            print(tontine_queue.database, file=used)
"""


def test_the_queue_is_on_the_mongodb_that_was_named_also_in_many_processes(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "test_app.py").write_text(APPLICATION)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    # Where both are named, the tests' own wins: nothing listens at the other.
    named = {"TONTINE_TEST_URI": mongo_uri, "TONTINE_URI": "mongodb://127.0.0.1:1"}
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | named,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "2 passed" in ended.stdout, ended.stdout
    used = (tmp_path / "used").read_text().split()
    assert len(set(used)) == 2
    assert not set(used) & set(mongo_client.list_database_names())
