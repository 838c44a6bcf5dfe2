"""What a plan costs the store, as the store's own profiler counts it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.stories.test_plans import begin, client
from tests.support.cluster import Cluster
from tontine import Client, Plan
from tontine.records.states import PlanState
from tontine_node.planning.onlooker import AT_MOST_EVERY

pytestmark = pytest.mark.story
__all__ = ["client"]

ITEMS = 3000
WIDE = int(os.environ.get("STORY_ITEMS", "20000"))
LICENCE = {"seq": 1, "state": 1, "try": 1}


@contextmanager
def profiled(cluster: Cluster) -> Iterator[None]:
    cluster.database.command("profile", 0)
    cluster.database.drop_collection("system.profile")
    cluster.database.create_collection("system.profile", capped=True, size=256 * 1024 * 1024)
    cluster.database.command("profile", 2)
    try:
        yield
    finally:
        cluster.database.command("profile", 0)


def operations(cluster: Cluster, collection: str, **where: Any) -> list[dict[str, Any]]:
    name = f"{cluster.database.name}.{collection}"
    return list(cluster.database["system.profile"].find({"ns": name, **where}))


@pytest.mark.parametrize("items", [ITEMS, pytest.param(WIDE, marks=pytest.mark.long)])
def test_a_map_writes_nothing_to_its_plan_for_an_item_and_reads_each_a_few_times(
    client: Client, cluster: Cluster, items: int
) -> None:
    begin(cluster, "a", "b")
    plan = Plan("wide")
    numbers = plan.step("shop.numbers", {"many": items})
    mapped = plan.map("shop.add", numbers, as_="x", name="m")
    plan.step("shop.add", {"x": 1}, after=[mapped], name="last")
    with profiled(cluster):
        ended = client.wait(client.submit_plan(plan), timeout=3600)
    assert ended.state is PlanState.DONE, ended.error
    assert not operations(cluster, "jobs", planSummary="COLLSCAN")
    assert ended.created_at
    assert ended.finished_at
    seconds = (ended.finished_at - ended.created_at).total_seconds()
    reads = operations(cluster, "jobs", **{"op": "query", "command.hint": "_id_"})
    looks = [one for one in reads if "$gte" in one["command"]["filter"]["_id"]]
    assert sum(one["docsExamined"] for one in reads if one not in looks) <= 3 * items
    assert len(looks) <= 2 * (3 + seconds / AT_MOST_EVERY), "one by a node that saw a new epoch"
    changes = operations(cluster, "plans", op="update")
    assert len(changes) <= 6 + seconds, "accepted, its width, its end; a mark in a second"


PLAIN = 400


def cost(client: Client, cluster: Cluster) -> dict[str, float]:
    """What plain jobs cost the store, for each: keys and documents of claims and settles."""
    with profiled(cluster):
        client.wait(client.submit_many("shop.add", [{"x": n} for n in range(PLAIN)]), 60)
    writes = operations(cluster, "jobs", op={"$in": ["update", "command"]})
    claims_and_settles = [one for one in writes if "docsExamined" in one]
    return {
        name: sum(one[name] for one in claims_and_settles) / PLAIN
        for name in ("keysExamined", "docsExamined")
    }


def test_plain_jobs_ask_nothing_of_a_thousand_plans(client: Client, cluster: Cluster) -> None:
    begin(cluster, "a")
    before = cost(client, cluster)
    cluster.database.plans.insert_many(
        {
            "seq": 1_000_000 + number,
            "state": "done" if number % 2 else "stuck",
            "try": 0,
            "rev": 0,
            "steps": {"a": {"task": "elsewhere.a"}},
        }
        for number in range(1000)
    )
    after = cost(client, cluster)
    assert before["keysExamined"] > 1, "they are counted"
    for name, much in after.items():
        assert much <= 1.5 * before[name], f"{name}: in other batches it may be a little more"
    assert not operations(cluster, "plans", **{"command.projection": LICENCE})
    assert len(operations(cluster, "plans")) < PLAIN / 10, "looks, which are made now and then"
    assert not operations(cluster, "jobs", planSummary="COLLSCAN")
