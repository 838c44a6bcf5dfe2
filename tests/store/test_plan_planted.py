"""The interleavings of plans find a rule that is broken: each of these faults is told of within a
few stories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.store.test_plan_interleavings import tell
from tests.support.interleaving.history import Violation
from tests.support.interleaving.plans import PlanWorld
from tontine.records.plan import (
    JobFact,
    PlanError,
    PlanPlace,
    PlanRecord,
    StepRecord,
    all_of,
)
from tontine.records.states import PlanState
from tontine.rules import plan as rules
from tontine.rules import plan_questions as questions
from tontine.rules.plan_facts import AllJobs
from tontine.rules.plan_graph import PlanGraph
from tontine.store.call import Operation, Store, delete_many, delete_one, update_many, update_one
from tontine.store.claim import claim
from tontine.store.end import PUT_BACK, halted
from tontine.store.names import JOBS, PLANS
from tontine.store.plans import advance, control, facts, licence, remove, writes
from tontine.store.retention import Retention

pytestmark = pytest.mark.long

STORIES = 150
Plant = Callable[[pytest.MonkeyPatch], None]


def licensed_always(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(licence, "may_start", lambda *_: True)


def licensed_from_a_cache(patch: pytest.MonkeyPatch) -> None:
    granted: set[tuple[int, str]] = set()

    def may_start(place: PlanPlace, state: PlanState | None, try_: int | None) -> bool:
        """What was granted to a kind of job of this plan once."""
        if rules.may_start(place, state, try_):
            granted.add((place.seq, place.kind))
        return (place.seq, place.kind) in granted

    def insert(world: PlanWorld, document: dict[str, Any]) -> None:
        granted.clear()  # another story
        real(world, document)

    real = PlanWorld.insert
    patch.setattr(licence, "may_start", may_start)
    patch.setattr(PlanWorld, "insert", insert)


def licensed_before_the_claim(patch: pytest.MonkeyPatch) -> None:
    def claim_licensed(
        node: str, seqs: Sequence[int], attempt: int, places: Mapping[int, PlanPlace]
    ) -> Operation[tuple[set[int], licence.Licences]]:
        licences = yield from licence.licences_of(seqs, places)
        return (yield from claim(node, seqs, attempt)), licences

    patch.setattr(licence, "claim_licensed", claim_licensed)


def no_drain(patch: pytest.MonkeyPatch) -> None:
    def drained(*_: Any) -> Operation[JobFact | None]:
        return None
        yield

    patch.setattr(facts.Asked, "_open_step_job", drained)
    patch.setattr(AllJobs, "_open_step_job", lambda *_: None)


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


def stopped_in_any_try(patch: pytest.MonkeyPatch) -> None:
    def stop(plan: PlanRecord, error: PlanError) -> Operation[bool]:
        change = {"state": "stopping", "cause": "failed", "error": error.to_document()}
        running = {"_id": plan.id, "state": "running"}
        yield update_one(PLANS, running, {"$set": change}, repeats=True)
        return True

    patch.setattr(writes, "stop", stop)


def halted_in_any_try(patch: pytest.MonkeyPatch) -> None:
    def halt(plan: PlanRecord) -> Operation[int]:
        steps = {"_id": all_of(plan.seq or 0), "plan.kind": "step"}
        open_ones = {**steps, "state": {"$in": ["queued", "working"]}}
        answer = yield update_many(JOBS, open_ones, halted(asks=True), repeats=True)
        return int(answer.modified_count)

    patch.setattr(writes, "halt", halt)


def ended_from_any_state(patch: pytest.MonkeyPatch) -> None:
    def end(plan: PlanRecord, outcome: PlanState, *_: Retention | PlanError) -> Operation[bool]:
        seen = {"_id": plan.id, "try": plan.try_}
        change = {"state": outcome.value}
        if plan.closing is not None and plan.state is not PlanState.CLOSING:
            change = {"state": "closing", "outcome": outcome.value}
        yield update_one(PLANS, seen, {"$set": change}, repeats=True)
        return True

    patch.setattr(writes, "end", end)


def done_is_put_back(patch: pytest.MonkeyPatch) -> None:
    def put_back(plan: PlanRecord) -> Operation[int]:
        final = {"$in": ["cancelled", "failed", "done"]}
        earlier = {
            "_id": all_of(plan.seq or 0),
            "state": final,
            "plan.try": {"$lt": plan.try_},
            "plan.kind": "step" if plan.state is PlanState.RUNNING else "undo",
        }
        update = [*PUT_BACK, {"$set": {"plan.try": plan.try_}}, {"$unset": "stopped"}]
        answer = yield update_many(JOBS, earlier, update, repeats=True)
        return int(answer.modified_count)

    for module in (control, advance):
        patch.setattr(module, "put_back", put_back)


def removed_at_any_time(patch: pytest.MonkeyPatch) -> None:
    def remove_it(plan: PlanRecord) -> Operation[bool]:
        yield delete_many(JOBS, {"_id": all_of(plan.seq or 0)}, repeats=True)
        yield delete_one(PLANS, {"_id": plan.id}, repeats=True)
        return True

    patch.setattr(remove, "remove", remove_it)


def added_steps_forgotten(patch: pytest.MonkeyPatch) -> None:
    def ended(plan: PlanRecord, graph: PlanGraph, name: str) -> questions.Inquiry[bool]:
        """What it has added is not waited for."""
        step, width = graph.steps[name], plan.widths.get(name)
        if step.is_mapped:
            return width is not None and (yield questions.UnendedItem(name)) is None
        fact = yield questions.AboutJob(PlanPlace(plan.seq or 0, name))
        return rules.ended_well(fact, step)

    patch.setattr(rules, "step_ended_well", ended)


def all_at_once(patch: pytest.MonkeyPatch) -> None:
    def releasable(step: StepRecord, *others: Any) -> questions.Inquiry[tuple[int, ...]]:
        return (yield from real(replace(step, at_once=None), *others))

    real = rules._releasable
    patch.setattr(rules, "_releasable", releasable)


FAULTS: dict[Plant, int] = {
    added_steps_forgotten: 6,
    all_at_once: 12,
    licensed_always: 3,
    licensed_from_a_cache: 3,
    licensed_before_the_claim: 279,
    no_drain: 0,
    no_fan_in: 9,
    undoing_from_any_state: 43,
    stopped_in_any_try: 41,
    halted_in_any_try: 17,
    ended_from_any_state: 0,
    done_is_put_back: 17,
    removed_at_any_time: 2,
}
"""With a story that tells of each: it is told first, and all the others if it no longer does."""


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(
    store: Store, monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation, match="PS"):
        tell_all(store, FAULTS[plant])


def tell_all(store: Store, first: int) -> None:
    for seed in (first, *range(STORIES)):
        tell(store, seed)
