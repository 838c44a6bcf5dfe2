"""What producers and operators ask of plans: submit, cancel (PL9), retry (PL15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson
from bson import Int64, ObjectId

from ...errors import ConfigError, DuplicateKey, StoreError, Unstorable
from ...records.plan import PlanRecord, all_of
from ...records.states import PlanState
from ...rules.plan import retried_to
from ...rules.plan_check import problem
from ...storable import REFUSALS, unstorable
from ..bell import ring, ring_new_plan, ring_plan
from ..call import DECODED, Operation, find_one, insert_one, update_many, update_one
from ..counter import Reserve, raise_counter, take
from ..end import PUT_BACK
from ..indexes import NEW_PLANS, OPEN_PLANS
from ..insert import Put
from ..names import JOBS, PLANS
from ..retention import read_retention
from .accept import NOT_YET
from .read import read_by_id, read_plan

_TRIES = 5
_NUMBERS_TAKEN = "numbers are taken as fast as they are given, and a plan got none"
_WITHIN = 60.0


def submit(
    document: Mapping[str, Any], reserve: Reserve | None = None
) -> Operation[tuple[PlanRecord, bool]]:
    """Insert a plan; with a key that an unfinished plan has, or an `_id` that any has, that one
    comes back instead, and True."""
    check(document)
    key = document.get("key")
    if key is not None and (holder := (yield from find_holder(key))) is not None:
        return holder, True
    for _ in range(_TRIES):
        block = yield from take(1) if reserve is None else reserve.take_one()
        plan = {"_id": ObjectId(), **document, "seq": Int64(block.first), "created_at": block.at}
        plan.pop("state", None)  # a copy of one that has ended is to be accepted like any other
        try:
            yield insert_one(PLANS, plan, repeats=True)
        except DuplicateKey as error:
            if error.key == ("_id",):  # this very call has, or somebody before it
                there = yield from read_by_id(plan["_id"])
                return there, there.seq != block.first
            yield from raise_counter()
            continue
        yield from ring_new_plan()
        return PlanRecord.from_document(plan), False
    raise StoreError(_NUMBERS_TAKEN)


def put_named(id: str, document: Mapping[str, Any]) -> Operation[Put]:
    """Insert a plan under this `_id`: once, whoever tries, how often, and after whatever outcome.
    Not while another unfinished plan has its key."""
    key = document.get("key")
    if key is not None and (holder := (yield from find_holder(key))) is not None:
        return "there" if holder.id == id else "key"
    for _ in range(_TRIES):
        block = yield from take(1)
        plan = {**document, "_id": id, "seq": Int64(block.first), "created_at": block.at}
        try:
            yield insert_one(PLANS, plan, repeats=True)
        except DuplicateKey as error:
            if error.key == ("_id",):
                return "there"
            yield from raise_counter()
            continue
        yield from ring_new_plan()
        return "inserted"
    raise StoreError(_NUMBERS_TAKEN)


def check(document: Mapping[str, Any]) -> None:
    """Refuse what nodes would refuse, in the same words."""
    try:
        size = len(bson.encode(document, codec_options=DECODED))
    except REFUSALS as error:
        why = unstorable(document, "plan") or error
        raise Unstorable(f"this cannot be a plan: {why}") from error
    if reason := problem(document, size):
        raise ConfigError(f"this cannot be a plan: {reason}")


def find_holder(key: str) -> Operation[PlanRecord | None]:
    """The plan that has a key and has yet to end, accepted or not."""
    for unfinished in (OPEN_PLANS, NEW_PLANS):
        if found := (yield find_one(PLANS, {"key": key, **unfinished})):
            return PlanRecord.from_document(found)
    return None


def cancel(seq: int, *, undo: bool = True) -> Operation[tuple[PlanRecord, bool]]:
    """Cancel a plan; the plan, and whether it was this that stopped it. One that stops or has
    ended is left as it is."""
    plan = yield from read_plan(seq)
    if plan.state is None:
        ended = {
            "state": PlanState.CANCELLED.value,
            "cause": "cancelled",
            "finished_at": "$$NOW",
            "expire_at": (yield from read_retention()).expiry_of_plan(done=False),
        }
        unaccepted = {"_id": plan.id, **NEW_PLANS}
        update: list[dict[str, Any]] = [{"$unset": NOT_YET}, {"$set": ended}]
        answer = yield update_one(PLANS, unaccepted, update, repeats=True)
        if answer.matched_count:
            return (yield from read_plan(seq)), True
        plan = yield from read_plan(seq)
    if plan.state is not PlanState.RUNNING:
        return plan, False
    change: dict[str, Any] = {"state": PlanState.STOPPING.value, "cause": "cancelled"}
    if not undo:
        change["no_undo"] = True
    running = {"_id": plan.id, "state": PlanState.RUNNING.value, "try": plan.try_}
    answer = yield update_one(PLANS, running, {"$set": change})
    yield from ring_plan(seq)
    return (yield from read_plan(seq)), bool(answer.matched_count)


_OVER = ("cause", "error", "outcome", "finished_at", "expire_at", "no_undo")


def retry(seq: int) -> Operation[PlanRecord]:
    """Run a plan on that failed, was cancelled, or is stuck; a ConfigError says why it cannot
    be."""
    plan = yield from read_plan(seq)
    target = retried_to(plan)
    if not isinstance(target, PlanState):
        raise ConfigError(target)
    taken = f"plan {seq} cannot go on: an unfinished plan has its key {plan.key!r} by now"
    holder = None if plan.key is None else (yield from find_holder(plan.key))
    if holder is not None and holder.id != plan.id:  # or a new one, which would be refused
        raise ConfigError(taken)
    tries = (plan.try_ or 0) + 1
    over = dict.fromkeys((*_OVER, "undo") if target is PlanState.RUNNING else _OVER, "")
    seen = {"_id": plan.id, "state": str(plan.state), "try": plan.try_}
    try:
        answer = yield update_one(
            PLANS, seen, {"$set": {"state": target.value, "try": tries}, "$unset": over}
        )
    except DuplicateKey:
        raise ConfigError(taken) from None
    if answer.matched_count:
        yield from put_back((yield from read_plan(seq)))
    yield from ring_plan(seq)
    return (yield from read_plan(seq))


def put_back(plan: PlanRecord) -> Operation[int]:
    """Queue again what did not end well in an earlier try; what is done is not run again
    (PL15)."""
    if plan.seq is None or not plan.try_:
        return 0
    earlier: dict[str, Any] = {
        "_id": all_of(plan.seq),
        "state": {"$in": ["cancelled", "failed"]},
        "plan.try": {"$lt": plan.try_},
    }
    if plan.state is PlanState.UNDOING:
        earlier["plan.kind"] = "undo"
    elif plan.state is PlanState.RUNNING:
        may_fail = [step.name for step in plan.steps.values() if step.may_fail]
        earlier["plan.kind"] = "step"
        earlier["$or"] = [{"plan.step": {"$nin": may_fail}}, {"stopped": True}]
    else:
        return 0
    update = [*PUT_BACK, {"$set": {"plan.try": plan.try_}}, {"$unset": "stopped"}]
    answer = yield update_many(JOBS, earlier, update, repeats=True, within=_WITHIN, hint="_id_")
    if answer.modified_count:
        yield from ring(JOBS)
    return int(answer.modified_count)
