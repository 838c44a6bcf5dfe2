"""The lives of nodes: pausing, stopping twice, freezing, dying, coming back."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.support.cluster import LIVE, Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.records.states import Desired
from tontine.store import control

pytestmark = pytest.mark.story


@pytest.fixture(autouse=True)
def _short_lease(cluster: Cluster) -> None:
    cluster.options = ["--lease", "3s"]


def test_a_paused_node_finishes_what_runs_and_claims_nothing_until_it_is_resumed(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.begin_all("a")
    gate = tmp_path / "gate"
    with Client(cluster.database) as client:
        running = client.submit("story.gate", {"path": str(gate)})
        eventually(lambda: cluster.runs("began"), what="the job runs")
        cluster.store.run(control.ask("a", Desired.PAUSED))
        cluster.wait_for_members(0)
        waiting = client.submit("story.double", {"x": 1})
        gate.touch()
        assert client.wait(running, timeout=30).state == "done"
        record = cluster.wait_for_state("a", "paused")
        assert "share" not in record
        tick = record["beat"]
        eventually(
            lambda: (cluster.record("a") or {})["beat"] > tick + 2,
            what="a paused node keeps beating",
        )
        assert client.get(waiting.seq or 0).state == "queued"
        cluster.store.run(control.ask("a", Desired.RUNNING))
        assert client.wait(waiting, timeout=30).result == 2
    cluster.wait_for_state("a", *LIVE)


def test_an_operator_can_stop_every_node(cluster: Cluster) -> None:
    nodes = cluster.begin_all("a", "b")
    assert cluster.store.run(control.ask(None, Desired.STOPPED)) == ["a", "b"]
    assert [node.process.wait(30) for node in nodes] == [0, 0]
    assert cluster.roster().members == ()


def test_a_second_signal_gives_running_jobs_back(cluster: Cluster, tmp_path: Path) -> None:
    (a,) = cluster.begin_all("a")
    with Client(cluster.database) as client:
        job = client.submit("story.gate", {"path": str(tmp_path / "never")})
        eventually(lambda: cluster.runs("began"), what="the job runs")
        a.signal(signal.SIGTERM)
        cluster.wait_for_members(0)
        assert a.process.poll() is None, "one signal lets the job finish"
        a.signal(signal.SIGTERM)
        assert a.process.wait(20) == 0
        given_back = client.get(job.seq or 0)
    assert (given_back.state, given_back.lost, given_back.fails) == ("queued", 0, 0)
    log, last = a.text(), a.text().splitlines()[-1]
    assert (
        "waits up to 30 s for 1 running job; another Ctrl-C or SIGTERM ends it now and gives it "
        "back"
    ) in log
    assert (
        f"asked twice to stop: ends what runs; gives job {job.seq} story.gate back to run again"
        in log
    )
    assert "info    stopped after " in last
    assert last.endswith(": 0 jobs done, 0 failed")


def test_workers_end_with_their_master(cluster: Cluster) -> None:
    (a,) = cluster.begin_all("a", options=("--processes", "2"))
    workers = a.workers()
    assert len(workers) == 2
    a.signal(signal.SIGKILL)
    gone, alive = psutil.wait_procs(workers, timeout=10)
    assert (len(gone), alive) == (2, [])


def test_a_frozen_node_is_inherited_and_comes_back_as_a_new_one(cluster: Cluster) -> None:
    a, _b = cluster.begin_all("a", "b")
    first = (cluster.record("a") or {})["_id"]
    with Client(cluster.database) as client:
        jobs = client.submit_many("story.nap", [{"seconds": 0.5}] * 8)
        eventually(lambda: len(cluster.runs("began")) >= 2, what="jobs running")
        a.signal_all(signal.SIGSTOP)
        cluster.wait_for_state("a", "dead", within=30)
        cluster.wait_for_members(1)
        a.signal_all(signal.SIGCONT)
        record = cluster.wait_for_state("a", *LIVE)
        assert record["_id"] != first
        cluster.wait_for_members(2)
        ended = client.wait(jobs, timeout=60)
    assert {job.state for job in ended} == {"done"}
    assert not any(job.node == first and job.attempt > 1 for job in ended)
    assert a.process.poll() is None


def test_a_node_that_froze_for_less_than_its_lease_just_goes_on(cluster: Cluster) -> None:
    (a,) = cluster.begin_all("a")
    first = (cluster.record("a") or {})["_id"]
    a.signal_all(signal.SIGSTOP)
    time.sleep(1)
    a.signal_all(signal.SIGCONT)
    with Client(cluster.database) as client:
        assert client.wait(client.submit("story.double", {"x": 4}), timeout=30).result == 8
    record = cluster.record("a")
    assert record is not None
    assert (record["_id"], record["state"] == "dead") == (first, False)


def test_a_node_alone_that_froze_for_longer_than_its_lease_has_workers_again(
    cluster: Cluster,
) -> None:
    (a,) = cluster.begin_all("a", options=("--lease", "2s"))
    a.signal_all(signal.SIGSTOP)
    time.sleep(3)
    a.signal_all(signal.SIGCONT)
    with Client(cluster.database) as client:
        assert client.wait(client.submit("story.double", {"x": 4}), timeout=30).result == 8


def test_a_task_that_keeps_the_interpreter_for_five_leases_runs_once(cluster: Cluster) -> None:
    (a,) = cluster.begin_all("a", options=("--lease", "2s"))
    first = (cluster.record("a") or {})["_id"]
    with Client(cluster.database) as client:
        job = client.wait(client.submit("story.hold_the_gil", {"seconds": 10}), timeout=60)
    assert (job.result, job.attempt, job.lost) == ("held", 1, 0)
    assert cluster.runs("began") == {job.seq: 1}
    assert (cluster.record("a") or {})["_id"] == first
    assert a.process.poll() is None


def test_a_name_is_taken_while_its_node_beats_and_free_again_after_its_death(
    cluster: Cluster,
) -> None:
    (a,) = cluster.begin_all("a")
    second = cluster.begin("a")
    assert second.process.wait(30) == 2, second.text()
    assert "a node named 'a' is running already" in second.text()
    assert "Traceback" not in second.text()
    a.signal_all(signal.SIGKILL)
    killed = (cluster.record("a") or {})["_id"]
    cluster.begin("a")
    eventually(
        lambda: (cluster.record("a") or {}).get("_id") != killed, 30, "the name is inherited, too"
    )
    cluster.wait_for_state("a", *LIVE)
    cluster.wait_for_members(1)


def test_a_node_whose_record_vanished_starts_again(cluster: Cluster) -> None:
    cluster.begin_all("a")
    cluster.database.nodes.delete_many({})
    cluster.wait_for_state("a", *LIVE)
    with Client(cluster.database) as client:
        assert client.wait(client.submit("story.double", {"x": 1}), timeout=30).result == 2
    cluster.wait_for_members(1)


def test_a_node_with_a_short_lease_leaves_one_with_a_longer_lease_alive(cluster: Cluster) -> None:
    a, _b = cluster.begin("a", "--lease", "20s"), cluster.begin("b", "--lease", "2s")
    for name in ("a", "b"):
        cluster.wait_for_state(name, *LIVE)
    first = (cluster.record("a") or {})["_id"]
    a.signal_all(signal.SIGSTOP)
    beat = (cluster.record("b") or {})["beat"]
    eventually(
        lambda: (cluster.record("b") or {})["beat"] > beat + 25, 60, "five seconds of b's life"
    )
    a.signal_all(signal.SIGCONT)
    assert [(node["name"], node["_id"]) for node in cluster.records() if node["name"] == "a"] == [
        ("a", first)
    ]


def test_a_task_that_must_not_run_twice_is_failed_by_any_survivor(
    cluster: Cluster, tmp_path: Path
) -> None:
    a = cluster.begin("a")
    (tmp_path / "other_tasks.py").write_text(
        "from tontine import Module\nother = Module('other')\n@other.task\ndef hello():\n    "
        "return 1\n"
    )
    cluster.begin("b", modules=str(tmp_path / "other_tasks.py"))
    cluster.wait_for_members(2)
    with Client(cluster.database) as client:
        job = client.submit("story.once_only", {"path": str(tmp_path / "never")})
        eventually(lambda: cluster.runs("began"), what="it runs")
        a.signal_all(signal.SIGKILL)
        ended = client.wait(job, timeout=30)
    assert (ended.state, ended.attempt, ended.lost) == ("failed", 1, 1)
    assert ended.error is not None
    assert "died" in ended.error.message


def test_all_nodes_killed_at_once_and_one_new_started(cluster: Cluster) -> None:
    nodes = cluster.begin_all("a", "b")
    with Client(cluster.database) as client:
        jobs = client.submit_many("story.nap", [{"seconds": 0.2}] * 10)
        eventually(lambda: len(cluster.runs("began")) >= 2, what="jobs running")
        for node in nodes:
            node.signal_all(signal.SIGKILL)
        cluster.begin("c")
        ended = client.wait(jobs, timeout=60)
    assert {job.state for job in ended} == {"done"}
    cluster.wait_for_members(1)
