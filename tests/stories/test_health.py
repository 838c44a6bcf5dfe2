"""A single look and the doctor at real nodes: what is wrong is said in the same words, and the exit
code follows."""

from __future__ import annotations

import subprocess
import sys

import orjson
import pytest

from tests.stories.test_observing import submit
from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually

pytestmark = [pytest.mark.story, pytest.mark.long]


def look(cluster: Cluster) -> tuple[int, dict[str, str]]:
    """The exit code, and the alerts by their kinds."""
    command = [sys.executable, "-m", "tontine", "observe", "--once", "--json"]
    command += ["--uri", cluster.uri, "--database", cluster.database.name]
    ended = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
    document = orjson.loads(ended.stdout)
    return ended.returncode, {alert["kind"]: alert["text"] for alert in document["alerts"]}


def doctor(cluster: Cluster, check: str) -> tuple[str, str]:
    command = [sys.executable, "-m", "tontine", "doctor", "--quick", "--json"]
    command += ["--uri", cluster.uri, "--database", cluster.database.name]
    ended = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
    lines = [orjson.loads(line) for line in ended.stdout.splitlines()]
    (found,) = [line for line in lines if line["check"] == check]
    return found["verdict"], found["sentence"]


def test_failing_jobs_and_nodes_that_are_gone_are_told_alike(cluster: Cluster) -> None:
    cluster.options = ["--lease", "3"]
    (ada,) = cluster.begin_all("ada")
    submit(cluster, 3, "story.double", x=1)
    cluster.wait_for_all(3)
    assert look(cluster) == (0, {})
    submit(cluster, 20, "story.hopeless")
    cluster.wait_for_all(23)
    sentence = "story.hopeless fails: 20 of its last 20 jobs, at last Reject: there is no point"
    assert look(cluster) == (1, {"failing": sentence})
    assert doctor(cluster, "failures") == ("fail", sentence)
    ada.kill()
    submit(cluster, 2, "story.double", x=1)

    def is_nobody_left() -> bool:
        code, alerts = look(cluster)
        told = alerts.get("nobody-left", "")
        return code == 1 and told.startswith("nobody is left: ada fell silent") and "2 jobs" in told

    eventually(is_nobody_left, 60)
    verdict, told = doctor(cluster, "nodes")
    assert (verdict, told.partition(" silent ")[0]) == ("fail", "nobody is left: ada fell")
