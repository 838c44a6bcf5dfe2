"""Plans over changes of the primary: what is read after a write is read after it, whoever answers
(PL0)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

from tests.stories.test_failover import has_left
from tests.stories.test_plans import begin, client
from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.replica_set import ReplicaSet
from tontine import Client, Plan
from tontine.records.states import PlanState
from tontine.store import schema
from tontine.store.call import Store

pytestmark = pytest.mark.story
__all__ = ["client"]

STEPS = 4
TURNS = 2


def chain(length: int) -> Plan:
    plan = Plan("chain")
    before = plan.step("shop.add", {"x": 0, "y": 1}, name="s0")
    for number in range(1, length):
        before = plan.step("shop.add", {"x": before, "y": 1}, name=f"s{number}")
    return plan


def moves(cluster: Cluster, state: str) -> list[dict[str, Any]]:
    """When jobs got into a state, by the store's own log: some are claimed with their release."""
    found = cluster.database.client.local["oplog.rs"].find(
        {
            "ns": f"{cluster.database.name}.jobs",
            "$or": [{"op": "u", "o.diff.u.state": state}, {"op": "i", "o.state": state}],
        }
    )
    return list(found)


def releases(cluster: Cluster) -> list[dict[str, Any]]:
    """When jobs were inserted, by the store's own log."""
    jobs = {"ns": f"{cluster.database.name}.jobs", "op": "i"}
    return list(cluster.database.client.local["oplog.rs"].find(jobs))


def reads_of_plans(cluster: Cluster) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Reads of plans by number: for licences, and for what follows a settlement."""
    by_number = {"command.find": "plans", "command.filter.seq.$in": {"$exists": True}}
    found = list(cluster.database["system.profile"].find(by_number).sort("ts", 1))
    licence = {"seq": 1, "state": 1, "try": 1}
    licences = [one for one in found if one["command"].get("projection") == licence]
    return licences, [one for one in found if one not in licences]


def seen(read: dict[str, Any]) -> Timestamp | None:
    """The moment after which a read was made."""
    moment: Timestamp | None = read["command"]["readConcern"].get("afterClusterTime")
    return moment


def test_licences_and_advances_are_read_after_what_was_written_before_them(
    client: Client, cluster: Cluster
) -> None:
    begin(cluster, "a")
    cluster.database.command("profile", 2)
    try:
        found = client.submit_plan(chain(STEPS))
        ended = client.wait(found, timeout=60)
    finally:
        cluster.database.command("profile", 0)
    assert (ended.state, ended.result) == (PlanState.DONE, STEPS), ended.error
    claims, settles = moves(cluster, "working"), moves(cluster, "done")
    licences, advances = reads_of_plans(cluster)
    assert len(claims) == len(settles) == len(licences) == STEPS
    assert [claim["op"] for claim in claims] == ["i"] * STEPS, "a slot was free at each release"
    # Each step waits for the one before: its licence is the read that follows its claim.
    for claim, read in zip(claims, licences, strict=True):
        moment = seen(read)
        assert moment is not None
        assert moment >= claim["ts"]
    # What follows a settlement is released after a read of the plan that came after it. There may
    # be other reads then, of a look that had begun before.
    ends = [release["wall"] for release in releases(cluster)[1:]]
    ends.append(max(read["ts"] for read in advances))
    for settle, end in zip(settles, ends, strict=True):
        moments = [seen(read) for read in advances if read["ts"] <= end]
        assert any(moment is not None and moment >= settle["ts"] for moment in moments), moments


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[ReplicaSet]:
    with ReplicaSet(tmp_path, election=2.0) as servers:
        yield servers


@pytest.mark.long
def test_plans_end_over_repeated_failovers_and_no_step_is_done_twice(
    servers: ReplicaSet, tmp_path: Path
) -> None:
    with MongoClient[dict[str, Any]](servers.uri, tz_aware=True) as mongo:
        store = Store(mongo["failover"])
        store.run(schema.init())
        cluster = Cluster(servers.uri, store, tmp_path)
        try:
            run_over_failovers(servers, cluster)
        finally:
            cluster.close()


def run_over_failovers(servers: ReplicaSet, cluster: Cluster) -> None:
    begin(cluster, "a", "b")
    with Client(cluster.database) as client:
        plans = []
        for turn in range(TURNS):
            mapped = Plan()
            urls = [f"{n}.jpg" for n in range(150)]
            photos = mapped.map("shop.fetch", urls, as_="url", args={"seconds": 0.05})
            mapped.step("shop.pack", {"photos": photos})
            plans += [client.submit_plan(chain(40)), client.submit_plan(mapped)]
            primary = servers.primary()
            assert primary is not None
            if turn % 2:
                primary.kill()
            eventually(partial(has_left, servers, primary), 90, "another primary")
            if turn % 2:
                primary.start()
                eventually(partial(primary.ask, "ping"), 60, "it is back")
        ended = [client.wait(plan, timeout=180) for plan in plans]
    assert [plan.state for plan in ended] == [PlanState.DONE] * len(ended), [
        plan.error for plan in ended
    ]
    assert [plan.result for plan in ended[::2]] == [40] * TURNS
    assert [plan.result["count"] for plan in ended[1::2]] == [150] * TURNS
    lines = [line.split() for line in cluster.ledger.read_text().splitlines()]
    runs = Counter((line[1], line[2], line[4]) for line in lines if line[0] == "ran")
    jobs = cluster.jobs()
    assert len(jobs) == len(runs) == TURNS * (40 + 151)
    assert {job["state"] for job in jobs} == {"done"}
    for job in jobs:
        place = job["plan"]
        key = (str(place["seq"]), place["step"], str(place.get("item", "-")))
        assert runs[key] <= job["attempt"], (key, runs[key], job["attempt"])
