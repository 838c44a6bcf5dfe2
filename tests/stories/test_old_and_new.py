"""Nodes of the release before this one beside nodes of this one, on one database."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.cluster import LIVE, ROOT, Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.store import schema
from tontine.testing import NodeProcess

pytestmark = pytest.mark.story

BEFORE = "f8a9844"
"""The last commit before the roster had kinds."""
PACKAGES = ("shared", "node", "observer")


@pytest.fixture(scope="module")
def old_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its packages, out of the history of this repository."""
    archive = subprocess.run(
        ["git", "archive", BEFORE, *PACKAGES], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip(f"the history does not go back to {BEFORE}")
    place = tmp_path_factory.mktemp("release-before")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(place, filter="data")
    return place


def begin_old(cluster: Cluster, release: Path, name: str) -> NodeProcess:
    path = os.pathsep.join(str(release / package) for package in PACKAGES)
    return cluster.launch(
        "tests.support.tasks",
        name=name,
        options=cluster.options,
        environment={"STORY_LEDGER": str(cluster.ledger), "PYTHONPATH": path},
        cwd=ROOT,
    )


def submit_some(cluster: Cluster, count: int) -> int:
    """Jobs of every sort that both releases know, and how many."""
    with Client(cluster.database) as client:
        client.submit_many("story.double", [{"x": x} for x in range(count)])
        client.submit_many("story.triple", [{"x": x} for x in range(count)], delay=0.5)
        client.submit_many("story.double", [{"x": x} for x in range(count)], priority=3)
        client.submit_many("story.double", [{"x": x} for x in range(count)], priority=-3)
        cluster.database.jobs.insert_many(
            [{"task": "story.double", "args": {"x": x}} for x in range(count)]
        )
    return 5 * count


def test_old_joins_and_leaves_among_new_and_every_job_is_done_once(
    cluster: Cluster, old_release: Path
) -> None:
    cluster.options = ["--lease", "4s"]
    old = begin_old(cluster, old_release, "old-1")
    cluster.wait_for_state("old-1", *LIVE)
    jobs = submit_some(cluster, 30)
    cluster.begin("new-1")
    cluster.begin("new-2")
    for name in ("new-1", "new-2"):
        cluster.wait_for_state(name, *LIVE)
    eventually(
        lambda: [cluster.record("old-1")["_id"]] == cluster.roster().old_members(),  # type: ignore[index]
        30.0,
        "the new ones say what they offer, and the old one does not",
    )
    jobs += submit_some(cluster, 30)
    cluster.wait_for_all(jobs)

    old.process.terminate()
    jobs += submit_some(cluster, 30)
    old.process.wait(60)
    begin_old(cluster, old_release, "old-2")
    jobs += submit_some(cluster, 30)
    cluster.wait_for_state("old-2", *LIVE)
    next(node for node in cluster.nodes if node.name == "new-1").kill()
    jobs += submit_some(cluster, 30)

    ended = cluster.wait_for_all(jobs)
    assert len(ended) == jobs
    assert {job["state"] for job in ended} == {"done"}
    twice = [seq for seq, runs in cluster.runs().items() if runs > 1]
    killed = {job["seq"] for job in ended if job["lost"]}
    assert set(twice) <= killed, "only what a killed node had begun ran again"
    assert len(cluster.runs()) == jobs


def test_old_leaves_jobs_with_a_range_alone_while_it_joins_and_leaves(
    cluster: Cluster, old_release: Path
) -> None:
    """It does not know their task keys (MV1)."""
    cluster.options = ["--lease", "4s"]
    ranged, jobs = "story.double@>=1.0", 0

    def submit() -> int:
        with Client(cluster.database) as client:
            client.submit_many("story.double", [{"x": x} for x in range(20)])
            client.submit_many("story.double", [{"x": x} for x in range(20)], version=">=1.0")
        return 40

    def old_ones_done() -> bool:
        return not cluster.jobs(state={"$ne": "done"}, task="story.double")

    old = begin_old(cluster, old_release, "old-1")
    cluster.wait_for_state("old-1", *LIVE)
    jobs += submit()
    eventually(old_ones_done, 60.0, "the old one works")
    waiting = cluster.jobs(task=ranged)
    assert [(job["state"], job["attempt"]) for job in waiting] == [("queued", 0)] * 20
    cluster.begin("new-1")
    cluster.wait_for_state("new-1", *LIVE)
    jobs += submit()
    old.process.terminate()
    jobs += submit()
    old.process.wait(60)
    begin_old(cluster, old_release, "old-2")
    jobs += submit()
    cluster.wait_for_state("old-2", *LIVE)
    jobs += submit()
    ended = cluster.wait_for_all(jobs)
    assert {job["state"] for job in ended} == {"done"}
    assert {job["node"].rsplit("-", 1)[0] for job in ended if job["task"] == ranged} == {"new-1"}
    assert set(cluster.runs().values()) == {1}


def test_the_old_indexes_stay_as_long_as_an_old_node_does(
    cluster: Cluster, old_release: Path
) -> None:
    cluster.options = ["--lease", "4s"]
    old = begin_old(cluster, old_release, "old")
    cluster.wait_for_state("old", *LIVE)
    cluster.begin("new")
    cluster.wait_for_state("new", *LIVE)
    there = set(cluster.database.jobs.index_information())
    assert {"due", "ranked", "due_by_task", "ranked_by_task"} <= there
    old.process.terminate()
    old.process.wait(60)
    cluster.store.run(schema.mend())  # as a node does it
    assert {"due", "ranked"} <= set(cluster.database.jobs.index_information())
    assert cluster.store.run(schema.retire()) == ["jobs.due", "jobs.ranked"]
    jobs = submit_some(cluster, 10)
    assert {job["state"] for job in cluster.wait_for_all(jobs)} == {"done"}
