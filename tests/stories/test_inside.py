"""A node in which something fails says so, and every view of it shows what, why and for whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.cli import tontine

pytestmark = pytest.mark.story


@pytest.fixture
def client(cluster: Cluster) -> Any:
    cluster.options = ["--lease", "3s"]
    with Client(cluster.database) as client:
        yield client


def run(cluster: Cluster, *arguments: str) -> Result:
    where = ["--uri", cluster.uri, "--database", cluster.database.name]
    return CliRunner().invoke(tontine, [*arguments, *where])


def troubles(cluster: Cluster, name: str) -> dict[str, Any]:
    record = cluster.record(name) or {}
    return {one["what"]: one for one in record.get("troubles", ())}


def test_a_node_that_cannot_claim_says_so_until_it_can(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    # Somebody's own unique index: a node can hold one job, and every claim of a second one is
    # refused.
    cluster.database.jobs.create_index(
        "node", unique=True, name="mine", partialFilterExpression={"state": "working"}
    )
    cluster.begin_all("a", options=("--slots", "2"))
    client.submit_many("story.gate", [{"path": str(tmp_path / "gate")}] * 2)

    trouble = eventually(
        lambda: troubles(cluster, "a").get("claiming"), 30, "a trouble with claiming"
    )
    assert "duplicate key" in trouble["why"]
    waits = next(job for job in cluster.jobs() if job["state"] == "queued")["seq"]
    told = "has not been able to claim jobs"
    nodes = run(cluster, "nodes").stdout
    assert "in trouble: see below" in nodes
    assert f"! a {told}" in nodes
    assert f"Its owner, node a, {told}" in run(cluster, "why", str(waits)).stdout
    once = json.loads(run(cluster, "observe", "--once", "--json").stdout)
    assert [one["what"] for one in once["nodes"][0]["troubles"]] == ["claiming"]
    assert any(one["kind"] == "trouble" and told in one["text"] for one in once["alerts"])
    doctor = run(cluster, "doctor")
    assert doctor.exit_code == 1
    assert any("inside" in line and f"a {told}" in line for line in doctor.stdout.splitlines())

    cluster.database.jobs.drop_index("mine")
    client.submit("story.double", {"x": 1})  # a claim that gets through ends it
    eventually(lambda: not troubles(cluster, "a"), 90, "no trouble any more")
