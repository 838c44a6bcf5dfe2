"""What people rely on every day: priorities, keys, schedules, logs, retention, worn workers."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.records.schedule import Schedule
from tontine.store import logs, schedules
from tontine.store.retention import Retention, keep

pytestmark = pytest.mark.story


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    cluster.options = ["--lease", "3s"]
    with Client(cluster.database) as client:
        yield client
    assert not any("Traceback" in node.text() for node in cluster.nodes)


def test_higher_priority_starts_first_also_in_a_backlog(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.begin_all("a")
    gate = tmp_path / "gate"
    blocker = client.submit("story.gate", {"path": str(gate)})
    eventually(lambda: cluster.runs("began"), what="the slot is taken")
    normal = client.submit_many("story.nap", [{"seconds": 0.02}] * 150)
    low = client.submit("story.nap", {"seconds": 0}, priority=-5)
    # In this order: a job that was claimed ahead is not given back for one that comes later.
    higher = client.submit("story.nap", {"seconds": 0}, priority=9)
    high = client.submit("story.nap", {"seconds": 0}, priority=5)
    gate.touch()
    client.wait([blocker, *normal, low, high, higher], timeout=60)
    order = [
        int(line.split()[0])
        for line in cluster.ledger.read_text().splitlines()
        if " began " in line
    ]
    assert order.index(higher.seq or 0) < order.index(high.seq or 0) < 75
    assert order.index(low.seq or 0) > 140


def test_three_submits_with_one_key_are_one_job(client: Client, cluster: Cluster) -> None:
    first, second, third = (
        client.submit("story.nap", {"seconds": 0.1}, key="once") for _ in range(3)
    )
    assert (first.existed, second.existed, third.existed) == (False, True, True)
    assert first.seq == second.seq == third.seq
    cluster.begin_all("a")
    client.wait(first, timeout=30)
    again = client.submit("story.nap", {"seconds": 0.1}, key="once")
    assert not again.existed
    assert client.wait(again, timeout=30).state == "done"


def test_what_a_task_prints_and_logs_is_kept_with_its_job(client: Client, cluster: Cluster) -> None:
    cluster.begin_all("a")
    job = client.wait(client.submit("story.chatter", {"lines": 2}), timeout=30)
    lines = cluster.store.run(logs.read_lines(job.seq or 0, job.id))
    assert [line.text for line in lines] == [
        "line 0",
        "info: logged 0",
        "line 1",
        "info: logged 1",
        "no newline",
    ]
    long = client.submit("story.chatter", {"lines": 8, "pause": 0.3})
    eventually(
        lambda: len(cluster.store.run(logs.read_lines(long.seq or 0, long.id))) >= 2,
        what="lines while it runs",
    )
    assert client.get(long.seq or 0).state == "working"


def test_a_schedule_fires_once_per_time_also_when_nodes_die(
    client: Client, cluster: Cluster
) -> None:
    nodes = cluster.begin_all("a", "b")
    added = cluster.store.run(schedules.add(Schedule("tick", "story.double", {"x": 7}, every=1)))
    assert added.next_at is not None
    eventually(lambda: len(cluster.jobs(schedule="tick")) >= 2, what="two times fired")
    nodes[0].signal_all(signal.SIGKILL)
    eventually(lambda: len(cluster.jobs(schedule="tick")) >= 6, what="the survivor goes on")
    assert cluster.store.run(schedules.remove("tick"))
    ids = [job["_id"] for job in cluster.jobs(schedule="tick")]
    times = sorted(datetime.fromisoformat(one.removeprefix("tick@")) for one in ids)
    assert {later - earlier for earlier, later in pairwise(times)} == {timedelta(seconds=1)}
    eventually(
        lambda: all(job["state"] == "done" for job in cluster.jobs(schedule="tick")),
        what="all done",
    )


def test_finished_jobs_get_the_expiry_that_is_in_force(client: Client, cluster: Cluster) -> None:
    cluster.begin_all("a")
    kept = client.wait(client.submit("story.double", {"x": 1}), timeout=30)
    assert "expire_at" not in cluster.jobs(seq=kept.seq)[0]
    cluster.store.run(keep(Retention(done=3600, failed=7200)))
    assert "expire_at" in cluster.jobs(seq=kept.seq)[0], "also for jobs that have ended"

    def expiries() -> set[int]:
        done = client.wait(client.submit("story.double", {"x": 1}), timeout=30)
        (job,) = cluster.jobs(seq=done.seq)
        return (
            {round((job["expire_at"] - job["finished_at"]).total_seconds())}
            if "expire_at" in job
            else set()
        )

    assert eventually(expiries, what="the node has read it") == {3600}
    failed = client.wait(client.submit("story.hopeless"), timeout=30)
    (job,) = cluster.jobs(seq=failed.seq)
    assert job["expire_at"] - job["finished_at"] == timedelta(seconds=7200)
    client.retry(failed.seq or 0)
    again = client.wait(client.get(failed.seq or 0), timeout=30)
    assert (again.state, again.attempt) == ("failed", 2)


def test_a_worn_worker_is_replaced_between_jobs(client: Client, cluster: Cluster) -> None:
    cluster.begin_all("a", options=("--max-jobs", "5"))
    pids = [client.wait(client.submit("story.who"), timeout=30).result for _ in range(12)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [5, 5, 2]
    cluster.begin_all("b", options=("--max-memory", "80"))
    b = next(node for node in cluster.nodes if node.name == "b")
    (before,) = b.workers()
    grown = client.submit_many("story.grow", [{"megabytes": 100}] * 6)
    assert {job.state for job in client.wait(grown, timeout=60)} == {"done"}
    if before.pid in {job.result for job in client.wait(grown)}:
        eventually(
            lambda: before.pid not in {one.pid for one in b.workers()},
            what="the large worker is replaced",
        )
    assert {job.lost for job in client.wait(grown)} == {0}


def test_a_thousand_jobs_due_tomorrow_cost_nothing_today(client: Client, cluster: Cluster) -> None:
    cluster.begin_all("a")
    client.submit_many("story.double", [{"x": 1}] * 1000, delay="1d")
    soon = client.submit("story.double", {"x": 2}, delay=0.5)
    began = time.monotonic()
    assert client.wait(soon, timeout=30).result == 4
    assert time.monotonic() - began < 20
    assert cluster.database.jobs.count_documents({"state": "queued"}) == 1000
    assert datetime.now(UTC) < cluster.jobs(state="queued")[0]["run_at"]
