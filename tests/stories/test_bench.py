"""`tontine bench` as a user runs it. How fast anything is, is never asserted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from pymongo import MongoClient

from tests.support.eventually import eventually

Mongo = MongoClient[dict[str, Any]]
Bench = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ("--jobs", "300", "--repeat", "1", "--processes", "1")

pytestmark = [pytest.mark.story, pytest.mark.long]


@pytest.fixture
def environment(mongo_uri: str, tmp_path: Path) -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if name != "TONTINE_DATABASE"}
    return {**others, "TONTINE_URI": mongo_uri, "TONTINE_HOME": str(tmp_path)}


@pytest.fixture
def bench(environment: dict[str, str], database: str) -> Bench:
    def bench(*options: str) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            command(database, *options),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
        )
        assert "Traceback" not in ran.stderr
        return ran

    return bench


def command(database: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "tontine", "bench", "--database", database, *options]


def nodes_of(database: str) -> list[int]:
    """The processes, masters and workers, of nodes in this database."""
    pids = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TONTINE_DATABASE") == database:
                pids.append(process.pid)
        except psutil.Error:  # gone, or somebody else's
            continue
    return pids


def test_it_measures_says_so_in_json_and_leaves_nothing(
    bench: Bench, mongo_client: Mongo, database: str
) -> None:
    ran = bench(*SMALL, "--nodes", "2", "--json")
    assert ran.returncode == 0, ran.stderr
    (found,) = map(orjson.loads, ran.stdout.splitlines())
    assert (found["jobs"], found["processes"], found["nodes"], found["repeat"]) == (300, 1, 2, 1)
    for name in ("submit_per_s", "drain_per_s", "bare_per_s", "calls_per_job"):
        measure = found[name]
        assert len(measure["runs"]) == 1
        assert 0 < measure["min"] <= measure["median"] <= measure["max"]
    assert found["drain_to_bare"] == pytest.approx(
        found["drain_per_s"]["median"] / found["bare_per_s"]["median"]
    )
    latency = found["latency_ms"]
    assert latency["submits"] == 200
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"]
    assert found["place"]["cpus"] > 0
    assert found["place"]["members"] == 1
    assert found["place"]["mongodb"] == mongo_client.server_info()["version"]
    assert database not in mongo_client.list_database_names()
    assert nodes_of(database) == []


def test_what_it_keeps_shows_that_every_job_was_done_once_and_is_taken_over(
    bench: Bench, mongo_client: Mongo, database: str
) -> None:
    ran = bench(*SMALL, "--keep")
    assert ran.returncode == 0, ran.stderr
    assert "drain a backlog of no-ops" in ran.stdout
    assert "replica set of 1 member" in ran.stdout
    jobs = list(mongo_client[database].jobs.find())
    assert len(jobs) == 300 + 300 + 200
    assert {(job["state"], job["attempt"]) for job in jobs} == {("done", 1)}
    assert mongo_client[database].cluster.find_one({"_id": "bench"}) == {"_id": "bench"}
    assert bench(*SMALL).returncode == 0
    assert database not in mongo_client.list_database_names()


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_database_with_jobs_of_others_is_refused_untouched(
    bench: Bench, mongo_client: Mongo, database: str, is_marked: bool
) -> None:
    mine = mongo_client[database]
    mine.jobs.insert_one({"_id": 1, "task": "shop.resize", "args": {}})
    if is_marked:
        mine.cluster.insert_one({"_id": "bench"})
    before = {name: list(mine[name].find()) for name in mine.list_collection_names()}
    ran = bench(*SMALL)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "choose another --database" in ran.stderr
    assert {name: list(mine[name].find()) for name in mine.list_collection_names()} == before


def test_a_database_with_anything_else_is_refused_untouched(
    bench: Bench, mongo_client: Mongo, database: str
) -> None:
    mongo_client[database].customers.insert_one({"_id": 1})
    assert bench(*SMALL).returncode == 2
    assert mongo_client[database].list_collection_names() == ["customers"]


def test_only_one_bench_measures_in_a_database(
    bench: Bench, mongo_client: Mongo, database: str
) -> None:
    owner = {"_id": "bench", "host": os.uname().nodename, "pid": os.getpid()}
    mongo_client[database].cluster.insert_one(owner)
    ran = bench(*SMALL)
    assert ran.returncode == 2
    assert f"pid {os.getpid()}" in ran.stderr
    assert mongo_client[database].cluster.find_one() == owner


def test_ctrl_c_ends_the_nodes_and_drops_the_database(
    environment: dict[str, str], mongo_client: Mongo, database: str
) -> None:
    process = subprocess.Popen(
        command(database, "--jobs", "100", "--repeat", "100"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(
        lambda: mongo_client[database].nodes.count_documents({"state": "paused"}),
        60,
        "a node that waits",
    )
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert "Traceback" not in err
    assert database not in mongo_client.list_database_names()
    assert nodes_of(database) == []


@pytest.mark.parametrize(
    "options",
    [
        ("--jobs", "99"),
        ("--jobs", "many"),
        ("--processes", "0"),
        ("--nodes", "0"),
        ("--repeat", "0"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line(bench: Bench, options: tuple[str, ...]) -> None:
    ran = bench(*options)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert options[0] in ran.stderr
