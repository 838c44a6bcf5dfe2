"""Streams of results on real nodes: in order, in flat memory, and anew when a node was killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.stories.test_plans import begin, client, ran
from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.planned import done_item
from tontine import Client, Plan
from tontine.records.plan import PlanPlace
from tontine.records.states import PlanState
from tontine.store.bell import ring_plan
from tontine.store.counter import take

pytestmark = pytest.mark.story
__all__ = ["client"]

MB = 1024 * 1024
LONG = int(os.environ.get("STORY_ITEMS", "30000"))


def planted(cluster: Cluster, results: int, size: int, **args: Any) -> int:
    """A plan that runs and whose mapped step is done: what is left is to drink its results."""
    block = cluster.store.run(take(results + 1))
    seq = int(block.first)
    step: dict[str, Any] = {"task": "shop.drink", "args": args, "stream": {"results": "m"}}
    steps = {"m": {"task": "shop.add", "map": [], "as": "x"}, "drink": step}
    plan = {"state": "running", "try": 0, "rev": 0, "widths": {"m": results}}
    filler = "x" * size
    for first in range(0, results, 2000):
        items = range(first, min(first + 2000, results))
        jobs = [
            done_item(seq, "m", item, seq + 1 + item, {"n": item, "filler": filler})
            for item in items
        ]
        cluster.database.jobs.insert_many(jobs, ordered=False)
    cluster.database.plans.insert_one({"seq": seq, "steps": steps, **plan})
    cluster.store.run(ring_plan(seq))
    return seq


@pytest.mark.parametrize(
    ("results", "size"),
    [
        (4000, 25_000),
        pytest.param(LONG, 1000, marks=pytest.mark.long),
        pytest.param(300, MB, marks=pytest.mark.long),
    ],
)
def test_a_long_stream_is_read_in_flat_memory(
    client: Client, cluster: Cluster, tmp_path: Path, results: int, size: int
) -> None:
    begin(cluster, "a")
    ready = tmp_path / "ready"
    seq = planted(cluster, results, size, until=str(ready))
    eventually(lambda: "drink" in ran(cluster), what="it runs", within=120)
    ready.touch()
    ended = client.wait(client.plan(seq), timeout=300)
    assert ended.state is PlanState.DONE, ended.error
    assert ended.result["count"] == results
    print(ended.result)
    for who in ("worker", "master"):
        assert ended.result[who] < 48 * MB, ended.result


def test_streams_are_read_by_sync_and_async_tasks(client: Client, cluster: Cluster) -> None:
    begin(cluster, "a")
    plan = Plan()
    numbers = plan.map("shop.fetch", ["a.jpg", "broken.jpg", "b.jpg"], as_="url", may_fail=True)
    none = plan.map("shop.add", [], as_="x")
    sync = plan.step("shop.sip", {"results": numbers.stream()})
    both = plan.step("shop.sip_async", {"results": numbers.stream()})
    plan.step("shop.sip", {"results": none.stream()}, name="nothing")
    plan.map("shop.sip", [0, 0], {"results": numbers.stream()}, as_="pause", name="each")
    plan.step("shop.pack", {"photos": [sync, both]})
    ended = client.wait(client.submit_plan(plan), timeout=60)
    assert ended.state is PlanState.DONE, ended.error
    results = {job["_id"].split("/", 2)[2]: job.get("result") for job in cluster.jobs()}
    expected = [{"path": "/tmp/a.jpg"}, None, {"path": "/tmp/b.jpg"}]
    assert results["sip"] == results["sip_async"] == expected
    assert results["each/00000000"] == results["each/00000001"] == expected
    assert results["nothing"] == []


def test_the_attempt_after_a_kill_reads_the_stream_anew(client: Client, cluster: Cluster) -> None:
    (doomed,) = begin(cluster, "doomed")
    plan = Plan()
    numbers = plan.map("shop.add", list(range(60)), as_="x")
    plan.step("shop.sip", {"results": numbers.stream(), "pause": 0.05})
    found = client.submit_plan(plan)

    def read() -> list[list[str]]:
        lines = [line.split() for line in cluster.ledger.read_text().splitlines()]
        return [line[1:] for line in lines if line[0] == "read"]

    eventually(lambda: len(read()) > 10, what="it reads")
    doomed.kill()
    begin(cluster, "b")
    ended = client.wait(found, timeout=90)
    assert (ended.state, ended.result) == (PlanState.DONE, list(range(60))), ended.error
    attempts = {attempt for attempt, _ in read()}
    assert len(attempts) == 2
    for attempt in attempts:
        numbers_read = [int(number) for one, number in read() if one == attempt]
        assert numbers_read == list(range(len(numbers_read)))


def test_a_result_that_was_deleted_is_missed(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    begin(cluster, "a")
    ready = tmp_path / "ready"
    seq = planted(cluster, 700, 10, until=str(ready))
    eventually(lambda: "drink" in ran(cluster), what="it runs")
    cluster.database.jobs.delete_one({"_id": PlanPlace(seq, "m", item=600).id})
    ready.touch()
    ended = client.wait(client.plan(seq), timeout=60)
    assert ended.state is PlanState.FAILED
    assert ended.error is not None
    assert (ended.error.step, ended.error.type) == ("drink", "ResultGone")
    assert "the result of m[600] is not there any more" in ended.error.message
