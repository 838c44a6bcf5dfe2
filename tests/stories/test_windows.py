"""A Windows machine as a producer: what it lacks is taken away, and jobs are submitted all the
same."""

from __future__ import annotations

import os
import subprocess
import sys

import orjson
import pytest

from tests.support.cluster import ROOT
from tontine.store import read
from tontine.store.call import Store

pytestmark = [pytest.mark.story, pytest.mark.long]

PRODUCE = """
import asyncio
from tontine import AsyncClient, Client, Module, Reject, Retry, current_job

shop = Module("shop", version="1.2.0")

@shop.task
def resize(image: str) -> str:
    return image

async def later() -> None:
    async with AsyncClient() as client:
        await client.submit("shop.resize", {"image": "b.png"})

with Client() as client:
    job = client.submit("shop.resize", {"image": "a.png"})
    assert client.get(job.seq).state == "queued"
asyncio.run(later())
"""


def windows(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command, or Python, as on Windows; in a pipe, whose encoding there is not UTF-8."""
    command = [sys.executable, "-m", "tests.support.windows", *arguments]
    mine = {"PYTHONIOENCODING": "cp1252", **environment}
    return subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        env=os.environ | mine,
        timeout=60,
        check=False,
    )


@pytest.fixture
def place(mongo_uri: str, store: Store) -> dict[str, str]:
    return {"TONTINE_URI": mongo_uri, "TONTINE_DATABASE": store.database.name}


def test_both_clients_submit(place: dict[str, str], store: Store) -> None:
    ended = windows("-c", PRODUCE, **place)
    assert ended.returncode == 0, ended.stderr
    assert store.run(read.count_states())["queued"] == 2


def test_the_commands_submit_and_look(place: dict[str, str], store: Store) -> None:
    submitted = windows("submit", "shop.resize", '{"image": "a.png"}', "--json", **place)
    assert submitted.returncode == 0, submitted.stderr
    assert orjson.loads(submitted.stdout)["task"] == "shop.resize"
    store.database.nodes.insert_one({"_id": "ada-1", "name": "ada", "beat": 1, "state": "waiting"})
    for arguments, word in (
        (("jobs",), "· queued"),
        (("nodes",), "○ waiting"),
        (("observe", "--once"), "1 queued"),
    ):
        ended = windows(*arguments, **place)
        assert word in ended.stdout, ended.stderr
    assert "Run one node in the foreground." in windows("--help").stdout


@pytest.mark.parametrize(
    "arguments", [("node", "shop.tasks", "--name", "a"), ("node", "--help"), ("bench",), ("demo",)]
)
def test_what_needs_a_node_says_where_nodes_run(arguments: tuple[str, ...]) -> None:
    ended = windows(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert f"`tontine {arguments[0]}` does not run on Windows" in ended.stderr


def test_a_pipe_with_an_old_encoding_ends_no_command(place: dict[str, str], store: Store) -> None:
    store.database.nodes.insert_one({"_id": "ada-1", "name": "ada", "beat": 1, "state": "waiting"})
    command = [sys.executable, "-m", "tontine", "nodes"]
    old = os.environ | place | {"PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        command, capture_output=True, text=True, env=old, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "waiting" in ended.stdout
