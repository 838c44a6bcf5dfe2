"""`tontine audit` of plans on real databases: right plans pass, by their documents and by every
change, and a planted violation of each invariant is caught."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest

from tests.store.test_audit_watch import seen
from tests.support.planned import Broken, Crew
from tontine.cli.audit import examine
from tontine.cli.audit_plans import PlanWalk
from tontine.diagnose.audit import read
from tontine.diagnose.audit.history import History
from tontine.diagnose.audit.invariant import Checked, Finding
from tontine.diagnose.audit.plan_counts import PLAN_INVARIANTS
from tontine.records.change import Delta
from tontine.store import names
from tontine.store.call import Store
from tontine.store.plans import control

LATER = datetime.now(UTC) + timedelta(days=1)
UNDO = {"undo": {"task": "t.back"}}
CHAIN: dict[str, Any] = {
    "steps": {
        "a": {"task": "t.list", **UNDO},
        "b": {"task": "t.each", "map": "a", "as": "x", "at_once": 2, **UNDO},
        "c": {"task": "t.each", "map": "b", "as": "x"},
        "d": {"task": "t.may_fail", "after": ["c"], "may_fail": True},
        "e": {"task": "t.last", "take": {"all": "c"}, "after": ["d"]},
    },
    "finally": {"task": "t.back"},
}


class Shop:
    """Tasks that fail as long as it is told so."""

    def __init__(self, store: Store) -> None:
        self.failing: set[str] = set()
        names = ("list", "each", "may_fail", "last", "back")
        self.crew = Crew(store, {name: self._task(name) for name in names})

    def _task(self, name: str) -> Callable[..., Any]:
        def run(**args: Any) -> Any:
            if name in self.failing:
                raise Broken(name)
            return [1, 2, 3] if name == "list" else 1

        return run


@pytest.fixture
def shop(store: Store) -> Shop:
    return Shop(store)


def lives(shop: Shop) -> list[Any]:
    """Plans that are done, undone, stuck and then undone, failed and then done, cancelled, and
    removed."""
    crew, store = shop.crew, shop.crew.store
    ids = [crew.insert(CHAIN)]
    crew.run()
    shop.failing = {"last", "may_fail"}
    ids.append(crew.insert(CHAIN))
    crew.run()
    shop.failing = {"last", "back"}
    ids.append(crew.insert(CHAIN))
    crew.run()
    shop.failing = set()
    store.run(control.retry(crew.plan(ids[-1]).seq or 0))
    crew.look(crew.plan(ids[-1]).seq or 0)
    crew.run()
    shop.failing = {"last"}
    plain = {name: {**step, "undo": None} for name, step in CHAIN["steps"].items()}
    ids.append(crew.insert({"steps": plain}))
    crew.run()
    shop.failing = set()
    store.run(control.retry(crew.plan(ids[-1]).seq or 0))
    crew.run()
    ids.append(crew.insert(CHAIN))
    crew.accept()
    store.run(control.cancel(crew.plan(ids[-1]).seq or 0))
    crew.look(crew.plan(ids[-1]).seq or 0)
    crew.run()
    nobody = {"map": "nobody", "as": "x", "after": ["nobody"], "take": {"y": "nobody"}}
    ids.append(crew.insert({"steps": {"x": {"task": "t.back", **nobody}}}))
    crew.run()
    return ids


STATES = ["done", "undone", "undone", "done", "cancelled", "failed"]


def violated(store: Store, patience: float = 0.0) -> dict[str, list[str]]:
    found = examine(store, Checked(10), patience)
    return {
        one.invariant: [each.fact for each in one.examples]
        for one in found
        if one.verdict == "violated" and one.invariant in PLAN_INVARIANTS
    }


def test_right_plans_pass_by_their_documents(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "CHUNK", 4)  # more jobs than fit into a page
    monkeypatch.setattr(read, "PLANS_AT_ONCE", 2)
    ids = lives(shop)
    assert [str(shop.crew.state(one)) for one in ids] == STATES
    assert violated(shop.crew.store) == {}
    conclusions = {one.invariant: one for one in examine(shop.crew.store, Checked(1), 0.0)}
    assert {conclusions[name].looks["plan"] for name in PLAN_INVARIANTS} == {len(ids)}


def test_the_changes_of_right_plans_pass(shop: Shop) -> None:
    store = shop.crew.store

    def act() -> None:
        ids = lives(shop)
        past = [{"$set": {"expire_at": {"$subtract": ["$$NOW", 1000]}}}]
        store.database.plans.update_many({"_id": {"$in": ids}}, past)
        assert shop.crew.remove() == len(ids)

    assert judged(seen(store, act, "end")) == []


def judged(changes: list[Delta]) -> list[Finding]:
    history = History(names.JOBS, names.NODES, names.CLUSTER, names.PLANS)
    return [finding for change in changes for finding in history.see(change)]


# Planted in the documents


def change_job(shop: Shop, plan: Any, name: str, **fields: Any) -> None:
    seq = shop.crew.plan(plan).seq
    jobs = shop.crew.store.database.get_collection("jobs")
    found = jobs.update_one(
        {"_id": f"plan/{seq}/{name}"}, {"$set": fields}, bypass_document_validation=True
    )
    assert found.matched_count == 1


def change_plan(shop: Shop, plan: Any, fields: Mapping[str, Any], *removed: str) -> None:
    shop.crew.store.database.plans.update_one(
        {"_id": plan},
        {"$set": dict(fields), "$unset": dict.fromkeys(removed, "")},
        bypass_document_validation=True,
    )


def a_copy(shop: Shop, plan: Any) -> None:
    job = shop.crew.jobs(plan)["a"]
    fresh = {**job, "_id": bson.ObjectId(), "seq": bson.Int64(job["seq"] + 1000)}
    shop.crew.store.database.jobs.insert_one(fresh)


def an_orphan(shop: Shop, plan: Any) -> None:
    change_plan(shop, plan, {"seq": bson.Int64(10**6)})


Plant = Callable[[Shop, Any], None]
PLANTED: dict[str, tuple[str, int, Plant]] = {
    "a job under two names": ("PS1", 0, a_copy),
    "an item too many": ("PS1", 0, lambda shop, plan: change_plan(shop, plan, {"widths.b": 2})),
    "a step that began before the one before it": (
        "PS2",
        0,
        lambda shop, plan: change_job(shop, plan, "e", started_at=LATER - timedelta(days=2)),
    ),
    "a step whose forerunner failed": (
        "PS2",
        1,
        lambda shop, plan: change_job(shop, plan, "c/00000001", state="failed"),
    ),
    "a step that ended after an undo began": (
        "PS3",
        1,
        lambda shop, plan: change_job(shop, plan, "e", finished_at=LATER),
    ),
    "an undo of what was not to be": (
        "PS4",
        1,
        lambda shop, plan: change_plan(shop, plan, {"undo": ["a"]}),
    ),
    "an undo before that of what came after": (
        "PS4",
        1,
        lambda shop, plan: change_job(shop, plan, "b~/00000001", state="failed"),
    ),
    "an undo of what is not done": (
        "PS4",
        1,
        lambda shop, plan: change_job(shop, plan, "b/00000001", state="cancelled"),
    ),
    "a start after the end": (
        "PS5",
        0,
        lambda shop, plan: change_job(shop, plan, "e", started_at=LATER, finished_at=LATER),
    ),
    "a start without a plan": ("PS5", 0, an_orphan),
    "a job of a try to come": (
        "PS6",
        1,
        lambda shop, plan: change_job(shop, plan, "e", **{"plan.try": 7}),
    ),
    "done without a step": (
        "PS7",
        0,
        lambda shop, plan: change_job(shop, plan, "c/00000002", state="failed"),
    ),
    "undone without an undo": (
        "PS7",
        1,
        lambda shop, plan: change_job(shop, plan, "b~/00000002", state="failed"),
    ),
    "something that runs at the end": (
        "PS7",
        0,
        lambda shop, plan: change_job(shop, plan, "~finally/0", state="working"),
    ),
    "an end without its time": (
        "PS8",
        0,
        lambda shop, plan: change_plan(shop, plan, {}, "finished_at"),
    ),
    "no end with one": (
        "PS8",
        0,
        lambda shop, plan: change_plan(shop, plan, {"state": "stopping"}),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_documents_show_is_caught(shop: Shop, name: str) -> None:
    invariant, which, plant = PLANTED[name]
    shop.failing = {"last"} if which else set()
    plan = shop.crew.insert(CHAIN)
    shop.crew.run()
    assert violated(shop.crew.store) == {}
    plant(shop, plan)
    found = violated(shop.crew.store)
    assert invariant in found, found


def test_what_has_no_licence_and_goes_back_is_no_violation(shop: Shop) -> None:
    """A claim is not a start: what stands only for a moment is forgotten."""
    plan = shop.crew.insert(CHAIN)
    shop.crew.run()
    change_job(shop, plan, "e", state="working")
    walked = PlanWalk(shop.crew.store, tally := Checked(5))
    walked.walk()
    change_job(shop, plan, "e", state="done")
    walked.conclude(0.1)
    assert all(one.verdict != "violated" for one in tally.conclusions())


# Planted in the history


def watched(shop: Shop, plant: Callable[[Any], None], failing: set[str]) -> set[str]:
    """What is violated by changes that follow on a plan's life up to its end."""
    shop.failing = failing

    def act() -> None:
        plan = shop.crew.insert(CHAIN)
        shop.crew.run()
        plant(plan)

    found = judged(seen(shop.crew.store, act, "end"))
    return {one.invariant for one in found if one.invariant in PLAN_INVARIANTS}


def insert_again(shop: Shop, plan: Any, name: str, new: str, kind: str) -> None:
    job = shop.crew.jobs(plan)[name]
    seq = shop.crew.plan(plan).seq
    place = {**job["plan"], "kind": kind}
    shop.crew.store.database.jobs.insert_one(
        {**job, "_id": f"plan/{seq}/{new}", "seq": bson.Int64(job["seq"] + 900), "plan": place}
        | {"state": "queued", "attempt": 0}
    )


def remove_job(shop: Shop, plan: Any) -> None:
    shop.crew.store.database.jobs.delete_one({"_id": f"plan/{shop.crew.plan(plan).seq}/e"})


def start_late(shop: Shop, plan: Any) -> None:
    """A job that is claimed, and runs, although nothing of its plan may."""
    job = "e" if shop.failing else "~finally/0"
    change_job(shop, plan, job, state="queued", **{"plan.try": 0})
    change_job(shop, plan, job, state="working", attempt=2)
    change_job(shop, plan, job, state="failed", started_at=LATER)


WATCHED: dict[str, tuple[set[str], set[str], Plant]] = {
    "a job that is gone": ({"PS1"}, set(), remove_job),
    "a job that was done and is queued": (
        {"PS1"},
        set(),
        lambda shop, plan: change_job(shop, plan, "e", state="queued"),
    ),
    "an undo that nobody asked for": (
        {"PS4"},
        set(),
        lambda shop, plan: insert_again(shop, plan, "a", "a~", kind="undo"),
    ),
    "a start when all is over": ({"PS5", "PS6"}, {"last"}, start_late),
    "a try that falls": (
        {"PS6", "PS8"},
        set(),
        lambda shop, plan: change_plan(shop, plan, {"try": -1}),
    ),
    "an end that is another": (
        {"PS8"},
        set(),
        lambda shop, plan: change_plan(shop, plan, {"state": "undone"}),
    ),
    "an end that changes": (
        {"PS8"},
        set(),
        lambda shop, plan: change_plan(shop, plan, {"name": "x"}),
    ),
}


@pytest.mark.parametrize("name", WATCHED)
def test_what_changes_show_is_caught(shop: Shop, name: str) -> None:
    invariants, failing, plant = WATCHED[name]
    assert watched(shop, lambda plan: plant(shop, plan), failing) == invariants


def test_a_plan_that_goes_before_its_time_is_caught(shop: Shop) -> None:
    def drop(plan: Any) -> None:
        shop.crew.store.database.plans.delete_one({"_id": plan})

    assert watched(shop, drop, set()) == {"PS8"}
