"""Counters: a node's sums are those of what was accepted, and Prometheus can read them, also after
the store was away."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tests.support.typed import read
from tontine import Client
from tontine.embedded import server as embedded
from tontine.records.counted import stats_in
from tontine.store import stats

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs" / "metrics.md").read_text()


def ask(cluster: Cluster, *arguments: str) -> str:
    where = {"TONTINE_URI": cluster.uri, "TONTINE_DATABASE": cluster.database.name}
    ended = subprocess.run(
        [sys.executable, "-m", "tontine", *arguments],
        env=os.environ | where,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def rows(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    read = [orjson.loads(line) for line in text.splitlines()]
    return {(one["task"], one["name"]): one for one in read}


@contextlib.contextmanager
def exporter(uri: str, database: str) -> Iterator[str]:
    """The address of a `tontine metrics` of its own."""
    command = [sys.executable, "-m", "tontine", "metrics", "--port", "0"]
    where = {"TONTINE_URI": uri, "TONTINE_DATABASE": database}
    with subprocess.Popen(
        command, env=os.environ | where, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://\S+", said)
            assert found, said
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130


def scrape(address: str) -> dict[str, Any]:
    answer = httpx.get(address, timeout=30)
    answer.raise_for_status()
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(families: dict[str, Any], sample: str, **labels: str) -> float:
    """The sum of all samples of that name with these labels."""
    found = [
        one.value
        for family in families.values()
        for one in family.samples
        if one.name == sample and labels.items() <= one.labels.items()
    ]
    assert found, sample
    return float(sum(found))


def test_sums_are_those_of_done_jobs_and_prometheus_reads_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "tasks.py").write_text(read(PAGE).text("tasks.py"))
    nodes = [
        cluster.begin(name, "--lease", "3s", modules=str(tmp_path / "tasks.py"))
        for name in ("a", "b")
    ]
    cluster.wait_for_members(2)
    with Client(cluster.database) as client:
        loads = client.submit_many("shop.load", [{"rows": 5}] * 40)
        bad = client.submit("shop.load", {"rows": 5, "bad": 1})
        fetch = client.submit("shop.fetch", {"pages": 3})
        waiting = client.submit("nobody.has", {})
        client.wait([*loads, bad, fetch], timeout=60)
        assert client.get(bad).counts == {"rows": 5, "bad_rows": 1}
        assert client.get(fetch).counts == {}
    exact = rows(ask(cluster, "stats", "--exact", "--json"))
    assert {key: one["count"] for key, one in exact.items()} == {
        ("shop.load", "bad_rows"): 1,
        ("shop.load", "rows"): 205,
    }
    with exporter(cluster.uri, cluster.database.name) as address:
        eventually(
            lambda: (
                rows(ask(cluster, "stats", "--json")).get(("shop.load", "rows"), {}).get("count")
                == 205
            ),
            what="the heartbeats have told",
        )
        families = eventually(
            lambda: found if "tontine_task_count" in (found := scrape(address)) else None,
            what="it is served",
        )
        assert value(families, "tontine_task_count_total", task="shop.load", name="rows") == 205
        assert value(families, "tontine_task_observed_count", name="page_bytes") == 3
        assert value(families, "tontine_task_observed_sum", name="page_bytes") == 6000
        assert value(families, "tontine_task_observed_bucket", name="page_bytes", le="2048.0") == 2
        assert value(families, "tontine_jobs_total", state="done") == 42
        assert value(families, "tontine_queued", task="nobody.has") == 1
        assert value(families, "tontine_queued", task="shop.load") == 0
        assert value(families, "tontine_node_up") == 2
        assert value(families, "tontine_node_slots") >= 2
        assert value(families, "tontine_node_memory_bytes") > 1e6
        assert value(families, "tontine_epoch") >= 2
        assert httpx.get(address.replace("/metrics", "/")).status_code == 404
    assert waiting.seq
    # Stopped by itself, its last write has all; of one that is killed the record stays as it was.
    nodes[0].stop()
    nodes[1].kill()
    told = rows(ask(cluster, "stats", "--task", "shop.*", "--json"))
    assert told["shop.load", "rows"]["count"] == 205
    observed = told["shop.fetch", "page_bytes"]
    assert (observed["n"], observed["mean"], observed["max"]) == (3, 2000, 3000)
    by_node = [rows(ask(cluster, "stats", "--node", name, "--json")) for name in ("a", "b")]
    assert sum(one.get(("shop.load", "rows"), {}).get("count", 0) for one in by_node) == 205
    assert "nothing" not in ask(cluster, "stats")
    assert "6,000" in ask(cluster, "stats")
    host = cluster.records(dead=True)[0]["metrics"]["host"]
    assert 0 < host["memory_used"] <= host["memory"]
    assert 0 <= host["cpu"] <= 1


def test_a_node_that_stops_tells_all_that_was_accepted(cluster: Cluster) -> None:
    """However soon after the last job: no heartbeat lies between."""
    node = cluster.begin("a", "--lease", "30s")
    cluster.wait_for_state("a", "waiting")
    with Client(cluster.database) as client:
        jobs = client.submit_many("story.count", [{"by": 3}] * 200)
        client.wait(jobs, timeout=60)
    node.stop()
    record = cluster.record("a")
    assert record is not None
    assert record["state"] == "dead"
    assert [one.to_document() for one in stats_in(record)] == [
        {"task": "story.count", "name": "by", "count": 600}
    ]
    assert record["metrics"]["done"] == 200
    (exact,) = cluster.store.run(stats.sum_counts())
    assert exact.value == 600


@pytest.mark.long
def test_a_store_that_is_away_does_not_end_the_exporter(tmp_path: Path) -> None:
    home = tmp_path / "home"
    running = embedded.start(home)
    try:
        with exporter(running.uri, "away") as address:
            assert value(scrape(address), "tontine_epoch") == 0
            os.kill(running.pid, signal.SIGSTOP)
            try:
                answer = eventually(
                    lambda: one if (one := httpx.get(address, timeout=30)).is_error else None, 60
                )
                assert answer.status_code == 503
                assert len(answer.text.splitlines()) == 1
            finally:
                os.kill(running.pid, signal.SIGCONT)
            eventually(lambda: httpx.get(address, timeout=30).is_success, 60)
            assert value(scrape(address), "tontine_epoch") == 0
    finally:
        embedded.stop(home)
