"""The interleavings of plans find a rule that is broken: each of these faults is told of within a
few stories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.store.test_plan_interleavings import tell
from tests.support.interleaving.history import Violation
from tontine.records.plan import JobFact, PlanRecord
from tontine.store.call import Operation, Store, update_one
from tontine.store.names import PLANS
from tontine.store.plans import facts, licence, writes

pytestmark = pytest.mark.long

STORIES = 150
Plant = Callable[[pytest.MonkeyPatch], None]


def licensed_always(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(licence, "may_start", lambda *_: True)


def no_drain(patch: pytest.MonkeyPatch) -> None:
    def drained(_: Any) -> Operation[JobFact | None]:
        return None
        yield

    patch.setattr(facts.Asked, "_open_step_job", drained)


def no_fan_in(patch: pytest.MonkeyPatch) -> None:
    def ended(self: Any, name: str) -> Operation[int | None]:
        return None
        yield

    patch.setattr(facts.Asked, "_unended", ended)


def undoing_from_any_state(patch: pytest.MonkeyPatch) -> None:
    def begin_undo(plan: PlanRecord, steps: tuple[str, ...]) -> Operation[bool]:
        change = {"$set": {"state": "undoing", "undo": list(steps)}}
        yield update_one(PLANS, {"_id": plan.id}, change)
        return True

    patch.setattr(writes, "begin_undo", begin_undo)


@pytest.mark.parametrize("plant", [licensed_always, no_drain, no_fan_in, undoing_from_any_state])
def test_a_planted_fault_is_found(
    store: Store, monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match="PS"):
        tell_all(store)


def tell_all(store: Store) -> None:
    for seed in range(STORIES):
        tell(store, seed)
