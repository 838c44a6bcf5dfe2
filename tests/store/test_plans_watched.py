"""Plans as the observer reads them from a real store: rows, pages, the job of a step, what is asked
of one; counted and not fetched, and whatever anybody wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.feeding import until
from tests.support.planned import Broken, Crew
from tontine.config import StoreConfig
from tontine.store.call import Store
from tontine_observer.feed.live import LiveSource
from tontine_observer.feed.plans import LISTED
from tontine_observer.picture.board import Board
from tontine_observer.records.pane import Pane
from tontine_observer.records.plan import PlanPage, PlanRow
from tontine_observer.records.request import Phase, Request


@pytest.fixture
async def source(mongo_uri: str, store: Store) -> AsyncIterator[LiveSource]:
    name = store.database.name
    source = LiveSource(StoreConfig(mongo_uri, name), Board(name))
    await source.start()
    await until(lambda: source.board.link.is_fresh)
    yield source
    await source.stop()


def break_down() -> None:
    raise Broken("no car is free")


@pytest.fixture
def crew(store: Store) -> Crew:
    return Crew(
        store, {"do": lambda **_: None, "fail": break_down, "list": lambda: list(range(12))}
    )


def trip() -> dict[str, Any]:
    back = {"task": "t.do"}
    return {
        "name": "trip",
        "steps": {
            "flight": {"task": "t.do", "undo": back},
            "car": {"task": "t.fail", "after": ["flight"]},
        },
        "finally": {"task": "t.do"},
    }


async def rows(source: LiveSource) -> list[PlanRow]:
    found = (await source.ledger(Pane.PLANS)).plans
    assert found is not None
    return list(found)


async def page(source: LiveSource, id: Any) -> PlanPage:
    found = await source.plan(None, id)
    assert found is not None
    return found


def drawn(page: PlanPage) -> list[str]:
    return ["".join(text for text, _ in line) for one in page.steps for line in one.lines]


@contextmanager
def profiled(store: Store) -> Iterator[list[dict[str, Any]]]:
    """What the server is asked meanwhile of plans and jobs, by anything but the feed's own look."""
    database, found = store.database, list[dict[str, Any]]()
    database.command("profile", 2)
    try:
        yield found
    finally:
        database.command("profile", 0)
        of = {f"{database.name}.plans", f"{database.name}.jobs"}
        found += list(database.system.profile.find({"ns": {"$in": sorted(of)}}))


def is_count(call: dict[str, Any]) -> bool:
    """Whether jobs of a plan were counted: the feed counts others, on other indexes."""
    return "aggregate" in call["command"] and call["command"].get("hint") == "_id_"


async def test_a_plan_is_seen_from_its_arrival_to_its_end(source: LiveSource, crew: Crew) -> None:
    plan = crew.insert(trip())
    (row,) = await rows(source)
    assert (row.seq, row.state, row.done, row.steps, row.name) == (None, "new", 0, 2, "trip")
    assert row.created_at is not None
    assert "No node has accepted it yet" in (await page(source, plan)).why[0][0]
    crew.accept()
    (row,) = await rows(source)
    assert (row.state, row.done, row.steps) == ("running", 0, 2)
    crew.run()
    (row,) = await rows(source)
    assert (row.state, row.done, row.steps, row.progress) == ("undone", 1, 2, 0.5)
    assert row.error == "car: Broken: no car is free"
    found = await page(source, plan)
    told = drawn(found)
    assert told[0].startswith("✓ flight   done")
    assert told[0].endswith("↶ undone")
    assert told[1].startswith("✗ car      failed")
    assert told[2].endswith("Broken: no car is free")
    assert told[3].startswith("✓ finally  done")
    assert (await source.plan(found.row.seq)) is not None
    assert await source.plan(4711) is None


async def test_the_job_of_a_step_is_the_one_that_one_wants_to_see(
    source: LiveSource, crew: Crew, store: Store
) -> None:
    items = {"task": "t.do", "map": "get", "as": "x"}
    steps = {"get": {"task": "t.list"}, "each": items, "end": {"task": "t.do", "after": ["each"]}}
    plan = crew.insert({"steps": steps})
    crew.accept()
    for _ in range(2):
        for job in crew.claim()[:5]:
            crew.work(job)
    found = await page(source, plan)
    seq = found.row.seq
    assert seq is not None
    jobs = {job["_id"]: job for job in store.database.jobs.find()}

    async def of(place: int) -> Any:
        number = await source.step_job(seq or 0, found.steps[place].step)
        return next((job for job in jobs.values() if job["seq"] == number), None)

    assert (await of(0))["_id"] == f"plan/{seq}/get"
    assert (await of(1))["state"] == "working"
    assert await of(2) is None
    assert "5 of 12, 7 working" in drawn(found)[1]
    failed = f"plan/{seq}/each/00000009"
    end = {"state": "failed", "error": {"type": "E", "message": "m"}, "finished_at": now()}
    store.database.jobs.update_one({"_id": failed}, {"$set": end})
    found = await page(source, plan)
    assert (await of(1))["_id"] == failed
    trip_plan = crew.insert(trip())
    crew.run()
    found, jobs = await page(source, trip_plan), {}
    jobs = {job["_id"]: job for job in store.database.jobs.find()}
    seq = found.row.seq
    assert [(await of(place))["_id"] for place in range(3)] == [
        f"plan/{seq}/flight~",
        f"plan/{seq}/car",
        f"plan/{seq}/~finally/0",
    ]


def now() -> datetime:
    return datetime.now(UTC)


async def test_what_has_ended_is_counted_once_and_no_job_is_fetched(
    source: LiveSource, crew: Crew, store: Store
) -> None:
    for _ in range(3):
        crew.insert({"steps": {"get": {"task": "t.do"}}})
    crew.run()
    assert [row.done for row in await rows(source)] == [1, 1, 1]
    with profiled(store) as calls:
        assert [row.done for row in await rows(source)] == [1, 1, 1]
    assert [call for call in calls if is_count(call)] == []
    seq = crew.insert({"steps": {"each": {"task": "t.do", "map": [1] * 3000, "as": "x"}}})
    crew.accept()
    with profiled(store) as calls:
        (row, *_) = await rows(source)
        assert (row.steps, row.done) == (1, 0)
        assert "0 of 3,000, 3,000 queued" in drawn(await page(source, seq))[0]
    counted = [call for call in calls if is_count(call)]
    assert len(counted) == 2
    assert all(call["nreturned"] <= 2 for call in counted)


async def test_a_database_without_plans_is_asked_three_empty_questions(
    source: LiveSource, store: Store
) -> None:
    with profiled(store) as calls:
        assert await rows(source) == []
    asked = [call for call in calls if call["ns"].endswith(".plans")]
    assert len(asked) == 3
    assert sum(call.get("docsExamined", 0) for call in asked) == 0


async def test_of_many_plans_the_newest_and_the_unfinished_are_listed(
    source: LiveSource, store: Store
) -> None:
    step = {"get": {"task": "t.do"}}
    plans = [
        {"seq": seq, "state": "running" if seq < 4 else "done", "steps": step, "try": 0, "rev": 0}
        for seq in range(1, LISTED + 50)
    ]
    store.database.plans.insert_many([*plans, {"steps": step}])
    found = [row.seq for row in await rows(source)]
    assert found == [None, *range(LISTED + 49, 49, -1), 3, 2, 1]


ODD: list[dict[str, Any]] = [
    {"seq": 1, "state": 5, "steps": [1, 2], "error": "no", "name": {"a": 1}, "try": "x"},
    {"seq": 2, "state": "running", "steps": {"a": 5, "b": {"task": 7, "after": {"x": 1}}}},
    {
        "seq": 3,
        "state": "failed",
        "steps": {"a": {"map": [[], {}]}},
        "error": {"step": 4},
        "try": 0,
    },
    {
        "seq": 4,
        "state": "undoing",
        "steps": {"a": {"after": ["a"]}},
        "undo": [5],
        "widths": {"a": -1},
    },
    {"seq": 5.0, "state": "running", "steps": {"a": {"task": "t"}}, "created_at": "x", "try": 0},
    {"_id": {"odd": [1]}, "steps": None, "finally": 3, "key": 4},
    {"seq": "six", "steps": {"": {}}},
]
JOBS: list[dict[str, Any]] = [
    {"_id": "plan/2/a", "plan": 5, "state": {"x": 1}, "started_at": "then"},
    {"_id": "plan/2/b", "plan": {"kind": "step", "step": "b"}, "state": "failed", "error": [1]},
    {"_id": "plan/3/~finally/0", "plan": {"kind": "finally", "try": {"x": 1}}, "state": "done"},
    {
        "_id": "plan/5/a",
        "plan": {"kind": "step", "step": "a", "item": "x"},
        "state": "failed",
        "error": {"type": ["E"], "message": {"deep": 1}},
        "finished_at": 17,
    },
]


async def test_whatever_anybody_wrote_is_shown(source: LiveSource, store: Store) -> None:
    odd = [{**one, "seq": 900 + place} for place, one in enumerate(JOBS)]
    store.database.plans.insert_many(map(dict, ODD), bypass_document_validation=True)
    store.database.jobs.insert_many(odd, bypass_document_validation=True)
    found = await rows(source)
    assert {row.seq for row in found} == {1, 2, 3, 4, 5, None}
    assert len(found) == len(ODD)
    assert {row.state for row in found if row.seq == 1} == {"5"}
    for row in found:
        shown = await page(source, row.id)
        assert len(shown.steps) >= (row.steps or 0)
        for one in shown.steps:
            await source.step_job(row.seq or 0, one.step)


async def test_a_plan_is_cancelled_and_retried_as_it_was_seen(
    source: LiveSource, crew: Crew, store: Store
) -> None:
    plan = crew.insert({"steps": {"get": {"task": "t.do"}}})
    (seq,) = crew.accept()

    async def ask(verb: str, seen: str) -> tuple[Phase, str]:
        request = Request(verb, (seq,), {seq: seen}, "why not", is_plan=True)
        told = [progress async for progress in source.ask(request)]
        return told[-1].phase, told[-1].text

    assert await ask("cancel", "new") == (
        Phase.CHANGED,
        f"plan {seq} changed meanwhile: it is running",
    )
    assert await ask("cancel", "running") == (Phase.DONE, f"plan {seq} is stopping")
    crew.look(seq)
    assert crew.state(plan) == "cancelled"
    assert await ask("retry", "cancelled") == (Phase.DONE, f"plan {seq} goes on: it is running")
    crew.run()
    assert crew.state(plan) == "done"
    event = store.database.events.find_one({"kind": "request", "verb": "cancel"})
    assert (event["subject"], event["why"]) == (f"plan {seq}", "why not")
    store.database.plans.delete_many({})
    assert (await ask("cancel", "running"))[0] is Phase.CHANGED
