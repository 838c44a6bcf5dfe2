"""The plans of a chaos run: one function for each shape, which is also the plan's name."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tontine import Plan
from tontine.plan import Step

BROKEN: list[dict[str, Any]] = [
    {"name": "broken", "steps": {}},
    {"name": "broken", "steps": {"a": {"task": 7}}},
    {"name": "broken", "steps": {"a": {"task": "trip.leg", "after": ["nobody"]}}},
    {"name": "broken", "steps": {"a": {"task": "trip.leg", "as": "x"}}, "priority": "high"},
]
"""What no plan can be; raw, for clients refuse it."""

NEVER = 99


def _nap(random: Random) -> float:
    return random.choice([0.0, 0.0, random.uniform(0.05, 1.5)])


def _leg(plan: Plan, random: Random, **more: Any) -> Step:
    return plan.step("trip.leg", {"seconds": _nap(random), **more}, max_attempts=1)


def _chain(plan: Plan, random: Random) -> None:
    before = _leg(plan, random, item=0)
    for _ in range(random.randint(2, 5)):
        before = _leg(plan, random, item=before)


def _diamond(plan: Plan, random: Random) -> None:
    top = plan.step("trip.pack", {"number": 2})
    sides = [_leg(plan, random, item=top) for _ in range(2)]
    plan.step("trip.join", {"parts": sides, "number": 2})


def _over(plan: Plan, number: int) -> Any:
    return plan.step("trip.pack", {"number": number})["items"]


def _map(plan: Plan, random: Random, number: int = 0) -> None:
    number = number or random.randint(2, 40)
    each = plan.map("trip.leg", _over(plan, number), as_="item", args={"seconds": 0.0})
    plan.step("trip.join", {"parts": each, "number": number})


def _wide(plan: Plan, random: Random) -> None:
    _map(plan, random, 500)


def _empty(plan: Plan, random: Random) -> None:
    each = plan.map("trip.leg", _over(plan, 0), as_="item")
    plan.step("trip.join", {"parts": each, "number": 0})


def _nested(plan: Plan, random: Random) -> None:
    number = random.randint(2, 20)
    inner = plan.map("trip.leg", _over(plan, number), as_="item")
    outer = plan.map("trip.leg", inner["item"], as_="item", args={"seconds": _nap(random)})
    plan.step("trip.join", {"parts": outer, "number": number})


def _at_once(plan: Plan, random: Random) -> None:
    number = random.randint(4, 15)
    args = {"seconds": random.uniform(0, 0.3)}
    each = plan.map("trip.leg", list(range(number)), as_="item", args=args, at_once=3)
    plan.step("trip.join", {"parts": each, "number": number})


def _optional(plan: Plan, random: Random) -> None:
    number = random.randint(3, 20)
    each = plan.map(
        *("trip.leg", _over(plan, number)),
        as_="item",
        args={"odd": True},
        may_fail=True,
        max_attempts=1,
    )
    plan.step("trip.join", {"parts": each, "number": number, "odd": True})


def _more(plan: Plan, random: Random) -> None:
    ahead = plan.step("trip.ahead", {"number": random.randint(1, 4)})
    plan.step("trip.leg", {"item": 0}, after=[ahead])


def _failing(plan: Plan, random: Random) -> None:
    """Fails somewhere; retried, it goes on."""
    bad = random.randrange(3)
    before: Any = 0
    for place in range(3):
        until = random.choice([1, 3, NEVER]) if place == bad else 0
        before = _leg(plan, random, item=before, until=until)
    beside = plan.map("trip.leg", list(range(6)), as_="item", args={"seconds": 0.5}, may_fail=True)
    plan.step("trip.leg", {"item": 0}, name="last", after=[before, beside])


def _saga(plan: Plan, random: Random) -> None:
    """Fails at a random step, or at none; some cannot be undone at once, or never."""
    bad, stubborn = random.randrange(6), random.randrange(10)
    before: Any = 0
    for place in range(5):
        before = _leg(plan, random, item=before, until=NEVER if place == bad else 0)
        until = random.choice([1, 2, NEVER]) if place == stubborn else 0
        when: Any = random.choice(["done", "begun"])
        before.undo("trip.back", {"what": before, "until": until}, when=when)


def _mapped_saga(plan: Plan, random: Random) -> None:
    top = plan.step("trip.pack", {"number": random.randint(2, 12)}).undo("trip.back")
    each = plan.map("trip.leg", top["items"], as_="item").undo("trip.back")
    _leg(plan, random, item=0, until=random.choice([0, NEVER])).undo("trip.back")
    last = plan.step("trip.leg", {"until": random.choice([0, NEVER])}, after=[each], max_attempts=1)
    last.undo("trip.back", when="begun")


SHAPES: dict[str, tuple[Callable[[Plan, Random], None], float]] = {
    "chain": (_chain, 10),
    "diamond": (_diamond, 10),
    "map": (_map, 10),
    "wide": (_wide, 1),
    "empty": (_empty, 2),
    "nested": (_nested, 6),
    "at-once": (_at_once, 6),
    "optional": (_optional, 6),
    "more": (_more, 6),
    "failing": (_failing, 10),
    "saga": (_saga, 14),
    "mapped-saga": (_mapped_saga, 6),
}

FAILS = ("failing", "saga", "mapped-saga")
"""Shapes that need not come to a good end."""


def draw_plan(random: Random) -> Plan:
    """Some plan."""
    name = random.choices(list(SHAPES), [weight for _, weight in SHAPES.values()])[0]
    plan = Plan(name, on_failure=random.choice(["finish", "finish", "cancel"]))
    SHAPES[name][0](plan, random)
    if random.random() < 0.3:
        plan.finally_("trip.close")
    return plan
