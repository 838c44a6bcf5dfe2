"""A rolling upgrade, and tasks that never run twice, with real nodes of several versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import LIVE, ROOT, Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.records.task_key import fits
from tontine.testing import NodeProcess

KILLS = int(os.environ.get("STORY_KILLS", "3"))
"""How often a node with a job that must not run twice is killed; `scripts/kills`: 50 times."""

pytestmark = [pytest.mark.story, pytest.mark.timeout(180 + 60 * KILLS)]


def begin(cluster: Cluster, name: str, version: str) -> NodeProcess:
    return cluster.launch(
        "tests.support.versioned_tasks",
        name=name,
        options=cluster.options,
        environment={"STORY_LEDGER": str(cluster.ledger), "VERSIONED_AS": version},
        cwd=ROOT,
    )


def ran_by_version(cluster: Cluster) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for line in cluster.ledger.read_text().splitlines():
        seq, _, _, version = line.split()
        found.setdefault(int(seq), set()).add(version)
    return found


def test_in_a_rolling_upgrade_no_job_runs_outside_its_range(cluster: Cluster) -> None:
    cluster.options = ["--lease", "4s"]
    keys = ("versioned.which", "versioned.which@>=1.3", "versioned.which@<1.3")
    jobs = 0

    def submit() -> int:
        with Client(cluster.database) as client:
            for key in keys:
                client.submit_many(key, [{}] * 20)
        return 60

    old = [begin(cluster, f"old-{number}", "1.2.0") for number in (1, 2)]
    for node in old:
        cluster.wait_for_state(node.name, *LIVE)
    jobs += submit()
    for number, leaving in enumerate(old, 1):
        begin(cluster, f"new-{number}", "1.3.0")
        cluster.wait_for_state(f"new-{number}", *LIVE)
        jobs += submit()
        if leaving is old[0]:  # the last one stays for what needs it
            leaving.process.terminate()
            leaving.process.wait(60)
        jobs += submit()
    ended = cluster.wait_for_all(jobs)
    assert {job["state"] for job in ended} == {"done"}
    by_seq = {job["seq"]: job["task"] for job in ended}
    for seq, versions in ran_by_version(cluster).items():
        assert all(fits(by_seq[seq], version) for version in versions), (by_seq[seq], versions)
    assert set(ran_by_version(cluster)) == set(by_seq)
    assert {"1.2.0", "1.3.0"} <= set().union(*ran_by_version(cluster).values())


def test_a_careful_task_with_a_range_never_runs_twice_however_often_its_node_is_killed(
    cluster: Cluster,
) -> None:
    cluster.options = ["--lease", "3s"]
    begin(cluster, "judge", "1.2.0")
    cluster.wait_for_state("judge", *LIVE)
    with Client(cluster.database) as client:
        for number in range(KILLS):
            node = begin(cluster, f"n{number}", "1.3.0")
            cluster.wait_for_state(f"n{number}", *LIVE)
            job = client.submit("versioned.once", {"seconds": 60}, version=">=1.3")
            eventually(
                lambda seq=job.seq: cluster.runs("began")[seq],  # type: ignore[misc]
                60.0,
                "it begins",
            )
            node.kill()
            assert client.wait(job, timeout=60).state == "failed"
    assert set(cluster.runs("began").values()) == {1}
    assert len(cluster.runs("began")) == KILLS


def add_module(cluster: Cluster, node: str, source: str) -> None:
    """Let a running node load a module, as an operator does."""
    command = [sys.executable, "-m", "tontine", "module", "add", node, source]
    command += ["--uri", cluster.uri, "--database", cluster.database.name]
    subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=ROOT)


def test_a_careful_task_added_at_run_time_never_runs_twice_however_often_its_node_is_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    source = "tests.support.versioned_tasks"
    settings = tmp_path / "tontine.toml"
    settings.write_text(f'[node]\navailable = ["{source}"]\n')
    cluster.options = ["--lease", "3s"]
    cluster.begin_all("judge")  # it never hears of the task: only the dead node's record tells
    with Client(cluster.database) as client:
        for number in range(KILLS):
            name = f"n{number}"
            node = cluster.begin(name, "--config", str(settings))
            cluster.wait_for_state(name, *LIVE)
            add_module(cluster, name, source)
            job = client.submit("versioned.once", {"seconds": 60})
            eventually(
                lambda seq=job.seq: cluster.runs("began")[seq],  # type: ignore[misc]
                60.0,
                f"it begins: {cluster._tail(name)}",
            )
            node.kill()
            assert client.wait(job, timeout=60).state == "failed"
    assert set(cluster.runs("began").values()) == {1}
    assert len(cluster.runs("began")) == KILLS
