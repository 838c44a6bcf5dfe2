"""Each kind of wrong change of a plan or its jobs is caught, and right ones pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.changes import delta
from tontine.diagnose.audit.history import History
from tontine.records.change import Delta
from tontine.records.plan import PlanPlace

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STEPS = {
    "get": {"task": "t.t", "undo": {"task": "t.u"}},
    "each": {"task": "t.t", "map": "get", "as": "x", "at_once": 1, "undo": {"task": "t.u"}},
    "put": {"task": "t.t", "after": ["each"], "may_fail": True},
}
NEW = [
    delta("plans", "insert", 1, {"_id": 1, "steps": STEPS, "seq": 7}),
    delta("plans", "update", 1, {"state": "running", "try": 0, "rev": 0}),
]
Changes = Iterable[Delta]


def plan(**fields: Any) -> list[Delta]:
    return [delta("plans", "update", 1, fields)]


def place(name: str) -> PlanPlace:
    step, _, item = name.partition("/")
    kind: Any = "undo" if step.endswith("~") else "finally" if step == "~finally" else "step"
    return PlanPlace(7, step.rstrip("~") or step, kind, int(item) if item else None)


def released(name: str) -> list[Delta]:
    job = {"state": "queued", "attempt": 0, "seq": 100, "plan": place(name).to_document()}
    return [delta("jobs", "insert", place(name).id, {"_id": place(name).id, **job})]


def changed(name: str, **fields: Any) -> list[Delta]:
    told = {key.replace("__", "."): value for key, value in fields.items()}
    return [delta("jobs", "update", place(name).id, told)]


def claimed(name: str, attempt: int = 1) -> list[Delta]:
    return changed(name, state="working", node="a", attempt=attempt)


def ended(name: str, state: str = "done", **more: Any) -> list[Delta]:
    return changed(name, state=state, started_at=NOW, finished_at=NOW, **more)


def ran(name: str, state: str = "done") -> list[Delta]:
    return [*released(name), *claimed(name), *ended(name, state)]


def told(*changes: Changes) -> list[str]:
    history = History("jobs", "nodes", "cluster", "plans")
    found = [one for some in (NEW, *changes) for change in some for one in history.see(change)]
    return [one.invariant for one in found if one.plan == 7]


MAPPED = [*ran("get"), *plan(**{"widths.each": 2})]
BOTH = [*MAPPED, *ran("each/0"), *ran("each/1")]
STOPPED = [*BOTH, *ran("put", "failed"), *plan(state="stopping", cause="cancelled")]
UNDOING = [*STOPPED, *plan(state="undoing", undo=["get", "each"])]

RIGHT: Mapping[str, list[Delta]] = {
    "done": [*BOTH, *ran("put"), *plan(state="done", finished_at=NOW)],
    "done without what may fail": [*BOTH, *ran("put", "failed"), *plan(state="done")],
    "undone": [
        *[*UNDOING, *ran("each~/1"), *ran("each~/0"), *ran("get~")],
        *plan(state="undone", finished_at=NOW),
    ],
    "a claim without a licence": [
        *[*MAPPED, *released("each/0"), *plan(state="stopping"), *claimed("each/0")],
        *changed("each/0", state="cancelled", stopped=True, refused=1),
        *plan(state="failed"),
    ],
    "put back by a retry": [
        *[*released("get"), *claimed("get"), *ended("get", "failed"), *plan(state="stopping")],
        *[*plan(state="failed"), *plan(state="running", **{"try": 1})],
        *[*changed("get", state="queued", plan__try=1), *claimed("get", 2), *ended("get")],
    ],
    "licensed while it was allowed again": [
        *[*released("get"), *plan(state="stopping"), *plan(state="cancelled"), *claimed("get")],
        *[*plan(state="running", **{"try": 1}), *ended("get")],
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_history_passes(name: str) -> None:
    assert told(RIGHT[name]) == []


WRONG: Mapping[str, tuple[list[str], list[Delta]]] = {
    "a step before its forerunner": (["PS2"], released("put")),
    "an item before all it comes after": (["PS2", "PS1"], released("each/0")),
    "an item before the one it waits for": (["PS2"], [*MAPPED, *released("each/1")]),
    "an item too many": (["PS1"], [*BOTH, *released("each/2")]),
    "a step that is none": (["PS1"], released("other")),
    "steps that run when undoing begins": (
        ["PS3"],
        [
            *[*MAPPED, *released("each/0"), *claimed("each/0"), *plan(state="stopping")],
            *plan(state="undoing", undo=["get"]),
        ],
    ),
    "a step that starts while undoing": (
        ["PS3"],
        [
            *[*MAPPED, *released("each/0"), *plan(state="stopping")],
            *[*plan(state="undoing", undo=["get"]), *claimed("each/0"), *ended("each/0")],
        ],
    ),
    "an undo out of order": (["PS4"], [*UNDOING, *released("get~")]),
    "an undo of what is not done": (
        ["PS4"],
        [
            *[*MAPPED, *ran("each/0"), *plan(state="stopping")],
            *[*plan(state="undoing", undo=["get", "each"]), *released("each~/1")],
        ],
    ),
    "an undo that is not wanted": (["PS4"], [*BOTH, *released("each~/0")]),
    "a list to undo that changes": (
        ["PS4"],
        [*UNDOING, *plan(state="closing", outcome="stuck", undo=["get"])],
    ),
    "a start without a licence": (
        ["PS5"],
        [*released("get"), *plan(state="stopping"), *claimed("get"), *ended("get")],
    ),
    "a start of a plan that is gone": (
        ["PS5"],
        [
            *[*plan(state="stopping"), *plan(state="cancelled"), *plan(state="removing")],
            delta("plans", "delete", 1),
            *[*released("get"), *claimed("get"), *ended("get")],
        ],
    ),
    "a `finally` too early": (["PS5"], released("~finally")),
    "a job stopped by an earlier try": (
        ["PS6"],
        [*released("get"), *changed("get", state="cancelled", stopped=True)],
    ),
    "a job put back without a retry": (
        ["PS6"],
        [*ran("get", "failed"), *changed("get", state="queued")],
    ),
    "done too early": (["PS7"], [*ran("get"), *plan(state="done")]),
    "undone too early": (["PS7"], [*UNDOING, *ran("each~/1"), *plan(state="undone")]),
    "an end while something runs": (
        ["PS7"],
        [*released("get"), *claimed("get"), *plan(state="stopping"), *plan(state="failed")],
    ),
    "a move that is none": (["PS8"], plan(state="stuck")),
    "a retry that is no other try": (
        ["PS8"],
        [*plan(state="stopping"), *plan(state="failed"), *plan(state="running")],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_caught(name: str) -> None:
    invariants, changes = WRONG[name]
    assert told(changes) == invariants


def test_steps_that_a_task_added_come_before_what_comes_after_it() -> None:
    more = [*released("get"), *claimed("get"), *ended("get", more={"x": {"task": "t.t"}})]
    added = plan(rev=1, added=["get"], **{"steps.get:x": {"task": "t.t"}})
    width = plan(**{"widths.each": 1})
    assert told(more, width, released("each/0")) == ["PS2"]
    assert told(more, added, width, released("each/0")) == ["PS2"]
    assert told(more, added, ran("get:x"), width, released("each/0")) == []


def test_a_plan_that_was_there_before_is_not_judged() -> None:
    history = History("jobs", "nodes", "cluster", "plans")
    seen = [*plan(state="stuck"), *released("put"), *claimed("put"), *ended("put")]
    assert [one for change in seen for one in history.see(change) if one.plan] == []
