"""Plans on real nodes that are killed: every step runs, in its order, and nothing that is done runs
again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client, Plan, PlanFailed, Step
from tontine.diagnose.why.plan import explain_plan
from tontine.records.states import PlanState
from tontine.store import members
from tontine.store.plans.accept import all_know_plans
from tontine.store.plans.status import read_counted

pytestmark = pytest.mark.story

TASKS = "tests.support.plan_tasks"


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    cluster.options = ["--lease", "3s"]
    with Client(cluster.database) as client:
        yield client
    assert not any("Traceback" in node.text() for node in cluster.nodes if node.name != "doomed")


def begin(cluster: Cluster, *names: str) -> list[Any]:
    nodes = [cluster.begin(name, modules=TASKS) for name in names]
    for node in nodes:
        cluster.wait_for_state(node.name, "waiting", "working")
    return nodes


def ran(cluster: Cluster) -> list[str]:
    """Steps in the order in which they ran, undos with a tilde."""
    lines = (line.split() for line in cluster.ledger.read_text().splitlines())
    return [f"{one[2]}{'~' if one[3] == 'undo' else ''}" for one in lines if one[0] == "ran"]


def album(photos: int = 3) -> Plan:
    plan = Plan("album")
    opened = plan.step("shop.open_album", {"album": 7, "photos": photos})
    fetched = plan.map("shop.fetch", opened["urls"], as_="url", at_once=20)
    small = plan.map("shop.resize", fetched, as_="photo", args={"width": 80})
    packed = plan.step("shop.pack", {"photos": small, "title": opened["title"]})
    packed.undo("shop.unpack", {"archive": packed["path"]})
    mailed = plan.step("shop.mail", {"to": "ada@example.org"}, after=[packed])
    plan.returns(packed)
    plan.finally_("shop.close_album", {"album": 7})
    assert mailed.name == "mail"
    return plan


def test_an_album_goes_from_fetch_to_mail(client: Client, cluster: Cluster) -> None:
    begin(cluster, "a")
    found = client.submit_plan(album(), key="album-7")
    again = client.submit_plan(album(), key="album-7")
    assert again.existed
    assert again.seq == found.seq
    ended = client.wait(found, timeout=60)
    assert ended.state is PlanState.DONE, ended.error
    assert ended.result == {"path": "Album 7.zip", "count": 3}
    assert ended.progress == 1.0
    assert ended.steps["fetch"].done == 3
    order = ran(cluster)
    assert order[0] == "open_album"
    assert order[-3:] == ["pack", "mail", "~finally"]
    assert Counter(order) == Counter(
        {"open_album": 1, "fetch": 3, "resize": 3, "pack": 1, "mail": 1, "~finally": 1}
    )


def test_a_plan_goes_on_when_the_node_that_carried_it_is_killed(
    client: Client, cluster: Cluster
) -> None:
    doomed, _ = begin(cluster, "doomed", "b")
    plan = Plan("long")
    items = plan.map("shop.fetch", [f"{n}" for n in range(60)], as_="url", args={"seconds": 0.1})
    plan.step("shop.pack", {"photos": items})
    found = client.submit_plan(plan)
    eventually(lambda: len(ran(cluster)) > 10, what="it runs")
    doomed.kill()
    ended = client.wait(found, timeout=90)
    assert ended.state is PlanState.DONE, ended.error
    done = {job["_id"] for job in cluster.jobs(state="done")}
    assert len(done) == 61


def test_a_failed_plan_goes_on_where_it_failed(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    begin(cluster, "a")
    needed = tmp_path / "there"
    plan = Plan()
    first = plan.step("shop.add", {"x": 1, "y": 2})
    middle = plan.step("shop.need", {"path": str(needed)}, after=[first])
    plan.step("shop.add", {"x": first}, after=[middle], name="last")
    found = client.submit_plan(plan)
    with pytest.raises(PlanFailed, match="step need: FileNotFoundError"):
        client.wait(found, timeout=60, raises=True)
    needed.touch()
    client.retry(found)
    ended = client.wait(found, timeout=60)
    assert (ended.state, ended.result, ended.tries) == (PlanState.DONE, 3, 1)
    assert ran(cluster) == ["add", "need", "need", "last"]


def test_a_saga_undoes_what_it_did(client: Client, cluster: Cluster) -> None:
    begin(cluster, "a")
    plan = Plan("trip")
    before = None
    for what in ("flight", "hotel", "car"):
        after: list[Step] = [] if before is None else [before]
        step = plan.step("shop.book", {"what": what}, name=what, after=after)
        step.undo("shop.unbook", {"booking": step})
        before = step
    assert before is not None
    plan.step("shop.need", {"path": "/nowhere"}, after=[before])
    ended = client.wait(client.submit_plan(plan), timeout=60)
    assert ended.state is PlanState.UNDONE, ended
    assert ran(cluster) == ["flight", "hotel", "car", "need", "car~", "hotel~", "flight~"]


def test_a_cancelled_plan_ends_what_runs_and_starts_nothing(
    client: Client, cluster: Cluster
) -> None:
    begin(cluster, "a")
    plan = Plan()
    slow = plan.step("shop.nap", {"seconds": 60})
    plan.step("shop.add", {"x": 1}, after=[slow])
    found = client.submit_plan(plan)
    eventually(lambda: "nap" in ran(cluster), what="it runs")
    assert client.cancel(found).state is PlanState.STOPPING
    ended = client.wait(found, timeout=30)
    assert ended.state is PlanState.CANCELLED
    assert ran(cluster) == ["nap"]


def test_a_task_adds_steps_and_what_comes_after_it_waits_for_them(
    client: Client, cluster: Cluster
) -> None:
    begin(cluster, "a")
    plan = Plan()
    ahead = plan.step("shop.plan_ahead", {"photos": 3})
    plan.step("shop.add", {"x": ahead}, name="last")
    ended = client.wait(client.submit_plan(plan), timeout=60)
    assert (ended.state, ended.result) == (PlanState.DONE, 3), ended
    order = ran(cluster)
    assert order[0] == "plan_ahead"
    assert order[-2:] == ["plan_ahead:total", "last"]
    assert len(order) == 6


def test_more_from_an_item_of_a_map_fails_its_attempt(client: Client, cluster: Cluster) -> None:
    begin(cluster, "a")
    plan = Plan()
    plan.map("shop.plan_ahead", [1], as_="photos")
    ended = client.wait(client.submit_plan(plan), timeout=60)
    assert ended.state is PlanState.FAILED
    assert ended.error is not None
    assert ended.error.type == "InvalidMore"


def test_a_schedule_inserts_a_plan_each_time(client: Client, cluster: Cluster) -> None:
    begin(cluster, "a", "b")
    plan = Plan()
    plan.step("shop.total", {"numbers": [plan.step("shop.add", {"x": 1, "y": 2})]})
    client.schedule("often", plan, every=1)
    done = {"schedule": "often", "state": "done"}
    eventually(lambda: cluster.database.plans.count_documents(done) >= 3, what="it has run thrice")
    client.unschedule("often")
    found = list(cluster.database.plans.find({"schedule": "often"}))
    assert all(one["_id"].startswith("often@20") for one in found)
    seconds = [one["_id"].split("@")[1] for one in found]
    assert len(seconds) == len(set(seconds))


def test_a_plan_waits_for_a_node_that_knows_nothing_of_plans(
    client: Client, cluster: Cluster
) -> None:
    """A real node beside the record of one of an earlier release, which any node may see."""
    record = {"name": "old", "slots": 1, "modules": []}
    cluster.store.run(members.register("old", record, 600.0))
    (node,) = begin(cluster, "a")
    cluster.database.plans.insert_one({"_id": 1, "steps": {"a": {"task": "shop.add"}}})
    cluster.database.bell.insert_one({"what": "plans"})
    eventually(lambda: "plans wait" in node.text(), 60, "it says that plans wait")
    assert "state" not in (cluster.database.plans.find_one({"_id": 1}) or {})
    found = cluster.store.run(read_counted({"_id": 1}))
    assert found is not None
    said = explain_plan(found[1], found[2], all_know=cluster.store.run(all_know_plans()))
    assert [one.code for one in said] == ["older-nodes", "new"]
    cluster.database.nodes.update_one({"name": "old"}, {"$set": {"state": "dead"}})
    eventually(
        lambda: (cluster.database.plans.find_one({"_id": 1}) or {}).get("state") == "failed",
        60,
        "it is accepted, and its step gets too few arguments",
    )
