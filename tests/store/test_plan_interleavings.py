"""Plans, call by call in any order, with crashes and lost and late writes between any two: PS1 to
PS8 hold, and every plan ends.

With `TONTINE_PLAN_INTERLEAVINGS=5000` in the environment it looks at so many stories; with
`TONTINE_PLAN_INTERLEAVING=17` at that one alone.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from tests.support.interleaving.plans import PlanWorld
from tontine.rules.plan_check import problem
from tontine.store.call import Store

ONE = os.environ.get("TONTINE_PLAN_INTERLEAVING")
MANY = int(os.environ.get("TONTINE_PLAN_INTERLEAVINGS", "0"))
EVERYDAY, FIRST = 8, int(os.environ.get("TONTINE_PLAN_INTERLEAVINGS_FROM", "0"))
STEPS = 300
UNDO = {"undo": {"task": "t.u"}}


def shapes(choice: Random) -> dict[str, Any]:
    """A plan: each kind of thing that can be in one, sooner or later."""
    task = {"task": "t.x"}
    steps = choice.choice(
        [
            {"a": task, "b": {**task, "after": ["a"]}, "c": {**task, "take": {"x": "b"}}},
            {"a": {**task, **UNDO}, "b": {**task, "after": ["a"], **UNDO}, "c": task},
            {
                "a": {**task, **UNDO},
                "b": {**task, "after": ["a"], "may_fail": True},
                "c": {**task, "after": ["a"], "undo": {"task": "t.u", "when": "begun"}},
                "d": {**task, "take": {"both": ["b", "c"]}},
            },
            {
                "a": task,
                "m": {**task, "map": "a", "as": "x", **UNDO},
                "z": {**task, "take": {"all": "m"}},
            },
            {
                "m": {**task, "map": [1, 2, 3], "as": "x", "at_once": 1, "may_fail": True},
                "n": {**task, "map": "m", "as": "x", "after": ["a"]},
                "a": task,
            },
            {
                "a": {**task, "may_fail": True},
                "m": {**task, "map": "a", "as": "x", "may_fail": True},
                "z": {**task, "after": ["m"]},
            },
            {"m": {**task, "map": [], "as": "x"}, "z": {**task, "after": ["m"], **UNDO}, "y": task},
            {
                "a": {"task": "t.more", **UNDO},
                "b": {**task, "after": ["a"], **UNDO},
                "c": {"task": "t.more", "may_fail": True},
            },
            {
                "m": {**task, "map": [1, 2, 3], "as": "x", "chunk": 2, **UNDO},
                "n": {**task, "map": "m", "as": "x"},
                "z": {**task, "take": {"all": "n"}},
            },
            {"a": {**task, **UNDO}, "b": {**task, **UNDO}, "z": {**task, "take": {"x": "a.none"}}},
            {
                "a": {"task": "t.deep", **UNDO},
                "m": {**task, "map": "a", "as": "x", "may_fail": True, **UNDO},
                "n": {**task, "map": "m", "as": "x", "at_once": 1, "after": ["b"]},
                "b": {"task": "t.more", "after": ["a"], **UNDO},
                "z": {**task, "take": {"all": "n"}, "stream": {"each": "m"}},
            },
            {
                "a": {**task, "undo": {"task": "t.u", "take": {"x": "a.none"}}},
                "b": {**task, **UNDO},
                "c": {**task, "after": ["a", "b"]},
            },
        ]
    )
    plan: dict[str, Any] = {"steps": steps, "on_failure": choice.choice(["finish", "cancel"])}
    if choice.random() < 0.5:
        plan["finally"] = {"task": "t.z"}
    if choice.random() < 0.3:
        plan["key"] = "only"
    assert problem(plan) is None
    return plan


def tell(store: Store, seed: int) -> None:
    world = PlanWorld(store.database, seed)
    try:
        world.insert(shapes(world.choice))
        if world.choice.random() < 0.3:
            world.insert(shapes(world.choice))
        for _ in range(STEPS):
            world.step()
        world.calm_down()
    except Exception as error:
        error.add_note(f"in story {seed}: TONTINE_PLAN_INTERLEAVING={seed} tells it again")
        raise


@pytest.mark.timeout(0 if MANY else 300)
def test_whatever_happens_between_any_two_calls_plans_keep_their_promises(store: Store) -> None:
    seeds = [int(ONE)] if ONE else range(FIRST, FIRST + (MANY or EVERYDAY))
    for seed in seeds:
        tell(store, seed)
