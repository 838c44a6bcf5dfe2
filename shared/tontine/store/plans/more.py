"""Steps that a task has added to its plan: read from its job, judged, and named after its step
(PL13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from ...records.plan import LARGEST_PLAN, PlanPlace, PlanRecord
from ...rules.plan_added import added, too_many
from ...rules.plan_check import more_problem
from ..call import DECODED, Operation, find_one
from ..names import JOBS, PLANS
from .values import InvalidStep


def read_more(plan: PlanRecord, by: str) -> Operation[dict[str, Any]]:
    """The steps that a step's task has added, as they go into the plan."""
    place = PlanPlace(plan.seq or 0, by)
    found = yield find_one(JOBS, {"_id": place.id}, projection={"more": 1})
    steps: Any = (found or {}).get("more")
    if reason := more_problem(steps):
        raise InvalidStep(f"the steps that it adds cannot be: {reason}", by)
    if reason := too_many(len(plan.steps), len(steps)):
        raise InvalidStep(reason, by)
    more = added(steps, by)
    whole = yield find_one(PLANS, {"_id": plan.id}, projection={"size": {"$bsonSize": "$$ROOT"}})
    if int((whole or {}).get("size", 0)) + _size(more) > LARGEST_PLAN:
        raise InvalidStep("it adds steps that make the plan larger than 1 MB", by)
    return more


def has_more(result: bytes) -> bool:
    """Whether steps came with a task's result, as its worker encoded both."""
    return b"m\0" in result and "m" in RawBSONDocument(result)


def _size(steps: Mapping[str, Any]) -> int:
    return len(bson.encode(steps, codec_options=DECODED))
