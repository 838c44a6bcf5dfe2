"""A plan is drawn only from the kinds that were chosen, and each of them can happen."""

from __future__ import annotations

from tests.chaos.injector import Injector
from tests.chaos.load import BAD_KINDS
from tests.chaos.plan import KINDS, draw


def test_only_chosen_kinds_are_drawn() -> None:
    plan = draw(1, 600, 5, 6.0, 1.5, ["scribble", "leave"])
    assert {fault.kind for fault in plan.faults} == {"scribble", "leave"}


def test_every_kind_can_be_injected() -> None:
    asked = {name for name, kind in KINDS.items() if kind.befalls == "load"}
    assert asked == set(BAD_KINDS)
    assert [
        kind for kind in KINDS.keys() - asked if not hasattr(Injector, "_" + kind.replace("-", "_"))
    ] == []


def test_what_was_dropped_has_time_to_be_put_back_before_the_data_is_hurt_again() -> None:
    lease = 6.0
    hurts = [
        fault
        for fault in draw(3, 6000, 5, lease, 1.5, ["scribble", "drop"]).faults
        if fault.kind == "drop"
    ]
    following = draw(3, 6000, 5, lease, 1.5, ["scribble", "drop"]).faults
    for hurt in hurts:
        after = [fault.at for fault in following if fault.at > hurt.at]
        assert not after or min(after) - hurt.at >= 3 * lease - 0.1
