"""Each kind of wrong change is caught, and a right life of a job, a node and a roster passes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tontine.audit.history import Change, History

START = datetime(2026, 1, 1, tzinfo=UTC)
FRESH = {"seq": 7, "task": "t.t", "state": "queued", "attempt": 0, "fails": 0, "lost": 0}
CLAIM = {"state": "working", "node": "a", "attempt": 1}
DONE = {"state": "done", "result": 1, "finished_at": START}


def told(*changes: Change) -> list[tuple[str, str]]:
    history = History("jobs", "nodes", "cluster")
    return [(found.invariant, found.fact) for change in changes for found in history.see(change)]


def life(*steps: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One job, inserted and then changed step by step; None removes a field."""
    changes = [Change("jobs", "insert", 1, steps[0])]
    for step in steps[1:]:
        kept = {name: value for name, value in step.items() if value is not None}
        changes.append(Change("jobs", "update", 1, kept, [name for name in step if name not in kept]))
    return told(*changes)


def test_right_lives_pass() -> None:
    again = {"state": "queued", "run_at": START, "node": None}
    second = {"state": "working", "node": "b", "attempt": 2}
    assert life(FRESH, CLAIM, {"progress": {"value": 0.5}}, DONE) == []
    assert life(FRESH, CLAIM, again, second, DONE, {"expire_at": START}) == []
    assert life(FRESH, CLAIM, DONE, {**again, "result": None, "finished_at": None}, second, DONE) == []
    assert life(FRESH, {"state": "cancelled", "finished_at": START}) == []
    assert life(FRESH, CLAIM, {"cancel": True}, {"state": "cancelled", "node": None, "finished_at": START}) == []
    assert life({"task": "t.t"}, FRESH, CLAIM, DONE) == [], "a raw insert is numbered"
    assert life({"task": 7}, {**FRESH, "state": "failed"}) == [], "what cannot be a job fails"


@pytest.mark.parametrize(
    ("invariant", "steps"),
    [
        ("S1", [FRESH, CLAIM, DONE, {"result": 2}]),
        ("S1", [FRESH, CLAIM, DONE, {"state": "failed", "error": {}}]),
        ("S1", [FRESH, CLAIM, DONE, {"state": "working", "node": "b", "attempt": 2}]),
        ("S2", [FRESH, DONE]),
        ("S2", [FRESH, CLAIM, {"node": "b"}]),
        ("S2", [FRESH, CLAIM, DONE | {"node": "b"}]),
        ("S2", [FRESH, CLAIM, DONE | {"node": None}]),
        ("S2", [FRESH, CLAIM, {"state": "failed", "node": "b"}]),
        ("S2", [FRESH, CLAIM | {"node": ""}]),
        ("S4", [FRESH, CLAIM | {"attempt": 0}]),
        ("S4", [FRESH, CLAIM | {"attempt": 2}]),
        ("S4", [FRESH, CLAIM, DONE, {"state": "queued", "attempt": 0}]),
        ("S4", [FRESH, CLAIM, {"state": "queued", "attempt": 2}]),
        ("S7", [FRESH, {"seq": 8}]),
        ("S7", [FRESH, CLAIM, {"seq": None}]),
    ],
)
def test_a_wrong_change_of_a_job_is_caught(invariant: str, steps: list[dict[str, Any]]) -> None:
    assert life(*steps[:-1]) == []
    assert invariant in [found for found, _ in life(*steps)]


def test_a_number_given_to_two_jobs_is_caught() -> None:
    raw = Change("jobs", "insert", 2, {"task": "t.t"})
    found = told(Change("jobs", "insert", 1, FRESH), raw, Change("jobs", "update", 2, {"seq": 7}))
    assert found == [("S7", "given to 1 and to 2")]


def test_an_open_job_that_is_removed_is_caught_and_an_ended_one_is_not() -> None:
    gone = Change("jobs", "delete", 1)
    assert told(Change("jobs", "insert", 1, FRESH), gone) == [("S1", "removed while queued")]
    assert told(Change("jobs", "insert", 1, FRESH | DONE), gone) == []


def node(*steps: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One node with a lease of 20 s; `after` says at which second a step happens."""
    changes, operation = [], "insert"
    for step in ({"state": "initializing", "beat": 0, "lease": 20.0, "after": 0}, *steps):
        at = START + timedelta(seconds=step["after"])
        fields = {name: value for name, value in step.items() if name != "after"}
        changes.append(Change("nodes", operation, "n", fields, (), at))
        operation = "update"
    return told(*changes)


def test_deaths_are_judged_by_the_last_beat() -> None:
    dead = {"state": "dead", "death": "lease expired"}
    assert node({"state": "waiting", "after": 1}, {"beat": 5, "after": 10}, dead | {"after": 30}) == []
    assert node({"state": "waiting", "after": 1}, {"state": "dead", "death": "stopped", "after": 2}) == []
    ((invariant, fact),) = node({"state": "waiting", "after": 1}, {"beat": 5, "after": 10}, dead | {"after": 21})
    assert (invariant, fact) == ("S8", "declared dead 11.0 s after a beat, with a lease of 20 s")


def test_a_node_that_comes_back_or_jumps_is_caught() -> None:
    dead = {"state": "dead", "death": "stopped", "after": 1}
    assert node(dead, {"state": "waiting", "after": 2}) == [("S6", "was dead, then waiting")]
    assert node(dead, {"beat": 9, "after": 2}) == []
    assert node({"state": "paused", "after": 1}) == [("S6", "went from initializing to paused")]


def test_epochs_and_the_counter_only_grow() -> None:
    def roster(*epochs: int) -> list[tuple[str, str]]:
        first, *others = epochs
        changes = [Change("cluster", "insert", "roster", {"epoch": first, "members": []})]
        return told(*changes, *(Change("cluster", "update", "roster", {"epoch": epoch}) for epoch in others))

    assert roster(0, 1, 2) == []
    assert roster(0, 1, 1, 3) == [("S5", "epoch 1 was followed by 1"), ("S5", "epoch 1 was followed by 3")]
    assert roster(4, 3) == [("S5", "epoch 4 was followed by 3")]
    counter = [Change("cluster", "update", "counter", {"seq": seq}) for seq in (5, 9, 8)]
    assert told(*counter) == [("S7", "the counter fell from 9 to 8")]
