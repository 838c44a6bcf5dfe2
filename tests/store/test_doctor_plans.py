"""`tontine doctor` about plans, on real databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.store.test_doctor import add_node, examine
from tests.support.planned import Broken, Crew
from tontine.store.call import Store

PLAN = {
    "steps": {
        "a": {"task": "t.a", "undo": {"task": "t.back"}},
        "b": {"task": "t.b", "after": ["a"]},
    }
}
LONG_AGO = datetime.now(UTC) - timedelta(hours=3)


@pytest.fixture
def crew(store: Store) -> Crew:
    def broken() -> None:
        raise Broken("no way")

    return Crew(store, {"a": lambda: 1, "b": broken, "back": broken})


def said(crew: Crew, mongo_uri: str) -> str:
    return examine(mongo_uri, crew.store.database.name, "--quick")[1]["plans"]


def age(crew: Crew) -> None:
    """All of it happened hours ago."""
    database = crew.store.database
    for name in ("created_at", "finished_at"):
        old = {"$set": {name: LONG_AGO}}
        database.plans.update_many({name: {"$exists": True}}, old)
        database.jobs.update_many({name: {"$exists": True}}, old)


def test_plans_that_go_on_are_fine(crew: Crew, mongo_uri: str) -> None:
    assert said(crew, mongo_uri) == "ok: 0 unfinished plans, none of them stands still"
    crew.insert(PLAN)
    crew.accept()
    age(crew)
    assert said(crew, mongo_uri) == "ok: 1 unfinished plan, none of them stands still"


def test_a_plan_without_progress_for_an_hour_is_told_of(crew: Crew, mongo_uri: str) -> None:
    plan = crew.insert(PLAN)
    crew.accept()
    crew.store.database.jobs.update_many({}, {"$set": {"state": "done", "finished_at": LONG_AGO}})
    assert said(crew, mongo_uri).startswith("ok")
    age(crew)
    seq = crew.plan(plan).seq
    told = f"warn: nothing of 1 plan waits or runs, and they do not go on: {seq} for 3"
    assert said(crew, mongo_uri).startswith(told)


def test_a_plan_whose_undo_failed_is_told_of(crew: Crew, mongo_uri: str) -> None:
    plan = crew.insert(PLAN)
    crew.run()
    assert crew.state(plan) == "stuck"
    assert said(crew, mongo_uri) == f"warn: an undo of 1 plan failed: {crew.plan(plan).seq}"


def test_nodes_that_know_nothing_of_plans_are_told_of_at_once(crew: Crew, mongo_uri: str) -> None:
    add_node(crew.store, "old")
    assert said(crew, mongo_uri).startswith("ok")  # nobody is kept waiting
    crew.insert(PLAN)
    assert said(crew, mongo_uri) == "warn: 1 plan cannot go on: old knows nothing of plans"
    crew.store.database.nodes.update_one({"name": "old"}, {"$set": {"plans": True}})
    assert said(crew, mongo_uri).startswith("ok")
