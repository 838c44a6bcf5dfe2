"""What one job does to its neighbours, and what many do to a node."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client

pytestmark = [pytest.mark.story, pytest.mark.long]


def test_neighbours_of_a_job_past_its_limit_run_again_at_no_cost(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.begin_all("a", options=("--slots", "2", "--lease", "5s"))
    gate = tmp_path / "gate"
    with Client(cluster.database) as client:
        neighbour = client.submit("story.gate", {"path": str(gate)})
        eventually(lambda: cluster.runs("began"), what="the neighbour runs")
        late = client.wait(client.submit("story.nap", {"seconds": 60}, timeout=0.5), timeout=30)
        assert late.error is not None
        assert "time limit" in late.error.message
        gate.touch()
        again = client.wait(neighbour, timeout=30)
    assert (again.state, again.attempt, again.fails, again.lost) == ("done", 2, 0, 0)
    assert cluster.runs("began")[again.seq or 0] == 2


def test_cancelling_holds_when_no_node_is_there(cluster: Cluster) -> None:
    with Client(cluster.database) as client:
        job = client.submit("story.double", {"x": 1})
        assert client.cancel(job.seq or 0).state == "cancelled"
        kept = client.submit("story.double", {"x": 2})
        cluster.begin_all("a")
        assert client.wait(kept, timeout=30).result == 4
        assert client.get(job.seq or 0).state == "cancelled"
    assert cluster.runs() == {kept.seq: 1}


def test_ten_thousand_retries_in_flight_leave_the_memory_of_a_node_flat(cluster: Cluster) -> None:
    (a,) = cluster.begin_all("a", options=("--lease", "10s"))

    def memory() -> float:
        processes = [psutil.Process(a.process.pid), *a.workers()]
        return sum(process.memory_info().rss for process in processes) / 1024 / 1024

    with Client(cluster.database) as client:
        client.wait(client.submit_many("story.double", [{"x": x} for x in range(2000)]), timeout=60)
        before = memory()
        client.submit_many("story.postponed", [{}] * 10_000)
        waiting = {"state": "queued", "fails": 1}
        eventually(
            lambda: cluster.database.jobs.count_documents(waiting) == 10_000,
            120,
            "all wait for their retry",
        )
        after = memory()
        assert client.wait(client.submit("story.double", {"x": 3}), timeout=30).result == 6
    assert after < before * 1.3 + 10, f"{before:.0f} MB before, {after:.0f} MB after"
    assert a.process.poll() is None


def test_a_worker_that_cannot_start_again_is_shown_and_tried_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    module = tmp_path / "brittle.py"
    sound = (
        "import os\nfrom tontine import Module\nbrittle = Module('brittle')\n"
        "@brittle.task\ndef crash():\n    os._exit(3)\n@brittle.task\ndef hello():\n    return "
        "'hello'\n"
    )
    module.write_text(sound)
    cluster.begin("a", "--lease", "5s", modules=str(module))
    cluster.wait_for_state("a", "waiting")
    with Client(cluster.database) as client:
        module.write_text("raise RuntimeError('broken by a deploy')\n")
        client.submit("brittle.crash", max_attempts=1)
        eventually(
            lambda: "broken by a deploy" in (cluster.record("a") or {})["metrics"]["last_crash"],
            30,
            "shown on the record",
        )
        module.write_text(sound)
        assert client.wait(client.submit("brittle.hello"), timeout=60).result == "hello"


def test_large_jobs_are_claimed_by_their_bytes_and_not_only_by_their_number(
    cluster: Cluster,
) -> None:
    text = "x" * (5 * 1024 * 1024)
    with Client(cluster.database) as client:
        for _ in range(60):
            client.submit("story.echo", {"text": text})
    node = cluster.begin("a", "--slots", "4", "--max-held", "16")
    master, peak = psutil.Process(node.process.pid), 0

    def are_done() -> bool:
        nonlocal peak
        peak = max(peak, master.memory_info().rss)
        return bool(cluster.database.jobs.count_documents({"state": "done"}) == 60)

    eventually(are_done, 120, "60 jobs of 5 MB")
    assert peak < 250 * 1024 * 1024, "held by number, these take more than twice as much"
