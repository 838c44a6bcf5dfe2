"""`tontine why` in real situations."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.records.states import Desired
from tontine.store import control

pytestmark = pytest.mark.story


@pytest.fixture
def client(cluster: Cluster) -> Any:
    cluster.options = ["--lease", "3s"]
    with Client(cluster.database) as client:
        yield client


def run_why(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tontine", "why", *arguments]
    command += ["--uri", cluster.uri, "--database", cluster.database.name]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert "Traceback" not in ended.stderr
    return ended


def ask(cluster: Cluster, *arguments: Any) -> dict[str, str]:
    """The findings about a job: code -> sentence and advice."""
    answer = json.loads(run_why(cluster, *map(str, arguments), "--json").stdout)
    return {one["code"]: f"{one['sentence']} {one['advice']}" for one in answer["findings"]}


def await_finding(cluster: Cluster, seq: int | None, code: str, within: float = 30.0) -> str:
    return eventually(lambda: ask(cluster, seq).get(code), within, f"job {seq}: {code}")


def test_a_task_that_nobody_has_and_a_job_of_another_time(client: Client, cluster: Cluster) -> None:
    cluster.begin_all("a")
    unknown = client.submit("story.duoble", {"x": 1})
    later = client.submit("story.double", {"x": 1}, delay=180)
    assert "is story.double meant?" in ask(cluster, unknown.seq)["unknown-task"]
    assert "(in 3 min)" in ask(cluster, later.seq)["not-due"]
    ended = run_why(cluster, str(unknown.seq))
    first, second, advice = ended.stdout.splitlines()
    assert first == f"job {unknown.seq}  story.duoble  · queued"
    assert second.startswith("  No live node has the task story.duoble: a has ")
    assert advice.startswith("  → is story.double meant?")


@pytest.mark.long
def test_behind_others_and_paused(client: Client, cluster: Cluster, tmp_path: Path) -> None:
    cluster.begin_all("a")
    cluster.store.run(control.ask("a", Desired.PAUSED))
    cluster.wait_for_state("a", "paused")
    jobs = client.submit_many("story.gate", [{"path": str(tmp_path / "gate")}] * 8)
    assert "tontine resume a" in ask(cluster, jobs[-1].seq)["all-paused"]
    cluster.store.run(control.ask("a", Desired.RUNNING))
    assert "node a's share" in await_finding(cluster, jobs[-1].seq, "behind")
    assert "The only slot of its owner, node a, is busy" in await_finding(
        cluster, jobs[-1].seq, "slots-busy"
    )
    assert "Node a has been running it" in await_finding(cluster, jobs[0].seq, "running")
    (tmp_path / "gate").touch()
    client.wait(jobs, timeout=60)
    assert "node a finished it" in ask(cluster, jobs[0].seq)["done"]


@pytest.mark.long
def test_what_a_killed_node_ran_and_owned_is_inherited(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.options = ["--lease", "10s"]
    a, _ = cluster.begin_all("a", "b")
    gates = client.submit_many("story.gate", [{"path": str(tmp_path / "gate")}] * 2)
    for gate in gates:
        await_finding(cluster, gate.seq, "running")
    records = {node["_id"]: node["name"] for node in cluster.records()}
    held = next(job["seq"] for job in cluster.jobs(state="working") if records[job["node"]] == "a")
    a.signal_all(signal.SIGKILL)
    owned = [job.seq for job in client.submit_many("story.double", [{"x": 1}] * 2)]
    told = await_finding(cluster, held, "holder-silent")
    assert "b will give the job back in about" in told
    rank = cluster.roster().members.index(next(one for one, name in records.items() if name == "a"))
    queued = next(seq for seq in owned if seq is not None and seq % 2 == rank)
    assert "b will inherit its share in about" in await_finding(cluster, queued, "owner-silent")
    (tmp_path / "gate").touch()
    cluster.wait_for_all(4)
    assert "node b finished it" in ask(cluster, held)["done"]


def test_a_retried_a_failed_and_a_poison_job(client: Client, cluster: Cluster) -> None:
    cluster.begin_all("a")
    lucky = client.wait(client.submit("story.third_time_lucky"), timeout=30)
    assert (
        "failed twice, the last time with Retry: not yet"
        in ask(cluster, lucky.seq)["earlier-errors"]
    )
    never = client.wait(client.submit("story.never"), timeout=30)
    assert "at attempt 2: Retry: never" in ask(cluster, never.seq)["failed"]
    assert f"tontine retry {never.seq}" in ask(cluster, never.seq)["failed"]
    crash = client.wait(client.submit("story.crash"), timeout=60)
    assert "4 times" in ask(cluster, crash.seq)["failed-lost"]


def test_a_cancelled_job_and_one_that_was_never_inserted(client: Client, cluster: Cluster) -> None:
    job = client.submit("story.double", {"x": 1})
    assert "tontine node" in ask(cluster, job.seq)["no-node"]
    client.cancel(job.seq or 0)
    assert "tontine retry" in ask(cluster, job.seq)["cancelled"]
    ended = run_why(cluster, "99")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("tontine: No job has this number yet: the last one given is 1")


def test_raw_jobs_before_and_after_they_are_numbered(client: Client, cluster: Cluster) -> None:
    jobs = cluster.database.jobs
    first = jobs.insert_one(
        {"task": "story.gate", "args": {"path": "/nowhere/at/all"}, "key": "k"}
    ).inserted_id
    assert "no node is there" in ask(cluster, "--id", first)["unnumbered"]
    assert "no node is there" in ask(cluster, first)["unnumbered"]
    cluster.begin_all("a")
    eventually(lambda: jobs.find_one({"_id": first, "seq": {"$gt": 0}}), what="numbered")
    second = jobs.insert_one({"task": "story.double", "key": "k"}).inserted_id
    jobs.insert_one({"_id": "mine", "args": {}})
    eventually(lambda: jobs.count_documents({"state": "failed"}) == 2, what="refused")
    assert "key 'k' is taken by job 1" in ask(cluster, "--id", second)["key-taken"]
    assert "it has no `task`" in ask(cluster, "--id", "mine")["refused"]
