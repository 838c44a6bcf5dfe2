"""The writes that move a plan: each has in its filter the state it comes from, and the try."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...records.plan import PlanError, PlanRecord, all_of
from ...records.states import JobState, PlanState
from ..call import Operation, update_many, update_one
from ..end import halted
from ..names import JOBS, PLANS
from ..retention import Retention

_WITHIN = 60.0


def _seen(plan: PlanRecord, **more: Any) -> dict[str, Any]:
    return {"_id": plan.id, "state": str(plan.state), "try": plan.try_, **more}


def stop(plan: PlanRecord, error: PlanError) -> Operation[bool]:
    """A step failed, or cannot be released at all (PL9)."""
    running = {"_id": plan.id, "state": PlanState.RUNNING.value, "try": plan.try_}
    change = {
        "state": PlanState.STOPPING.value,
        "cause": "failed",
        "error": error.to_document(),
    }
    answer = yield update_one(PLANS, running, {"$set": change}, repeats=True)
    return bool(answer.matched_count)


def set_width(plan: PlanRecord, step: str, width: int) -> Operation[bool]:
    """How many jobs a mapped step has, once (PL4); False where somebody else said it."""
    field = f"widths.{step}"
    unset = {"_id": plan.id, "state": PlanState.RUNNING.value, field: {"$exists": False}}
    answer = yield update_one(PLANS, unset, {"$set": {field: width}}, repeats=True)
    return bool(answer.matched_count)


def halt(plan: PlanRecord) -> Operation[int]:
    """Cancel what is queued of a plan that stops, and perhaps ask what runs to end (PL10); how
    many."""
    asks = plan.cause == "cancelled" or plan.on_failure == "cancel"
    states = [JobState.QUEUED.value, *([JobState.WORKING.value] if asks else ())]
    steps = {
        "_id": all_of(plan.seq or 0),
        "plan.kind": "step",
        "plan.try": {"$lte": plan.try_},
        "state": {"$in": states},
        "$nor": [{"state": JobState.WORKING.value, "cancel": True, "stopped": True}],
    }
    answer = yield update_many(
        JOBS, steps, halted(asks=asks), repeats=True, within=_WITHIN, hint="_id_"
    )
    return int(answer.modified_count)


def begin_undo(plan: PlanRecord, steps: tuple[str, ...]) -> Operation[bool]:
    """The list is part of the write: jobs that come late would change it if it were made again
    (PL11)."""
    change = {"state": PlanState.UNDOING.value, "undo": list(steps)}
    answer = yield update_one(PLANS, _seen(plan), {"$set": change}, repeats=True)
    return bool(answer.matched_count)


def end(
    plan: PlanRecord, outcome: PlanState, retention: Retention, error: PlanError | None = None
) -> Operation[bool]:
    """To the outcome, by way of `closing` where there is a `finally` (PL14)."""
    seen = _seen(plan, rev=plan.rev) if plan.state is PlanState.RUNNING else _seen(plan)
    change: dict[str, Any] = {}
    if error is not None:
        told = {"$literal": error.to_document()}
        is_last = plan.state is PlanState.CLOSING  # what stopped the plan says more
        change["error"] = {"$ifNull": ["$error", told]} if is_last else told
    if plan.closing is not None and plan.state is not PlanState.CLOSING:
        change |= {"state": PlanState.CLOSING.value, "outcome": outcome.value}
    else:
        change |= {
            "state": outcome.value,
            "finished_at": "$$NOW",
            "expire_at": retention.expiry_of_plan(done=outcome is PlanState.DONE),
        }
    answer = yield update_one(PLANS, seen, [{"$set": change}], repeats=True)
    return bool(answer.matched_count)


def add_steps(plan: PlanRecord, by: str, steps: Mapping[str, Any]) -> Operation[bool]:
    """Merge the steps that a step's task added, once (PL13)."""
    unadded = {
        "_id": plan.id,
        "rev": plan.rev,
        "state": PlanState.RUNNING.value,
        "added": {"$ne": by},
    }
    change = {
        "$set": {f"steps.{name}": step for name, step in steps.items()},
        "$inc": {"rev": 1},
        "$push": {"added": by},
    }
    answer = yield update_one(PLANS, unadded, change)
    return bool(answer.matched_count)


def mark(plan: PlanRecord, marks: Mapping[str, int]) -> Operation[None]:
    """All items below these have ended well (PL7)."""
    change = {"$max": {f"marks.{step}": item for step, item in marks.items()}}
    yield update_one(PLANS, _seen(plan), change, repeats=True)


def keep_jobs(seq: int) -> Operation[None]:
    """No job of a plan goes before its plan does; an older node may have said otherwise (PL1)."""
    expiring = {"_id": all_of(seq), "expire_at": {"$exists": True}}
    yield update_many(
        JOBS, expiring, {"$unset": {"expire_at": ""}}, repeats=True, within=_WITHIN, hint="_id_"
    )
