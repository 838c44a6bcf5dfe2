"""Schedules that cannot fire, and those that were silenced, among schedules that must go on."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.story

MARS = {"task": "story.double", "cron": "* * * * *", "timezone": "Mars/Olympus"}


def run(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "tontine",
        *arguments,
        "--uri",
        cluster.uri,
        "--database",
        cluster.database.name,
    ]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )


def test_one_that_no_node_can_compute_is_shown_and_the_others_fire(cluster: Cluster) -> None:
    now = datetime.now(UTC)
    tick: dict[str, Any] = {"task": "story.double", "args": {"x": 7}, "every": 1}
    cluster.database.schedules.insert_many(
        [
            *(
                {"_id": f"mars-{number}", **MARS, "next_at": now - timedelta(days=1)}
                for number in range(110)
            ),
            {"_id": "tick", **tick, "next_at": now},
            {"_id": "silenced", **tick, "next_at": now + timedelta(hours=1)},
            {"_id": "by-hand", **tick},
        ],
        bypass_document_validation=True,
    )
    (node,) = cluster.begin_all("a")
    for name in ("tick", "silenced", "by-hand"):
        eventually(lambda name=name: cluster.jobs(schedule=name, state="done"), 60, f"{name} fires")  # type: ignore[misc]

    def told() -> str:
        troubles = (cluster.record("a") or {}).get("troubles", [])
        return "".join(one["why"] for one in troubles if one["what"] == "schedules")

    assert "no time zone 'Mars/Olympus'" in eventually(told, 60, "the node's record says so")
    listed = run(cluster, "schedule", "ls")
    assert listed.returncode == 0, listed.stderr
    assert "mars-7 is broken: there is no time zone 'Mars/Olympus'" in listed.stdout
    as_json = [
        json.loads(line) for line in run(cluster, "schedule", "ls", "--json").stdout.splitlines()
    ]
    assert {one["_id"] for one in as_json if one["broken"] is None} == {
        "tick",
        "silenced",
        "by-hand",
    }
    examined = [
        json.loads(line) for line in run(cluster, "doctor", "--quick", "--json").stdout.splitlines()
    ]
    (judged,) = [one for one in examined if one["check"] == "schedules"]
    assert judged["verdict"] == "fail"
    assert "110 schedules cannot fire: mars-0: there is no time zone" in judged["sentence"]
    assert "Traceback" not in node.text()
