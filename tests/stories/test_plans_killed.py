"""Plans whose nodes die, freeze and come back at any moment: whatever they left undone is done by
others, and the audit finds nothing wrong."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
from typing import Any

import bson
import pytest

from tests.stories.test_plan_cost import operations, profiled
from tests.stories.test_plans import begin, client
from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client, Plan
from tontine.records.plan import PlanPlace
from tontine.records.states import PlanState
from tontine.store import members, settle
from tontine.store.plans import licence
from tontine.store.settle import Outcome

pytestmark = pytest.mark.story
__all__ = ["client"]

ITEMS = int(os.environ.get("STORY_ITEMS", "3000"))


def state_of(cluster: Cluster, name: str) -> str:
    return str((cluster.record(name) or {}).get("state"))


def test_a_plan_goes_on_whose_settling_node_died_before_it_did(
    client: Client, cluster: Cluster
) -> None:
    """The dead node was no member: it had left the roster before."""
    with profiled(cluster):
        begin(cluster, "heir")
        of_all = {"command.hint": "open", "command.filter.state.$in": "running"}
        # Its next look at all plans has another reason.
        eventually(lambda: operations(cluster, "plans", **of_all), what="its first look")
    record = {"name": "ghost", "slots": 1, "modules": [], "plans": True}
    cluster.store.run(members.register("ghost", record, 3.0))
    plan = Plan("p")
    first = plan.step("elsewhere.first")
    plan.step("shop.add", {"x": 1, "y": 2}, after=first)
    found = client.submit_plan(plan)
    job: dict[str, Any] = eventually(lambda: cluster.jobs(task="elsewhere.first"))[0]
    seq, place = int(job["seq"]), PlanPlace.from_document(job["plan"])
    assert place is not None
    ours, _ = cluster.store.run(
        licence.claim_licensed("ghost", [seq], 0, {seq: place}), causal=True
    )
    assert ours == {seq}
    body = bson.encode({"r": None, "ms": 0})
    cluster.store.run(settle.settle_each("ghost", [Outcome("done", seq, 1, 0.0, result=body)]))
    assert not cluster.jobs(task="shop.add")
    assert state_of(cluster, "ghost") != "dead"
    ended = client.wait(found, timeout=90)
    assert state_of(cluster, "ghost") == "dead"
    assert (ended.state, ended.result) == (PlanState.DONE, 3)


@pytest.mark.long
@pytest.mark.timeout(180 + ITEMS // 50)
def test_a_wide_map_and_many_steps_end_while_nodes_are_killed_and_frozen(
    client: Client, cluster: Cluster
) -> None:
    nodes = begin(cluster, "a", "b", "c")
    wide = Plan("wide")
    numbers = wide.step("shop.numbers", {"many": ITEMS})
    mapped = wide.map("shop.number", numbers, as_="n", name="m")
    again = wide.map("shop.number", mapped["n"], as_="n", name="n")
    wide.step("shop.drink", {"results": again.stream()})
    many = Plan("many")
    for number in range(1000):
        many.step("shop.add", {"x": number}, name=f"s{number}")
    plans = [client.submit_plan(wide), client.submit_plan(many)]
    draw, names = random.Random(7), itertools.count()
    while any(client.plan(plan).state not in (PlanState.DONE, PlanState.FAILED) for plan in plans):
        victim = nodes.pop(draw.randrange(len(nodes)))
        if draw.random() < 0.5:
            victim.signal_all(signal.SIGSTOP)
            cluster.wait_for_state(victim.name, "dead")
            victim.signal_all(signal.SIGCONT)
        victim.kill()
        nodes += begin(cluster, f"again{next(names)}")
    ended = [client.wait(plan, timeout=60) for plan in plans]
    print(next(names), "nodes were killed;", ended[0].result)
    assert [plan.state for plan in ended] == [PlanState.DONE] * 2, [plan.error for plan in ended]
    assert ended[0].result["count"] == ITEMS
    assert len(cluster.jobs(state="done")) == 2 * ITEMS + 1002
    audited = subprocess.run(
        [
            sys.executable,
            "-m",
            "tontine",
            "audit",
            "--uri",
            cluster.uri,
            "--database",
            cluster.database.name,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert audited.returncode == 0, audited.stdout + audited.stderr
