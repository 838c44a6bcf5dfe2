"""Removal: a plan whose time is over goes, its jobs first (PL16)."""

from __future__ import annotations

from ...records.plan import PlanRecord, all_of
from ...records.states import PLAN_MOVES, JobState, PlanState, sources
from ..call import Operation, delete_many, delete_one, find, find_one, update_one
from ..names import JOBS, PLANS

AT_ONCE = 100
_WITHIN = 600.0
_REMOVABLE = [*sources(PLAN_MOVES, PlanState.REMOVING), PlanState.REMOVING.value]


def find_expired(limit: int = AT_ONCE) -> Operation[list[PlanRecord]]:
    """Plans whose time is over, those that somebody has begun to remove included."""
    found = yield find(
        PLANS,
        {
            "expire_at": {"$exists": True, "$type": "date"},
            "$expr": {"$lte": ["$expire_at", "$$NOW"]},
            "state": {"$in": _REMOVABLE},
        },
        projection={"seq": 1, "state": 1, "try": 1},
        sort=[("expire_at", 1)],
        limit=limit,
        hint="expiry",
    )
    return [PlanRecord.from_document(one) for one in found]


def remove(plan: PlanRecord) -> Operation[bool]:
    """Remove a plan as it was seen, if none of its jobs is held by a node. If jobs went first, or
    by themselves, a retry would run steps again that are done."""
    if plan.seq is None or plan.state is None:
        return False
    jobs = {"_id": all_of(plan.seq)}
    working = {**jobs, "state": JobState.WORKING.value}
    if (yield find_one(JOBS, working, projection={"_id": 1}, hint="_id_")) is not None:
        return False
    seen = {"_id": plan.id, "state": plan.state.value, "try": plan.try_}
    if plan.state is not PlanState.REMOVING:
        removing = {"$set": {"state": PlanState.REMOVING.value}}
        answer = yield update_one(PLANS, seen, removing, repeats=True)
        if not answer.matched_count:
            found = yield find_one(PLANS, {"_id": plan.id}, projection={"state": 1})
            if found is None or found.get("state") != PlanState.REMOVING.value:
                return False  # somebody has retried it
    yield delete_many(JOBS, jobs, repeats=True, within=_WITHIN)
    # Only what is being removed: nothing leads out of that.
    yield delete_one(PLANS, {"_id": plan.id, "state": PlanState.REMOVING.value}, repeats=True)
    return True
