"""Tasks that submit jobs through their node: each is there once, however often the task runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest
from click.testing import CliRunner
from pymongo import MongoClient

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client, TontineError
from tontine.cli import tontine
from tontine.store import schema
from tontine.store.call import Store
from tontine.testing import NodeProcess
from tontine_observer.feed.jobpage import read_page
from tontine_observer.records.clean import Cleaner

pytestmark = pytest.mark.story


@pytest.fixture(scope="module")
def lasting(
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, object]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    """One node for all stories that it survives."""
    store = Store(mongo_client[f"offspring_{uuid4().hex[:8]}"])
    store.run(schema.init())
    cluster = Cluster(mongo_uri, store, tmp_path_factory.mktemp("lasting"))
    node = cluster.begin("a", "--lease", "5s", "--processes", "2", "--slots", "2")
    cluster.wait_for_members(1)
    yield cluster
    assert node.process.poll() is None, node.text()
    cluster.close()
    mongo_client.drop_database(store.database.name)


@pytest.fixture
def client(lasting: Cluster) -> Iterator[Client]:
    with Client(lasting.database) as client:
        yield client


def children(cluster: Cluster, parent: int) -> list[dict[str, Any]]:
    return cluster.jobs(parent=parent)


def assert_three_ran_once(cluster: Cluster, client: Client, parent: int) -> None:
    found = children(cluster, parent)
    assert [one["_id"] for one in found] == [f"{parent}/{n}" for n in (1, 2, 3)]
    jobs = client.wait([client.get(one["seq"]) for one in found], timeout=60)
    assert [(job.state, job.result, job.parent) for job in jobs] == [
        ("done", 2 * x, parent) for x in range(3)
    ]
    runs = cluster.runs()
    assert [runs[one["seq"]] for one in found] == [1, 1, 1]


def run(cluster: Cluster, *arguments: str) -> str:
    """What a command says."""
    where = ["--uri", cluster.uri, "--database", cluster.database.name]
    return CliRunner().invoke(tontine, [*arguments, *where], catch_exceptions=False).stdout


def begin_parent(cluster: Cluster, client: Client, path: Path) -> int:
    """A parent that has submitted two, and waits for its end."""
    job = client.submit("story.parent", {"path": str(path), "ending": "kill"})
    eventually(path.exists, what="it has submitted two")
    assert len(children(cluster, job.seq or 0)) == 2, "in the queue when submit has returned"
    return job.seq or 0


def test_a_killed_worker_leaves_no_child_out_and_none_twice(
    client: Client, lasting: Cluster, tmp_path: Path
) -> None:
    seq = begin_parent(lasting, client, tmp_path / "two")
    client.wait(
        [client.get(one["seq"]) for one in children(lasting, seq)], timeout=60
    )  # or they ran in vain, too
    (node,) = lasting.nodes
    for worker in node.workers():
        worker.kill()
    parent = client.wait(client.get(seq), timeout=60)
    assert (parent.state, parent.lost) == ("done", 1), (
        "given back unstarted, it costs nothing but a number"
    )
    assert parent.result == [one["seq"] for one in children(lasting, seq)]
    assert_three_ran_once(lasting, client, seq)


def test_a_killed_node_leaves_no_child_out_and_none_twice(cluster: Cluster, tmp_path: Path) -> None:
    cluster.options = ["--lease", "3s"]
    nodes = {node.name: node for node in cluster.begin_all("a", "b")}
    with Client(cluster.database) as client:
        seq = begin_parent(cluster, client, tmp_path / "two")
        holder = client.get(seq).node or ""
        node: NodeProcess = nodes[holder.split("-")[0]]
        node.signal_all(signal.SIGKILL)
        parent = client.wait(client.get(seq), timeout=90)
        assert (parent.state, parent.attempt >= 2) == ("done", True)
        assert_three_ran_once(cluster, client, seq)


def test_another_attempt_gets_the_children_of_the_first(client: Client, lasting: Cluster) -> None:
    parent = client.wait(client.submit("story.parent", {"path": "", "ending": "retry"}), timeout=60)
    assert (parent.state, parent.attempt) == ("done", 2)
    assert_three_ran_once(lasting, client, parent.seq or 0)

    client.retry(parent.seq or 0)
    again = client.wait(parent, timeout=60)
    assert (again.attempt, again.result) == (3, parent.result)
    assert_three_ran_once(lasting, client, parent.seq or 0)


def test_async_tasks_submit_side_by_side_in_the_order_of_their_calls(
    client: Client, lasting: Cluster
) -> None:
    """Many more than are on their way at a time."""
    job = client.wait(client.submit("story.async_parent", {"count": 100}), timeout=60)
    assert job.result == [[f"{job.seq}/{n}", True] for n in range(1, 101)]
    assert {one["_id"]: one["args"]["x"] for one in children(lasting, job.seq or 0)} == {
        f"{job.seq}/{n}": n - 1 for n in range(1, 101)
    }


def test_many_children_go_in_at_once(client: Client, lasting: Cluster) -> None:
    job = client.wait(client.submit("story.parent_of_many", {"count": 1200}), timeout=60)
    assert len(set(job.result)) == 1200
    assert [one["args"]["x"] for one in children(lasting, job.seq or 0)] == list(range(1200))
    assert "and 1190 more" in run(lasting, "job", str(job.seq))


def test_a_child_has_children_of_its_own(client: Client) -> None:
    job = client.wait(client.submit("story.ancestor", {"depth": 3}), timeout=60)
    for _ in range(3):
        child = client.wait(client.get(job.result), timeout=60)
        assert (child.id, child.parent) == (f"{job.seq}/1", job.seq)
        job = child
    assert job.result is None


@pytest.mark.parametrize(
    "wish",
    [
        {"task": ""},
        {"task": "story.echo", "args": ["a list"]},
        {"task": "story.echo", "priority": 1.5},
        {"task": "story.echo", "max_attempts": 0},
        {"task": "story.echo", "timeout": -1},
        {"task": "story.echo", "key": ""},
        {"task": "story.echo", "delay": "soon"},
        {"task": "story.echo", "delay": -1},
        {"task": "story.echo", "delay": 1, "run_at": datetime(2040, 1, 1)},
    ],
)
def test_a_bad_wish_raises_in_the_task_what_it_raises_in_a_producer(
    client: Client, wish: dict[str, Any]
) -> None:
    job = client.wait(client.submit("story.bad_parent", {"wish": wish}), timeout=60)
    with pytest.raises(TontineError) as caught:
        client.submit(**wish)
    assert job.result == f"{type(caught.value).__name__}: {caught.value}"


def test_submit_does_not_stop_the_event_loop_of_an_async_task(client: Client) -> None:
    job = client.wait(client.submit("story.blocking_parent"), timeout=60)
    assert job.error is not None
    assert "await current_job().submit_async(...)" in job.error.message


def test_parent_and_children_know_each_other_wherever_they_are_shown(
    client: Client, lasting: Cluster
) -> None:
    parent = client.wait(client.submit("story.parent", {"path": ""}), timeout=60)
    jobs = client.wait([client.get(seq) for seq in parent.result], timeout=60)
    shown = run(lasting, "job", str(parent.seq))
    assert "children      3 done" in shown
    assert all(f"{job.seq}  story.double  ✓ done" in shown for job in jobs)
    told = orjson.loads(run(lasting, "job", str(parent.seq), "--json"))["children"]
    assert (told["states"], [one["seq"] for one in told["some"]]) == ({"done": 3}, parent.result)
    assert "Its task submitted 3 jobs: 3 done." in run(lasting, "why", str(parent.seq))

    child = str(jobs[0].seq)
    assert f"parent        {parent.seq}" in run(lasting, "job", child)
    document = orjson.loads(run(lasting, "job", child, "--json"))
    assert (document["parent"], "children" in document) == (parent.seq, False)
    assert f"The task of job {parent.seq} (story.parent), done, submitted it." in run(
        lasting, "why", child
    )

    def page(seq: int | None) -> tuple[tuple[str, str], ...]:
        found = lasting.store.run(read_page(seq or 0, Cleaner()))
        assert found is not None
        return found.family

    assert page(parent.seq) == (
        ("children", "3 done"),
        *(("", f"#{job.seq}  story.double  done") for job in jobs),
    )
    assert page(jobs[0].seq) == (("parent", f"#{parent.seq}  story.parent  done"),)
