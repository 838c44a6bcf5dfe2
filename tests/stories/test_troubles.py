"""Jobs that make trouble cost themselves only; what cannot work says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.records.job import Job

pytestmark = pytest.mark.story


@pytest.fixture
def client(cluster: Cluster) -> Any:
    cluster.options = ["--lease", "3s", "--processes", "2"]
    cluster.begin_all("a")
    with Client(cluster.database) as client:
        yield client
    for node in cluster.nodes:
        assert node.process.poll() is None, node.text()
        assert "Traceback" not in node.text()


def end(client: Client, task: str, args: dict[str, Any] | None = None, **options: Any) -> Job:
    return client.wait(client.submit(task, args, **options), timeout=60)


def test_attempts_that_fail_are_repeated_as_often_as_the_task_allows(
    client: Client, cluster: Cluster
) -> None:
    lucky = end(client, "story.third_time_lucky")
    assert (lucky.state, lucky.result, lucky.fails, lucky.error) == ("done", 3, 2, None)
    assert [error.message for error in lucky.errors] == ["not yet", "not yet"]
    never = end(client, "story.never")
    assert (never.state, never.attempt, never.fails) == ("failed", 2, 2)
    assert never.error is not None
    assert (never.error.type, len(never.errors)) == ("Retry", 1)
    rejected = end(client, "story.hopeless")
    assert (rejected.state, rejected.attempt) == ("failed", 1)
    overridden = end(client, "story.never", max_attempts=1)
    assert overridden.attempt == 1


def test_arguments_that_do_not_fit_fail_with_the_signature_and_use_no_attempt(
    client: Client,
) -> None:
    job = end(client, "story.third_time_lucky", {"wrong": 1})
    assert (job.state, job.attempt, job.fails) == ("failed", 1, 0)
    assert job.error is not None
    assert "story.third_time_lucky()" in job.error.message
    assert "wrong" in job.error.message


def test_results_that_cannot_be_stored_fail_their_job_only(client: Client) -> None:
    jobs = [
        client.submit("story.double", {"x": 1}),
        client.submit("story.unstorable"),
        client.submit("story.big", {"megabytes": 17}),
        client.submit("story.big", {"megabytes": 15.99}),
        client.submit("story.double", {"x": 2}),
    ]
    one, unstorable, big, nearly, two = client.wait(jobs, timeout=60)
    assert (one.result, two.result) == (2, 4)
    assert unstorable.error is not None
    assert "object" in unstorable.error.message
    assert big.error is not None
    assert "16 MB" in big.error.message
    assert nearly.state in ("done", "failed")


def test_a_result_too_large_beside_its_arguments_fails_its_job_only(client: Client) -> None:
    ballast = client.submit("story.big", {"megabytes": 9})
    client.wait(ballast, timeout=60)
    fits = client.submit("story.double", {"x": 5})
    swollen = client.submit("story.echo", {"text": "x" * (9 * 1024 * 1024)})
    job = client.wait(swollen, timeout=60)
    assert job.state == "failed"
    assert job.error is not None
    assert job.error.type == "ResultTooLarge"
    assert client.wait(fits, timeout=60).result == 10


def test_a_worker_that_dies_costs_only_the_job_it_ran(client: Client, cluster: Cluster) -> None:
    victims = client.submit_many("story.double", [{"x": x} for x in range(40)])
    killer = client.submit("story.crash")
    more = client.submit_many("story.double", [{"x": x} for x in range(40)])
    ended = client.wait([*victims, *more], timeout=60)
    assert {job.state for job in ended} == {"done"}
    assert {job.lost for job in ended} == {0}
    poison = client.wait(killer, timeout=60)
    assert (poison.state, poison.lost, poison.fails) == ("failed", 4, 0)
    assert poison.error is not None
    assert "exited with code 11" in poison.error.message
    assert "4 times" in poison.error.message
    assert cluster.runs()[poison.seq or 0] == 4


def test_a_crash_in_c_names_its_signal(client: Client) -> None:
    job = end(client, "story.segfault")
    assert job.error is not None
    assert "SIGSEGV" in job.error.message


def test_time_limits_end_sync_and_async_jobs(client: Client, cluster: Cluster) -> None:
    sync = client.submit("story.nap", {"seconds": 60}, timeout=0.5)
    asynchronous = client.submit("story.async_nap", {"seconds": 60}, timeout=0.5)
    for job in client.wait([sync, asynchronous], timeout=30):
        assert job.state == "failed"
        assert job.error is not None
        assert "time limit of 0.5 s" in job.error.message
    assert end(client, "story.double", {"x": 3}).result == 6


def test_cancelling_ends_queued_and_running_jobs(client: Client, cluster: Cluster) -> None:
    later = client.submit("story.double", {"x": 1}, delay=3600)
    assert client.cancel(later.seq or 0).state == "cancelled"
    running = [
        client.submit("story.nap", {"seconds": 60}),
        client.submit("story.async_nap", {"seconds": 60}),
    ]
    eventually(lambda: len(cluster.runs("began")) == 2, what="both run")
    for job in running:
        assert client.cancel(job.seq or 0).cancel
    assert [job.state for job in client.wait(running, timeout=30)] == ["cancelled", "cancelled"]
    assert end(client, "story.double", {"x": 3}).result == 6
    again = client.retry(later.seq or 0)
    assert client.wait(again, timeout=30).result == 2


def test_a_task_that_looks_can_end_tidily_when_it_is_cancelled(
    client: Client, cluster: Cluster
) -> None:
    (node,) = cluster.nodes
    workers = {one.pid for one in node.workers()}
    job = client.submit("story.attentive")
    eventually(lambda: cluster.runs("began"), what="it runs")
    client.cancel(job.seq or 0)
    assert client.wait(job, timeout=30).state == "cancelled"
    assert cluster.runs("tidied") == {job.seq: 1}
    assert {one.pid for one in node.workers()} == workers, "nobody had to be killed"


def test_tasks_that_say_nonsense_cost_themselves_only(client: Client, cluster: Cluster) -> None:
    silent, unspeakable, far, hopeless_backoff = (
        client.submit(f"story.{name}")
        for name in ("bad_note", "bad_error", "far_retry", "bad_backoff")
    )
    assert client.wait(silent, timeout=30).result == "said"
    assert client.wait(unspeakable, timeout=30).state == "failed"
    assert client.wait(hopeless_backoff, timeout=30).state == "failed"
    eventually(lambda: client.get(far.seq or 0).fails == 1, what="it waits for a retry far away")
    assert [end(client, "story.double", {"x": x}).result for x in (1, 2, 3)] == [2, 4, 6]


def test_progress_is_seen_while_a_job_runs(client: Client) -> None:
    job = client.submit("story.count_to", {"steps": 6})
    seen = eventually(lambda: client.get(job.seq or 0).progress, what="progress")
    assert 0 < seen.value <= 1
    assert seen.note.startswith("step ")
    assert client.get(job.seq or 0).started_at is not None
    assert client.wait(job, timeout=30).result == 6


def test_a_job_of_an_unknown_task_waits_for_a_node_that_has_it(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    job = client.submit("later.hello", {"name": "Ada"})
    known = client.submit("story.double", {"x": 1})
    assert client.wait(known, timeout=30).result == 2
    assert client.get(job.seq or 0).state == "queued"
    module = tmp_path / "later_tasks.py"
    module.write_text(
        "from tontine import Module\nlater = Module('later')\n"
        "@later.task\ndef hello(name: str) -> str:\n    return f'hello {name}'\n"
    )
    cluster.begin("b", modules=str(module))
    assert client.wait(job, timeout=30).result == "hello Ada"


def test_long_jobs_do_not_keep_others_waiting_behind_them(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    client.wait(
        client.submit_many("story.double", [{"x": x} for x in range(200)]), timeout=30
    )  # the node is at speed
    blocker = client.submit("story.gate", {"path": str(gate)})
    quick = client.submit_many("story.double", [{"x": x} for x in range(50)])
    client.wait(quick, timeout=30)
    assert client.get(blocker.seq or 0).state == "working"
    gate.touch()
    assert client.wait(blocker, timeout=30).state == "done"


def run_node(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tontine", "node", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=timeout, check=False
    )


def test_what_cannot_start_says_why_in_one_line(cluster: Cluster, tmp_path: Path) -> None:
    good = ("--uri", cluster.uri, "--database", cluster.database.name)
    (tmp_path / "broken.py").write_text("import nonexistent_thing\n")
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "odd.py").write_text(
        "from tontine import Module\ng = Module('g')\n@g.task(timeout='30 parsecs')\ndef f() -> "
        "None: ...\n"
    )
    cases = {
        ("no_such_module", *good): "no_such_module",
        (str(tmp_path / "broken.py"), *good): "nonexistent_thing",
        (str(tmp_path / "empty.py"), *good): "no tontine.Module",
        (str(tmp_path / "odd.py"), *good): "odd.py:3)",
        (str(tmp_path / "absent.py"), *good): "there is no file",
        ("tests.support.tasks", "--uri", "nonsense://"): "URI",
        ("tests.support.tasks", *good, "--lease", "banana"): "duration",
        ("tests.support.tasks", *good, "--lease", "0.1s"): "lease",
        ("tests.support.tasks", *good, "--slots", "0"): "--slots",
    }
    for arguments, word in cases.items():
        ended = run_node(*arguments)
        last = ended.stderr.strip().splitlines()[-1]
        assert word in last, ended.stderr
        assert ended.returncode in (1, 2)
        assert "Traceback" not in ended.stderr
        assert "trying again" not in ended.stderr


def test_a_killed_worker_is_replaced_and_the_record_shows_it(
    client: Client, cluster: Cluster
) -> None:
    (a,) = cluster.nodes
    workers = a.workers()
    assert len(workers) == 2
    workers[0].kill()
    eventually(
        lambda: len({one.pid for one in a.workers()} - {workers[0].pid}) == 2, what="replaced"
    )
    eventually(
        lambda: (cluster.record("a") or {})["metrics"]["crashes"] == 1,
        what="the crash is on the record",
    )
