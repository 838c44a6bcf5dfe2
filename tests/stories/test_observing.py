"""Observers look on while real nodes work, die and are asked to pause; nothing that happens depends
on them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from pymongo import MongoClient

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tests.support.feeding import feeding, until
from tests.support.replica_set import ReplicaSet
from tontine.client import Client
from tontine.config import StoreConfig
from tontine.store import schema
from tontine.store.call import Store
from tontine_observer.feed.live import LiveSource
from tontine_observer.picture.board import Board
from tontine_observer.records.change import ChangeKind
from tontine_observer.records.link import Mode
from tontine_observer.records.request import Phase, Request

pytestmark = pytest.mark.story


def submit(cluster: Cluster, count: int, task: str, **args: Any) -> None:
    with Client(cluster.uri, database=cluster.database.name) as client:
        client.submit_many(task, [args] * count)


async def test_a_death_and_its_inheritance_are_seen_and_can_be_looked_back_on(
    cluster: Cluster,
) -> None:
    cluster.options = ["--lease", "3"]
    ada, _ = await asyncio.to_thread(cluster.begin_all, "ada", "bea")
    async with feeding(cluster.uri, cluster.database.name) as feed:
        board = feed.board
        await until(lambda: len(board.picture().members) == 2)
        before, victim = board.now(), board.picture().members
        ada.signal_all(signal.SIGKILL)
        await until(
            lambda: {row.name: row.state for row in board.picture().nodes}.get("ada") == "dead",
            "ada is dead",
        )
        await until(lambda: len(board.picture().members) == 1, "her share is inherited")
        assert [row.name for row in board.picture().shares] == ["bea"]
        then = board.picture(before)
        assert then.members == victim
        assert {row.name: row.state for row in then.nodes}["ada"] in ("waiting", "working")
        told = [
            change.text for change in board.changes({ChangeKind.NODE}) if change.subject == "ada"
        ]
        assert told[-1] == "died holding nothing: bea has its share"
        assert board.picture().story == f"ada {told[-1]}"
        assert board.picture().is_healthy
        await until(lambda: board.next_change(before) is not None)


async def test_a_pause_that_an_observer_asks_for_takes_effect(cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.begin_all, "ada", "bea")
    board = Board(cluster.database.name)
    source = LiveSource(StoreConfig(cluster.uri, cluster.database.name), board)
    await source.start()
    try:
        await until(lambda: len(board.picture().members) == 2)
        (ada,) = [row for row in board.picture().nodes if row.name == "ada"]
        told = [
            one.phase
            async for one in source.ask(Request("pause", (ada.id,), {ada.id: ada.state}, "deploy"))
        ]
        assert told[-1] is Phase.DONE
        await until(lambda: [row.name for row in board.picture().shares] == ["bea"])
        assert cluster.record("ada")["state"] == "paused"  # type: ignore[index]
        told = [
            one.phase async for one in source.ask(Request("resume", (ada.id,), {ada.id: "paused"}))
        ]
        assert told[-1] is Phase.DONE
    finally:
        await source.stop()


async def test_twenty_observers_that_come_and_go_change_no_outcome(cluster: Cluster) -> None:
    await asyncio.to_thread(cluster.begin_all, "ada", "bea")
    where = StoreConfig(cluster.uri, cluster.database.name)

    async def come_and_go(number: int) -> None:
        source = LiveSource(where, Board(where.database))
        for _ in range(2):
            await source.start()
            await until(lambda: source.board.link.is_fresh)
            if number % 3:
                await asyncio.sleep(0)  # some look for a moment only
            else:
                await until(lambda: source.board.known.tally.counts["done"] > 10)
            await source.stop()

    await asyncio.to_thread(submit, cluster, 300, "story.double", x=1)
    await asyncio.gather(*(come_and_go(number) for number in range(20)))
    jobs = await asyncio.to_thread(cluster.wait_for_all, 300)
    assert {job["state"] for job in jobs} == {"done"}
    assert {job["attempt"] for job in jobs} == {1}
    assert set(cluster.runs().values()) == {1}
    assert cluster.database.events.count_documents({"kind": "request"}) == 0


@pytest.mark.long
async def test_a_primary_that_is_killed_or_steps_down_is_survived(tmp_path: Path) -> None:
    with (
        ReplicaSet(tmp_path, election=6.0) as servers,
        MongoClient[dict[str, Any]](servers.uri, tz_aware=True) as client,
    ):
        Store(client["db"]).run(schema.init())

        def write(seq: int) -> bool:
            client["db"].jobs.insert_one(
                {"seq": seq, "task": "t.t", "state": "queued", "attempt": 0, "fails": 0, "lost": 0}
            )
            return True

        async with feeding(servers.uri, "db") as feed:
            first = feed.board.picture().status.primary
            await asyncio.to_thread(servers.depose)
            await until(
                lambda: feed.board.picture().status.primary not in ("", first),
                "another primary",
                120,
            )
            await asyncio.to_thread(write, 1)
            await until(lambda: 1 in {row.seq for row in feed.board.jobs().rows}, "a job after it")
            primary = await asyncio.to_thread(eventually, servers.primary, 60, "a primary")
            primary.kill()
            await until(lambda: feed.board.link.reason == "election", "that there is no primary")
            assert feed.board.link.mode is Mode.STALE
            await asyncio.to_thread(eventually, servers.primary, 60, "a primary")
            await asyncio.to_thread(write, 2)
            await until(
                lambda: 2 in {row.seq for row in feed.board.jobs().rows}, "a job after that", 120
            )
            await until(lambda: feed.board.link.mode is Mode.LIVE, "live", 120)
            assert feed.board.changes({ChangeKind.GAP}) == ()


@contextmanager
def observe(cluster: Cluster, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tontine", "observe", "--uri", cluster.uri]
    command += ["--database", cluster.database.name, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_every_change_is_a_line(cluster: Cluster, tmp_path: Path) -> None:
    cluster.begin_all("ada")
    recording = tmp_path / "r.jsonl"
    with observe(cluster, "--follow", "--record", str(recording)) as process:
        assert process.stdout is not None
        first = orjson.loads(process.stdout.readline())
        assert (first["schema"], first["kind"]) == (1, "snapshot")
        submit(cluster, 1, "story.double", x=1)
        seen: list[dict[str, Any]] = []
        while not any(line["kind"] == "job" and line["to"] == "done" for line in seen):
            seen.append(orjson.loads(process.stdout.readline()))
        moves = [(line["from"], line["to"]) for line in seen if line["kind"] == "job"]
        assert moves == [(None, "queued"), ("queued", "working"), ("working", "done")]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    replayed = subprocess.run(
        [
            sys.executable,
            "-m",
            "tontine",
            "observe",
            "--replay",
            str(recording),
            "--once",
            "--json",
        ],
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    document = orjson.loads(replayed.stdout)
    assert document["counts"]["done"] == 1
    assert [node["name"] for node in document["nodes"]] == ["ada"]


def test_the_first_document_has_counted_what_has_ended(cluster: Cluster) -> None:
    cluster.begin_all("ada")
    submit(cluster, 3, "story.double", x=1)
    cluster.wait_for_all(3)
    for option in ("--json", "--plain"):
        with observe(cluster, "--follow", option) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert b'"done":3' in first.replace(b" ", b"") or b"3 done" in first


def test_words_for_a_screen_reader(cluster: Cluster) -> None:
    with observe(cluster, "--follow", "--plain") as process:
        assert process.stdout is not None
        assert b"epoch 0; nodes: none" in process.stdout.readline()
        cluster.begin_all("ada")
        lines = b""
        while b"node ada: initializing to waiting" not in lines:
            line = process.stdout.readline()
            assert line
            assert b"\x1b" not in line
            lines += line


def test_a_closed_pipe_ends_it_quietly(cluster: Cluster) -> None:
    with observe(cluster, "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        submit(cluster, 5, "story.double", x=1)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_store_that_does_not_answer_and_nonsense_have_their_codes(cluster: Cluster) -> None:
    def code(*options: str) -> int:
        command = [sys.executable, "-m", "tontine", "observe", *options]
        ended = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, env=os.environ)
        assert ended.stderr.count(b"Traceback") == 0
        return ended.returncode

    nowhere = ("--uri", "mongodb://127.0.0.1:1", "--timeout", "300ms")
    assert code("--follow", *nowhere) == 3
    assert code("--once", *nowhere) == 3
    assert code("--plain", *nowhere) == 2
    assert code("--replay", "/nonexistent", "--once") == 2
    assert code("--follow", "--redact", "(", *nowhere) == 2
