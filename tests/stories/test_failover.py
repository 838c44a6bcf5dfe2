"""A replica set of three changes its primary under nodes with the default lease, and nobody dies of
it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymongo import MongoClient

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.replica_set import ReplicaSet, Server
from tontine import Client
from tontine.store import schema
from tontine.store.call import Store

pytestmark = [pytest.mark.story, pytest.mark.long]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[ReplicaSet]:
    with ReplicaSet(tmp_path) as servers:
        yield servers


@pytest.fixture
def cluster(servers: ReplicaSet, tmp_path: Path) -> Iterator[Cluster]:
    with MongoClient[dict[str, object]](servers.uri, tz_aware=True) as client:
        store = Store(client["failover"])
        store.run(schema.init())
        cluster = Cluster(servers.uri, store, tmp_path)
        yield cluster
        cluster.close()


def has_left(servers: ReplicaSet, primary: Server) -> bool:
    """Whether another one is primary; one that lives is asked to step down, again if nobody else
    could take over."""
    found = servers.primary()
    if found is primary:
        servers.depose()
    return found not in (None, primary)


@pytest.mark.parametrize("how", ["steps down", "is killed"])
def test_a_failover_ends_no_running_job_and_no_node(
    how: str, servers: ReplicaSet, cluster: Cluster
) -> None:
    cluster.begin_all("a", "b", options=("--slots", "2"))
    gate = cluster.directory / "gate"
    with Client(cluster.database) as client:
        running = client.submit_many("story.gate", [{"path": str(gate)}] * 2)
        eventually(lambda: len(cluster.runs("began")) == 2, 30, "both run")
        before = {node["_id"] for node in cluster.records()}
        primary = servers.primary()
        assert primary is not None
        if how == "is killed":
            primary.kill()
        eventually(lambda: has_left(servers, primary), 90, "another primary")
        after = client.submit_many("story.double", [{"x": x} for x in range(20)])
        assert sorted(job.result for job in client.wait(after, timeout=60)) == [
            2 * x for x in range(20)
        ]
        gate.touch()
        ended = client.wait(running, timeout=60)
    assert [(job.state.value, job.attempt) for job in ended] == [("done", 1)] * 2
    assert {node["_id"] for node in cluster.records(dead=True)} == before, (
        "nobody died, nobody started again"
    )
    assert all(node["state"] != "dead" for node in cluster.records(dead=True))


@pytest.mark.long
def test_a_node_that_starts_during_an_outage_waits_for_its_end(tmp_path: Path) -> None:
    servers = ReplicaSet(tmp_path, members=1)
    with MongoClient[dict[str, object]](servers.uri, tz_aware=True) as client:
        cluster = Cluster(servers.uri, Store(client["late"]), tmp_path)
        try:
            node = cluster.begin("a")
            eventually(lambda: "does not answer" in node.text(), 60, "it says what it waits for")
            with servers:
                cluster.wait_for_state("a", "waiting")
                node.signal(signal.SIGTERM)
                assert node.process.wait(60) == 0
        finally:
            cluster.close()


def test_a_node_that_waits_for_mongodb_can_be_stopped(tmp_path: Path) -> None:
    with MongoClient[dict[str, object]](
        "mongodb://127.0.0.1:9/?replicaSet=rs", connect=False
    ) as client:
        cluster = Cluster("mongodb://127.0.0.1:9/?replicaSet=rs", Store(client["never"]), tmp_path)
        try:
            node = cluster.begin("a")
            eventually(lambda: "does not answer" in node.text(), 60, "it says what it waits for")
            node.signal(signal.SIGINT)
            assert node.process.wait(60) == 0
        finally:
            cluster.close()
