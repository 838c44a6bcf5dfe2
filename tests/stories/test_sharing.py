"""Three identical nodes share one queue."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client

pytestmark = pytest.mark.story

IMPOSSIBLE: list[dict[str, Any]] = [
    {"args": {"x": 1}},
    {"task": 7, "args": {}},
    {"task": "story.double", "args": [1, 2]},
    {"task": "story.double", "args": {"x": 1}, "run_at": "tomorrow"},
    {"task": "story.double", "args": {"x": 1}, "state": "banana"},
]


@pytest.fixture(params=["listening", "polling"])
def nodes(request: pytest.FixtureRequest, cluster: Cluster) -> Cluster:
    cluster.options = ["--lease", "3s"] + (["--no-listen"] if request.param == "polling" else [])
    return cluster


def test_every_job_runs_once_on_its_owner_and_what_cannot_be_a_job_says_why(nodes: Cluster) -> None:
    nodes.begin_all("a", "b", "c")
    with Client(nodes.database) as client:
        client.submit_many("story.double", [{"x": x} for x in range(150)])
        raw = [{"task": "story.triple", "args": {"x": x}} for x in range(60)]
        nodes.database.jobs.insert_many([*raw[:30], *IMPOSSIBLE, *raw[30:]])
        client.submit_many("story.triple", [{"x": x} for x in range(150)])
    jobs = nodes.wait_for_all(365)

    assert len({job["seq"] for job in jobs}) == 365
    done = [job for job in jobs if job["state"] == "done"]
    assert len(done) == 360
    for job in done:
        assert job["result"] == job["args"]["x"] * (2 if job["task"] == "story.double" else 3)
        assert job["attempt"] == 1
    assert nodes.runs() == {job["seq"]: 1 for job in done}

    failed = [job for job in jobs if job["state"] == "failed"]
    assert len(failed) == 5
    reasons = " ".join(job["error"]["message"] for job in failed)
    for word in (
        "no `task`",
        "`task` must be",
        "`args` must be",
        "`run_at` must be",
        "`state` must be",
    ):
        assert word in reasons

    roster = nodes.roster()
    owned = sum(job["node"] == roster.members[job["seq"] % 3] for job in done)
    assert owned >= 0.85 * len(done)


def test_a_stopped_node_exits_cleanly_and_its_share_is_inherited_at_once(nodes: Cluster) -> None:
    a, _ = nodes.begin_all("a", "b")
    with Client(nodes.database) as client:
        running = client.submit_many("story.nap", [{"seconds": 0.5}] * 6)
        eventually(lambda: len(nodes.runs("began")) >= 2, what="jobs running")
        asked = time.monotonic()
        a.signal(signal.SIGTERM)
        eventually(lambda: len(nodes.roster().members) == 1, what="a left the roster")
        eventually(
            lambda: (nodes.record("b") or {}).get("share", {}).get("size") == 1,
            what="b owns everything",
        )
        inherited = time.monotonic() - asked
        later = client.submit_many("story.double", [{"x": x} for x in range(20)])
        client.wait([*running, *later], timeout=30)
    assert a.process.wait(30) == 0
    assert inherited < 5, "a lease is 3 s: the share was inherited by a goodbye, not by a death"
    record = nodes.record("a")
    assert record is not None
    assert (record["state"], record["death"]) == ("dead", "stopped")
    assert "share" not in record
    assert set(nodes.runs("began").values()) == {1}
    assert set(nodes.runs().values()) == {1}


def test_the_jobs_of_a_killed_node_are_done_by_the_others(nodes: Cluster) -> None:
    a, _b, _c = nodes.begin_all("a", "b", "c")
    with Client(nodes.database) as client:
        held_by_a = (nodes.record("a") or {})["_id"]
        jobs = client.submit_many("story.nap", [{"seconds": 0.3}] * 24)
        its_own = {"state": "working", "node": held_by_a}
        eventually(lambda: nodes.database.jobs.find_one(its_own), what="a job of its own")
        a.signal_all(signal.SIGKILL)
        ended = client.wait(jobs, timeout=60)
    assert all(job.state == "done" for job in ended)
    assert all(count <= 2 for count in nodes.runs("began").values())
    assert nodes.runs("ended") == {job.seq: 1 for job in ended}
    assert sum(job.lost for job in ended) >= 1
    record = nodes.record("a")
    assert record is not None
    assert (record["_id"], record["state"], record["death"]) == (held_by_a, "dead", "lease expired")
    assert len(nodes.roster().members) == 2


def test_jobs_with_a_time_start_when_it_has_come(nodes: Cluster) -> None:
    nodes.begin_all("a")
    with Client(nodes.database) as client:
        at = datetime.now(UTC) + timedelta(seconds=1.5)
        jobs = [
            client.submit("story.double", {"x": 1}, delay=1),
            client.submit("story.double", {"x": 2}, run_at=at),
        ]
        nodes.database.jobs.insert_one({"task": "story.double", "args": {"x": 3}, "run_at": at})
        client.wait(jobs, timeout=30)
    for job in nodes.wait_for_all(3):
        assert job["started_at"] >= job["run_at"] - timedelta(milliseconds=5)
        assert (job["started_at"] - job["run_at"]) < timedelta(seconds=10)
