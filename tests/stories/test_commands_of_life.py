"""The commands about a job's life: schedules, logs, retention."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tontine import Client

pytestmark = pytest.mark.story


def run(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tontine", *arguments, "--uri", cluster.uri]
    command += ["--database", cluster.database.name]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )


def test_schedules_are_added_listed_and_removed(cluster: Cluster) -> None:
    added = run(cluster, "schedule", "add", "report", "story.double", '{"x": 4}', "--every", "1h")
    assert (added.returncode, added.stdout.startswith("report: first due")) == (0, True), (
        added.stderr
    )
    cron = run(
        cluster,
        "schedule",
        "add",
        "early",
        "story.double",
        "--cron",
        "30 6 * * 1-5",
        "--tz",
        "Europe/Paris",
    )
    assert cron.returncode == 0
    listed = [
        json.loads(line) for line in run(cluster, "schedule", "ls", "--json").stdout.splitlines()
    ]
    assert [(one["_id"], one.get("every"), one.get("cron")) for one in listed] == [
        ("early", None, "30 6 * * 1-5"),
        ("report", 3600.0, None),
    ]
    assert (
        "every 60 min" in run(cluster, "schedule", "ls").stdout
        or "1 h" in run(cluster, "schedule", "ls").stdout
    )
    assert run(cluster, "schedule", "rm", "report").returncode == 0
    for arguments, word in (
        (("rm", "report"), "no schedule 'report'"),
        (("add", "x", "t.t"), "either"),
        (("add", "x", "t.t", "--cron", "never"), "cron expression"),
        (("add", "x", "t.t", "[1]", "--every", "5s"), "object"),
    ):
        ended = run(cluster, "schedule", *arguments)
        assert ended.returncode == 2
        assert word in ended.stderr
        assert len(ended.stderr.strip().splitlines()) == 1


def test_lines_are_shown_and_followed_to_the_end(cluster: Cluster) -> None:
    cluster.begin_all("a")
    with Client(cluster.database) as client:
        job = client.submit("story.chatter", {"lines": 3, "pause": 0.3})
        followed = run(cluster, "job", str(job.seq), "--logs", "--follow")
        assert [line.split("  ", 1)[1] for line in followed.stdout.splitlines()] == [
            "line 0",
            "info: logged 0",
            "line 1",
            "info: logged 1",
            "line 2",
            "info: logged 2",
            "no newline",
        ]
        quiet = client.wait(client.submit("story.double", {"x": 1}), timeout=30)
    assert "printed and logged nothing" in run(cluster, "job", str(quiet.seq), "--logs").stderr
    assert run(cluster, "job", "1", "--follow").returncode == 2


def test_init_puts_a_retention_in_force_and_mongodb_removes_what_is_over(cluster: Cluster) -> None:
    with Client(cluster.database) as client:
        old, young = (
            client.submit("story.double", {"x": 1}),
            client.submit("story.double", {"x": 2}),
        )
        for job in (old, young):
            client.cancel(job.seq or 0)
        long_ago = datetime.now(UTC) - timedelta(days=40)
        cluster.database.jobs.update_one({"seq": old.seq}, {"$set": {"finished_at": long_ago}})
        said = run(cluster, "init", "--keep-failed", "30d")
        assert "failed and cancelled 30 d" in said.stdout, said.stderr
        eventually(
            lambda: cluster.database.jobs.count_documents({}) == 1,
            120,
            "MongoDB removed the old one",
        )
        assert client.get(young.seq or 0).state == "cancelled"
    assert run(cluster, "init", "--keep-done", "1s").returncode == 2
    assert "for ever" in run(cluster, "init", "--keep-failed", "forever").stdout
    assert cluster.database.jobs.count_documents({"expire_at": {"$exists": True}}) == 0
