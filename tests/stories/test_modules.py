"""Modules that change while nodes run: their files, and which of them a node is to have."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.records.want import Want
from tontine.store import modules
from tontine.testing import NodeProcess

pytestmark = pytest.mark.story

HEAD = """
import os
import time
from pathlib import Path
from tontine import Module

shop = Module("shop", version="{version}")
"""
TASK = """

@shop.task
def {name}(gate: str = "") -> int:
    while gate and not Path(gate).exists():
        time.sleep(0.01)
    return os.getpid()
"""


def write(file: Path, *tasks: str, version: str = "1.0", more: str = "") -> None:
    """A module with these tasks, put in place whole."""
    text = HEAD.format(version=version) + "".join(TASK.format(name=name) for name in tasks) + more
    draft = file.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    directory = tmp_path / "code"
    directory.mkdir()
    write(directory / "shop_tasks.py", "old")
    return directory / "shop_tasks.py"


def begin(cluster: Cluster, name: str, *modules: str, options: tuple[str, ...] = ()) -> NodeProcess:
    # Files that are written within one second, and are of one size, look alike to cached bytecode.
    environment = {"PYTHONDONTWRITEBYTECODE": "1"}
    node = cluster.launch(
        *modules,
        name=name,
        options=["--processes", "2", "--lease", "3s", *options],
        environment=environment,
    )
    cluster.wait_for_state(name, "waiting", "working")
    eventually(lambda: metrics(cluster, name).get("workers") == 2, what="both workers are there")
    return node


def metrics(cluster: Cluster, name: str) -> Any:
    return (cluster.record(name) or {}).get("metrics", {})


def failed(cluster: Cluster) -> list[Any]:
    return [(job["task"], job.get("error")) for job in cluster.jobs(state="failed")]


def workers(node: NodeProcess) -> set[int]:
    return {worker.pid for worker in node.workers()}


def test_a_worker_that_is_replaced_after_the_files_changed_fails_no_job(
    cluster: Cluster, file: Path
) -> None:
    node = begin(cluster, "a", str(file))
    before = workers(node)
    write(file, "new", version="2.0")
    with Client(cluster.database) as client:
        client.submit_many("shop.new", [{}] * 200)
        os.kill(before.pop(), signal.SIGKILL)
        eventually(
            lambda: (
                cluster.database.jobs.count_documents({"state": {"$in": ["done", "failed"]}}) == 200
            ),
            60,
            f"{cluster._tail('a')}",
        )
    assert not failed(cluster), "a worker was given a task that it does not have"


def test_nor_does_it_with_jobs_of_the_old_and_of_the_new_code_in_the_queue(
    cluster: Cluster, file: Path
) -> None:
    """What only the old code has waits for code that has it again; nothing fails meanwhile."""
    node = begin(cluster, "a", str(file))
    before = workers(node)
    write(file, "new", version="2.0")
    with Client(cluster.database) as client:
        for _ in range(10):
            client.submit_many("shop.old", [{}] * 20)
            client.submit_many("shop.new", [{}] * 20)
        os.kill(before.pop(), signal.SIGKILL)
        wait_for_done(cluster, "shop.new", 200)
        assert not failed(cluster), "a worker was given a task that it does not have"
        write(file, "old", "new", version="3.0")
        os.kill(workers(node).pop(), signal.SIGKILL)
        wait_for_done(cluster, "shop.old", 200)
    assert not failed(cluster)


def wait_for_done(cluster: Cluster, task: str, count: int) -> None:
    done = {"state": {"$in": ["done", "failed"]}, "task": task}
    eventually(lambda: cluster.database.jobs.count_documents(done) == count, 90, cluster._tail("a"))


def module(cluster: Cluster, node: str, name: str) -> dict[str, Any]:
    """What a node's record says of a module: of its newest version, if there are more."""
    record = cluster.record(node) or {}
    found = [one for one in record.get("modules", ()) if one["name"] == name]
    return found[0] if found else {}


def wait_for_module(cluster: Cluster, node: str, name: str, **facts: Any) -> dict[str, Any]:
    def is_so() -> dict[str, Any] | None:
        said = module(cluster, node, name)
        return (
            said if said and all(said.get(key) == value for key, value in facts.items()) else None
        )

    return eventually(is_so, 60, f"{name} {facts} on {node}: {cluster._tail(node)}")


def offered(cluster: Cluster, node: NodeProcess) -> set[str]:
    """The tasks that the roster says a node has."""
    record = cluster.record(node.name) or {}
    offer = cluster.roster().offer_of(record.get("_id", ""))
    return offer.names() if offer else set()


@pytest.fixture
def running(cluster: Cluster, file: Path) -> NodeProcess:
    other = file.with_name("etl_tasks.py")
    write(other, "load")
    other.write_text(other.read_text().replace("shop", "etl"))
    return begin(cluster, "a", str(file), str(other))


def test_new_files_take_over_when_asked_and_a_long_job_keeps_its_old_worker(
    cluster: Cluster, file: Path, running: NodeProcess, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    node_id = (cluster.record("a") or {})["_id"]
    with Client(cluster.database) as client:
        long = client.submit("shop.old", {"gate": str(gate)})
        eventually(lambda: client.get(long.seq or 0).state == "working")
        write(file, "old", "new", version="2.0")
        cluster.store.run(modules.ask_to_reload([node_id]))
        eventually(lambda: (cluster.record("a") or {}).get("reloaded") == 1, 60, cluster._tail("a"))
        quick = client.wait(client.submit("shop.new"), timeout=60)
        assert quick.state == "done"
        versions = [
            (one["version"], one["state"])
            for one in (cluster.record("a") or {})["modules"]
            if one["name"] == "shop"
        ]
        assert versions == [("2.0", "serving"), ("1.0", "draining")], "the record shows both"
        assert len(workers(running)) <= 3, "one more than processes at most"
        gate.touch()
        slow = client.wait(long, timeout=60)
    assert (slow.state, slow.attempt) == ("done", 1)
    assert slow.result != quick.result
    eventually(lambda: slow.result not in workers(running), what="the old worker ends")
    eventually(lambda: len((cluster.record("a") or {})["modules"]) == 2)
    eventually(lambda: offered(cluster, running) == {"shop.old", "shop.new", "etl.load"})
    assert {one["_id"] for one in cluster.store.run(modules.versions("shop"))} == {
        "shop@1.0",
        "shop@2.0",
    }


@pytest.mark.parametrize(
    ("last_line", "told"),
    [("raise RuntimeError('no such luck')", "no such luck"), ("os._exit(3)", "exited with code 3")],
)
def test_files_that_cannot_be_loaded_leave_the_old_workers_at_work(
    cluster: Cluster, file: Path, running: NodeProcess, last_line: str, told: str
) -> None:
    before = workers(running)
    node_id = (cluster.record("a") or {})["_id"]
    write(file, "old", version="2.0", more=f"\n\n{last_line}\n")
    cluster.store.run(modules.ask_to_reload([node_id]))
    said = wait_for_module(cluster, "a", "shop", state="broken")
    assert told in said["error"]
    assert said["version"] == "1.0"
    with Client(cluster.database) as client:
        job = client.wait(client.submit("shop.old"), timeout=60)
        assert job.result in before
        record = cluster.record("a") or {}
        assert (record["reloading"], record["reloaded"]) == (1, 0)
        write(file, "old", version="3.0")
        wait_for_module(cluster, "a", "shop", state="serving", version="3.0")
        eventually(lambda: not workers(running) & before)
        assert client.wait(client.submit("shop.old"), timeout=60).state == "done"


def test_a_module_is_dropped_while_its_jobs_are_queued_and_run_and_comes_back(
    cluster: Cluster, file: Path, running: NodeProcess, tmp_path: Path
) -> None:
    gate, source = tmp_path / "gate", str(file.with_name("etl_tasks.py"))
    node_id = (cluster.record("a") or {})["_id"]
    with Client(cluster.database) as client:
        runs = client.submit("etl.load", {"gate": str(gate)})
        eventually(lambda: client.get(runs.seq or 0).state == "working")
        client.submit_many("etl.load", [{"gate": str(gate)}] * 20)
        cluster.store.run(modules.want_no_more([node_id], [source]))
        wait_for_module(cluster, "a", "etl", state="draining")
        eventually(lambda: offered(cluster, running) == {"shop.old"})
        eventually(lambda: len(cluster.jobs(state="working")) <= 2, what="the others go back")
        gate.touch()
        eventually(lambda: not module(cluster, "a", "etl"), 60, "the drop is done")
        left = cluster.jobs(state="queued")
        assert len(left) >= 19
        assert client.wait(client.submit("shop.old"), timeout=60).state == "done"
        assert len(cluster.jobs(state="queued")) == len(left), "it starts nothing of it"
        cluster.store.run(modules.want([node_id], Want(source)))
        wait_for_module(cluster, "a", "etl", state="serving")
        eventually(lambda: not cluster.jobs(state={"$in": ["queued", "working"]}), 60)
    assert not failed(cluster)


def test_what_a_node_was_not_started_with_is_refused(
    cluster: Cluster, file: Path, running: NodeProcess
) -> None:
    cluster.database.nodes.update_one({"name": "a"}, {"$push": {"wants": {"source": "os.path"}}})
    said = wait_for_module(cluster, "a", "os.path", state="refused")
    assert "'available'" in said["error"]
    assert offered(cluster, running) == {"shop.old", "etl.load"}


LEDGER = """

@shop.task(on_lost="retry")
def note(file: str, number: int) -> int:
    with open(file, "a") as ledger:
        ledger.write(f"{number}\\n")
    return number
"""


def has_more_done(cluster: Cluster, than: int) -> bool:
    return bool(cluster.database.jobs.count_documents({"state": "done"}) > than)


def offers(cluster: Cluster, node: NodeProcess, tasks: set[str]) -> bool:
    return offered(cluster, node) == tasks


def test_modules_that_come_and_go_on_three_nodes_under_load_fail_no_job(
    cluster: Cluster, file: Path, tmp_path: Path
) -> None:
    """Section 13, point 2: add, rm and reload; every job settled once, none failed."""
    other = file.with_name("etl_tasks.py")
    write(file, "old", more=LEDGER)
    write(other, "load", more=LEDGER)
    other.write_text(other.read_text().replace("shop", "etl"))
    names, ledger = ("a", "b", "c"), tmp_path / "runs"
    for name in names:
        begin(cluster, name, str(file), str(other))
    ids = {name: (cluster.record(name) or {})["_id"] for name in names}
    ask = random.Random(1606)
    with Client(cluster.database) as client:
        total = 0
        for turn in range(30):
            settled = cluster.database.jobs.count_documents({"state": "done"})
            for task in ("shop.note", "etl.note"):
                numbers = range(total, total + 40)
                client.submit_many(task, [{"file": str(ledger), "number": n} for n in numbers])
                total += 40
            node = ids[ask.choice(names)]
            if turn % 3 == 0:
                cluster.store.run(modules.want_no_more([node], [str(other)]))
            elif turn % 3 == 1:
                cluster.store.run(modules.want(list(ids.values()), Want(str(other))))
            else:
                write(file, "old", version=f"2.{turn}", more=LEDGER)
                cluster.store.run(modules.ask_to_reload([node]))
            eventually(partial(has_more_done, cluster, settled), 60, "jobs are done all the time")
        cluster.store.run(modules.want(list(ids.values()), Want(str(other))))
        ended = cluster.wait_for_all(total, within=120)
    assert {job["state"] for job in ended} == {"done"}
    assert not [job["seq"] for job in ended if job.get("lost") or job.get("fails")]
    runs = Counter(int(line) for line in ledger.read_text().split())
    assert set(runs) == set(range(total))
    assert set(runs.values()) == {1}, "each ran once"
    for name in names:
        wait_for_module(cluster, name, "etl", state="serving")
    everything = {"shop.old", "shop.note", "etl.load", "etl.note"}
    for node in cluster.nodes:
        eventually(partial(offers, cluster, node, everything), 30)


@pytest.mark.parametrize("phase", ["starting", "ready", "draining"])
def test_a_kill_in_any_phase_of_a_replacement_leaves_all_places_filled(
    cluster: Cluster, file: Path, tmp_path: Path, phase: str
) -> None:
    """Of the new worker while it loads, of the new one when it serves, of an old one that still
    runs a job."""
    gate, slow = tmp_path / "gate", tmp_path / "slow"
    waits = f"\n\nwhile Path({str(slow)!r}).exists():\n    time.sleep(0.01)\n"
    node = begin(cluster, "a", str(file))
    before = workers(node)
    with Client(cluster.database) as client:
        long = client.submit("shop.old", {"gate": str(gate)})
        eventually(lambda: client.get(long.seq or 0).state == "working")
        if phase == "starting":
            slow.touch()
        write(file, "old", "new", version="2.0", more=waits)
        cluster.store.run(modules.ask_to_reload([(cluster.record("a") or {})["_id"]]))
        new = eventually(lambda: workers(node) - before, 60)
        if phase != "starting":
            wait_for_module(cluster, "a", "shop", version="2.0", state="serving")
            new = workers(node) - before
        victim = (workers(node) & before).pop() if phase == "draining" else new.pop()
        os.kill(victim, signal.SIGKILL)
        assert len(workers(node)) <= 3
        slow.unlink(missing_ok=True)
        job = client.wait(client.submit("shop.new"), timeout=60)
        assert job.state == "done"
        assert not job.errors
        gate.touch()
        assert client.wait(long, timeout=60).state == "done"
    eventually(lambda: len(workers(node)) == 2 and not workers(node) & before, 60)
    eventually(lambda: metrics(cluster, "a")["workers"] == 2)
    assert not failed(cluster)
