"""The datastore goes away and comes back: nobody is declared dead for it, and nothing is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pymongo import MongoClient

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.embedded import server as embedded
from tontine.store import schema
from tontine.store.call import Store

pytestmark = pytest.mark.story


@pytest.fixture
def outage(tmp_path: Path) -> Iterator[tuple[Cluster, embedded.EmbeddedMongoDB]]:
    """Nodes on a MongoDB of their own, because it gets killed."""
    home = tmp_path / "home"
    running = embedded.start(home)
    with MongoClient[dict[str, object]](running.uri, tz_aware=True) as mongo:
        store = Store(mongo["outage"])
        store.run(schema.init())
        cluster = Cluster(running.uri, store, tmp_path)
        yield cluster, running
        cluster.close()
    embedded.stop(home)


def test_a_job_ended_by_a_short_outage_is_given_back(
    outage: tuple[Cluster, embedded.EmbeddedMongoDB], tmp_path: Path
) -> None:
    """The outage is over before anybody else may act, but the worker has ended itself."""
    cluster, running = outage
    cluster.begin_all("a", options=("--lease", "8s"))
    with Client(cluster.database) as client:
        job = client.submit("story.gate", {"path": str(tmp_path / "gate")})
        eventually(lambda: cluster.runs("began"), what="it runs")
        os.kill(running.pid, signal.SIGSTOP)
        time.sleep(6.8)
        os.kill(running.pid, signal.SIGCONT)
        (tmp_path / "gate").touch()
        assert client.wait(job, timeout=40).state == "done"


def test_an_outage_of_two_leases_kills_no_node_and_loses_no_job(
    outage: tuple[Cluster, embedded.EmbeddedMongoDB],
) -> None:
    cluster, running = outage
    nodes = cluster.begin_all("a", "b", options=("--lease", "2s"))
    ids = {node["name"]: node["_id"] for node in cluster.records()}
    with Client(cluster.database) as client:
        jobs = client.submit_many("story.nap", [{"seconds": 0.2}] * 40)
        eventually(lambda: len(cluster.runs("began")) >= 4, what="jobs running")
        os.kill(running.pid, signal.SIGKILL)
        time.sleep(4)
        assert embedded.start(running.home).uri == running.uri
        ended = client.wait(jobs, timeout=60)
    assert {job.state for job in ended} == {"done"}
    assert {job.lost for job in ended} == {0}
    assert {node["name"]: node["_id"] for node in cluster.records()} == ids
    assert [node.process.poll() for node in nodes] == [None, None]
    assert not any("Traceback" in node.text() for node in nodes)
    for log in (node.text() for node in nodes):
        assert (log.count("has not answered for"), log.count("MongoDB answers again, after")) == (
            1,
            1,
        ), log
        during = log[
            log.index("has not answered for") : log.index("MongoDB answers again")
        ].splitlines()
        assert not [
            line for line in during[1:] if "failed" in line or "nothing to listen to" in line
        ], log


def test_a_third_signal_ends_a_node_at_once_whatever_hangs(
    outage: tuple[Cluster, embedded.EmbeddedMongoDB], tmp_path: Path
) -> None:
    cluster, running = outage
    (a,) = cluster.begin_all("a")
    with Client(cluster.database) as client:
        client.submit("story.gate", {"path": str(tmp_path / "never")})
        eventually(lambda: cluster.runs("began"), what="it runs")
    workers = a.workers()
    os.kill(running.pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            a.signal(signal.SIGTERM)
            time.sleep(0.5)  # signals of one kind that come together are one
        assert a.process.wait(60) == 1
    finally:
        os.kill(running.pid, signal.SIGCONT)
    assert "ended by force" in a.text()
    assert "Traceback" not in a.text()
    assert not psutil.wait_procs(workers, timeout=30)[1]
