"""What tasks leave behind, and whatever ends a worker, stops no node."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from pymongo import MongoClient

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.nasty_tasks import ENDING, LEAVING
from tontine import Client
from tontine.records.job import SUSPECT
from tontine.store import logs, members, schema
from tontine.store.call import Store
from tontine.testing import NodeProcess

pytestmark = pytest.mark.story


def launch(cluster: Cluster, *options: str, log_to: str | None = None) -> NodeProcess:
    more = ("--lease", "3s", "--processes", "2", "--slots", "2", *options)
    node = cluster.begin("a", *more, modules="tests.support.nasty_tasks", log_to=log_to)
    cluster.wait_for_members(1)
    return node


@pytest.fixture
def node(cluster: Cluster) -> NodeProcess:
    """For a story that does something to the node itself."""
    return launch(cluster)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.database) as client:
        yield client


@pytest.fixture(scope="module")
def lasting(
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, object]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    """One node for all stories after which it goes on as if nothing had happened."""
    store = Store(mongo_client[f"leftovers_{uuid4().hex[:8]}"])
    store.run(schema.init())
    cluster = Cluster(mongo_uri, store, tmp_path_factory.mktemp("lasting"))
    node = launch(cluster)
    yield cluster
    assert node.process.poll() is None, node.text()
    cluster.close()
    mongo_client.drop_database(store.database.name)


@pytest.fixture
def users(lasting: Cluster) -> Iterator[Client]:
    with Client(lasting.database) as client:
        yield client


def pids_in(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def is_there(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def trouble(cluster: Cluster, what: str) -> str | None:
    record = cluster.record("a") or {}
    return next((one["why"] for one in record.get("troubles", ()) if one["what"] == what), None)


def test_a_job_that_passed_its_time_limit_takes_along_what_it_started(
    users: Client, tmp_path: Path
) -> None:
    # A bare daemon may be of the other worker, too, as long as that lives.
    files = [tmp_path / how for how in LEAVING if how != "bare"]
    gate = tmp_path / "gate"
    neighbour = users.submit("story.gate", {"path": str(gate)})
    late = [
        users.submit(
            "nasty.leave", {"how": file.name, "pids": str(file), "then_hang": True}, timeout=1.0
        )
        for file in files
    ]
    ended = users.wait(late, timeout=60)
    assert {job.state for job in ended} == {"failed"}
    assert all(job.error is not None and "time limit" in job.error.message for job in ended), ended
    gate.touch()
    assert users.wait(neighbour, timeout=30).state == "done"
    started = [pid for file in files for pid in pids_in(file)]
    assert len(started) >= len(files)
    eventually(lambda: not [pid for pid in started if is_there(pid)], 30, "nothing is left of them")


def test_two_signals_end_a_node_whatever_its_tasks_left_behind(
    client: Client, cluster: Cluster, node: NodeProcess, tmp_path: Path
) -> None:
    files = [tmp_path / how for how in LEAVING]
    # One after another: a bare fork beside a starting program holds the pipe by which that tells.
    for file in files:
        leaving = client.submit("nasty.leave", {"how": file.name, "pids": str(file)})
        client.wait(leaving, timeout=30)
    assert all(is_there(pid) for file in files for pid in pids_in(file)), (
        "a process may outlive its job"
    )
    running = client.submit("story.gate", {"path": str(tmp_path / "never")})
    eventually(lambda: cluster.runs("began"), what="it runs")
    node.signal(signal.SIGTERM)
    cluster.wait_for_members(0)
    node.signal(signal.SIGTERM)
    assert node.process.wait(30) == 0, node.text()
    given_back = client.get(running.seq or 0)
    assert (given_back.state, given_back.lost) == ("queued", 0)
    assert not [pid for file in files for pid in pids_in(file) if is_there(pid)]


def test_a_fence_ends_although_something_was_left_behind(
    client: Client, cluster: Cluster, node: NodeProcess, tmp_path: Path
) -> None:
    file = tmp_path / "daemon"
    client.wait(client.submit("nasty.leave", {"how": "daemon", "pids": str(file)}), timeout=30)
    processes = [psutil.Process(node.process.pid), *node.workers()]
    for process in processes:
        process.suspend()
    record = cluster.record("a") or {}
    assert cluster.store.run(members.bury(record["_id"], record["beat"])), (
        "as a survivor does after a lease"
    )
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # the master has ended it, once awake
            process.resume()
    assert client.wait(client.submit("story.double", {"x": 4}), timeout=30).result == 8
    eventually(lambda: not any(map(is_there, pids_in(file))), what="it ended with its worker")


def test_a_fork_that_comes_back_out_of_its_task_is_no_second_worker(
    users: Client, lasting: Cluster
) -> None:
    ours = [users.submit(f"nasty.{name}") for name in ("fork_and_return", "fork_and_return_async")]
    exits = users.submit("nasty.fork_and_exit", {"code": 5})
    results = [job.result for job in users.wait(ours, timeout=30)]
    (node,) = lasting.nodes
    workers = {worker.pid for worker in node.workers()}
    assert set(results) <= workers
    assert users.wait(exits, timeout=30).result == 5
    others = [users.submit("story.who") for _ in range(20)]
    assert {job.result for job in users.wait(others, timeout=30)} <= workers


def test_orphans_that_end_by_themselves_do_not_stay_as_zombies(
    users: Client, tmp_path: Path
) -> None:
    file = tmp_path / "daemon"
    users.wait(users.submit("nasty.leave", {"how": "daemon", "pids": str(file)}), timeout=30)
    (pid,) = pids_in(file)
    psutil.Process(pid).kill()
    eventually(lambda: not psutil.pid_exists(pid), what="it is reaped")


def test_poison_ends_however_it_ends_its_worker(users: Client, lasting: Cluster) -> None:
    poisons = [users.submit("nasty.end_worker", {"how": how}) for how in sorted(ENDING)]
    others = users.submit_many("story.double", [{"x": x} for x in range(30)])
    assert {job.state for job in users.wait(others, timeout=60)} == {"done"}
    ended = users.wait(poisons, timeout=60)
    assert [(job.state, job.lost, job.fails) for job in ended] == [("failed", 4, 0)] * len(ENDING)
    runs = {how: lasting.runs(how).total() for how in ENDING}
    assert all(1 <= count <= 8 for count in runs.values()), (
        f"each may be taken for its neighbour at first: {runs}"
    )


def test_poison_that_ends_its_worker_after_it_returned_ends(
    users: Client, lasting: Cluster
) -> None:
    poisons = [users.submit("nasty.end_worker_later", {"delay": delay}) for delay in (0.0, 0.0001)]
    others = users.submit_many("story.double", [{"x": x} for x in range(50)])
    assert {job.state for job in users.wait(others, timeout=60)} == {"done"}
    for job in users.wait(poisons, timeout=60):
        assert job.state == "done" or (job.state, job.lost) == ("failed", 4)
    assert max(lasting.runs("later").values()) <= 8


def test_many_suspects_run_one_after_another_without_a_pause(
    users: Client, lasting: Cluster
) -> None:
    """Each waited for the next slow look, five seconds or more."""
    jobs = users.submit_many("story.double", [{"x": x} for x in range(30)], delay=3600)
    lasting.database.jobs.update_many(
        {"seq": {"$in": [job.seq for job in jobs]}},
        {"$set": {"lost": SUSPECT, "run_at": datetime.now(UTC)}},
    )
    assert {(job.state, job.attempt) for job in users.wait(jobs, timeout=60)} == {("done", 1)}


def test_a_worker_that_its_job_has_stopped_is_ended_at_the_time_limit(users: Client) -> None:
    job = users.wait(users.submit("nasty.stop_worker", timeout=0.5), timeout=30)
    assert job.state == "failed"
    assert job.error is not None
    assert "time limit" in job.error.message


def test_signals_to_a_worker_do_nothing_and_programs_that_it_starts_can_be_ended(
    users: Client,
) -> None:
    job = users.wait(users.submit("nasty.harmless"), timeout=30)
    assert (job.result, job.attempt) == ("SIGTERM", 1)


def test_a_log_that_cannot_be_written_fails_no_job(cluster: Cluster) -> None:
    launch(cluster, log_to="/dev/full")
    with Client(cluster.database) as client:
        jobs = client.wait(
            [client.submit("nasty.say", {"text": f"line {n}"}) for n in range(3)], timeout=30
        )
        assert [(job.state, job.result) for job in jobs] == [
            ("done", f"line {n}") for n in range(3)
        ]
        lines = [
            line.text for line in cluster.store.run(logs.read_lines(jobs[0].seq or 0, jobs[0].id))
        ]
    assert lines == ["line 0", "line 0", "line 0 in bytes"]


def test_a_worker_that_could_not_be_started_is_started_later_and_the_record_says_so(
    client: Client, cluster: Cluster, node: NodeProcess
) -> None:
    master = psutil.Process(node.process.pid)
    eventually(lambda: counted(cluster) == (2, 2), what="the record shows both workers")
    usual = master.rlimit(resource.RLIMIT_NOFILE)
    master.rlimit(resource.RLIMIT_NOFILE, (8, usual[1]))
    workers = node.workers()
    for worker in workers:
        worker.kill()
    why = eventually(lambda: trouble(cluster, "workers"), what="the record says so")
    assert "could not be started" in why
    assert counted(cluster) == (0, 2)
    assert node.text().count("a worker could not be started") == 1
    master.rlimit(resource.RLIMIT_NOFILE, usual)
    assert client.wait(client.submit("story.double", {"x": 4}), timeout=30).result == 8
    eventually(
        lambda: trouble(cluster, "workers") is None and counted(cluster) == (2, 2),
        what="all is well again",
    )


def counted(cluster: Cluster) -> tuple[int, int]:
    metrics = (cluster.record("a") or {}).get("metrics", {})
    return metrics.get("workers"), metrics.get("workers_wanted")


def test_a_module_that_is_being_replaced_is_loaded_when_it_is_there_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    module = tmp_path / "replaced_tasks.py"
    text = (
        "import os\nfrom tontine import Module\nm = Module('m')\n@m.task\ndef end():\n    "
        "os._exit(4)\n"
    )
    module.write_text(text)
    cluster.options = ["--lease", "3s"]
    node = cluster.begin("a", modules=str(module))
    cluster.wait_for_members(1)
    module.write_text("import nothing_like_this\n")
    node.workers()[0].kill()
    assert "nothing_like_this" in eventually(
        lambda: trouble(cluster, "workers"), what="the record says so"
    )
    module.write_text(text)
    eventually(lambda: trouble(cluster, "workers") is None, what="it is loaded")
    with Client(cluster.database) as client:
        job = client.wait(client.submit("m.end"), timeout=60)
    assert (job.state, job.lost) == ("failed", 4), "a crash still counts"


def test_workers_end_with_a_killed_master_and_daemons_of_tasks_stay(
    client: Client, node: NodeProcess, tmp_path: Path
) -> None:
    """As docs/guarantees.md says: nobody is left who could end them."""
    file = tmp_path / "daemon"
    client.wait(client.submit("nasty.leave", {"how": "daemon", "pids": str(file)}), timeout=30)
    workers = node.workers()
    node.signal(signal.SIGKILL)
    assert not psutil.wait_procs(workers, timeout=30)[1]
    (pid,) = pids_in(file)
    assert is_there(pid)
    psutil.Process(pid).kill()
