"""How plans stand: their jobs are counted by the server, however many a map has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ...errors import UnknownPlan
from ...records.job import is_whole
from ...records.plan import (
    CLOSING_STEP,
    TAKEN_AT_MOST,
    JobKind,
    PlanError,
    PlanPlace,
    PlanRecord,
    all_of,
    items_of,
)
from ...records.plan_status import JobCounts, PlanStatus, StepStatus, result_step
from ...records.states import JobState, PlanState
from ...rules.plan_graph import PlanGraph
from ..call import DECODED, Call, Operation, find, find_one
from ..indexes import NEW_PLANS, NUMBERED, OPEN_PLANS
from ..names import JOBS, PLANS
from .values import item_results

_COUNT_WITHIN = 60.0
_MESSAGE_KEPT = 500
_STATES = frozenset(state.value for state in JobState)
_TRY = {"$convert": {"input": "$plan.try", "to": "string", "onError": "", "onNull": ""}}
_CLOSING = {"$concat": [f"{CLOSING_STEP}/", _TRY]}
_FAILURE = {  # the last of them is the greatest: its moment comes first
    "at": "$finished_at",
    "step": "$plan.step",
    "item": "$plan.item",
    "seq": "$seq",
    "type": "$error.type",
    "message": {
        "$substrCP": [
            {"$convert": {"input": "$error.message", "to": "string", "onError": ""}},
            0,
            _MESSAGE_KEPT,
        ]
    },
}


def read_status(seq: int) -> Operation[PlanStatus]:
    """One plan by its number."""
    found = yield find_one(PLANS, {"seq": seq}, hint="seq")
    if found is None:
        raise UnknownPlan(f"there is no plan {seq}")
    return (yield from _status(PlanRecord.from_document(found)))


def read_status_by_id(id: Any, *, existed: bool = False) -> Operation[PlanStatus]:
    """One plan by its `_id`, accepted or not."""
    found = yield find_one(PLANS, {"_id": id})
    if found is None:
        raise UnknownPlan(f"there is no plan with the _id {id!r}: it was removed")
    return (yield from _status(PlanRecord.from_document(found), existed=existed))


def _status(plan: PlanRecord, *, existed: bool = False) -> Operation[PlanStatus]:
    counts = (yield from count_jobs(plan.seq)) if plan.seq is not None else {}
    result = yield from _result(plan)
    return PlanStatus.of(plan, counts, result, existed=existed)


def is_ended(id: Any) -> Operation[bool]:
    """Whether a plan has ended, or is gone: the cheap question of whoever waits."""
    found = yield find_one(PLANS, {"_id": id}, projection={"state": 1})
    open_states = (None, "running", "stopping", "undoing", "closing")
    return found is None or found.get("state") not in open_states


def count_jobs(seq: int) -> Operation[dict[tuple[str, str], JobCounts]]:
    """The jobs of a plan by kind and step; those of `finally` by their try, as in their `_id`."""
    step = {"$cond": [{"$eq": ["$plan.kind", "finally"]}, _CLOSING, "$plan.step"]}
    group = {
        "_id": {"kind": "$plan.kind", "step": step, "state": "$state"},
        "count": {"$sum": 1},
        "stopped": {"$sum": {"$cond": [{"$eq": ["$stopped", True]}, 1, 0]}},
        "started_at": {"$min": "$started_at"},
        "finished_at": {"$max": "$finished_at"},
        "failure": {"$max": {"$cond": [{"$eq": ["$state", "failed"]}, _FAILURE, None]}},
    }
    counting: dict[str, Any] = {
        "aggregate": JOBS,
        "pipeline": [{"$match": {"_id": all_of(seq)}}, {"$group": group}],
        "cursor": {"batchSize": 10_000},
        "hint": "_id_",
    }
    options = {"codec_options": DECODED}  # whatever a job has, it is read
    answer = yield Call("", "command", (counting,), options, repeats=True, within=_COUNT_WITHIN)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in answer["cursor"]["firstBatch"]:
        key = (str(one["_id"].get("kind")), str(one["_id"].get("step")))
        _add(found.setdefault(key, {}), one)
    return {key: JobCounts(**counts) for key, counts in found.items()}


def _add(counts: dict[str, Any], group: Mapping[str, Any]) -> None:
    state = str(group["_id"].get("state"))
    if state in _STATES:
        counts[state] = int(group["count"])
        if state in (JobState.FAILED, JobState.CANCELLED):
            counts["stopped"] = counts.get("stopped", 0) + int(group["stopped"])
        if state == JobState.FAILED:
            counts["failure"] = PlanError.from_document(group["failure"])
    for name, choose in (("started_at", min), ("finished_at", max)):
        moment = group.get(name)
        if isinstance(moment, datetime):
            before = counts.get(name)
            counts[name] = moment if before is None else choose(before, moment)


def _result(plan: PlanRecord) -> Operation[Any]:
    """The result of a plan that is done."""
    name = result_step(plan, PlanGraph(plan.steps).last)
    if plan.state is not PlanState.DONE or name is None or plan.seq is None:
        return None
    if not plan.steps[name].is_mapped:
        place = PlanPlace(plan.seq, name)
        found = yield find_one(JOBS, {"_id": place.id}, projection={"result": 1})
        return (found or {}).get("result")
    width = plan.widths.get(name, 0)
    if width > TAKEN_AT_MOST:
        return None  # more than anybody wants in one answer: its jobs have them
    items, end = yield from item_results(plan.seq, name, 0, width)
    if end < width:
        return None  # more than one answer of the server holds: a part of them would mislead
    return [items.get(item) for item in range(width)]


def list_plans(
    state: str | None = None, name: str | None = None, limit: int = 50
) -> Operation[list[PlanRecord]]:
    """Plans, the newest first; `new` are those that nobody has accepted."""
    where: dict[str, Any] = {} if name is None else {"name": name}
    if state == "new":
        found = yield find(PLANS, {**where, **NEW_PLANS}, limit=limit, hint="new")
        return [PlanRecord.from_document(one) for one in found]
    where |= NUMBERED
    if state is not None:
        where["state"] = state
    found = yield find(PLANS, where, sort=[("seq", -1)], limit=limit, hint="seq")
    return [PlanRecord.from_document(one) for one in found]


_HEAD = dict.fromkeys(
    ("seq", "state", "name", "key", "try", "error", "created_at", "finished_at"), 1
)


def list_heads(limit: int) -> Operation[list[Mapping[str, Any]]]:
    """Documents of plans without their steps: those that nobody has accepted, those that have yet
    to end, and the newest of all; each at most so many."""
    found: dict[str, Mapping[str, Any]] = {}
    down = [("seq", -1)]
    for where, sort, hint in (
        (NEW_PLANS, None, "new"),
        (NUMBERED, down, "seq"),
        (OPEN_PLANS, down, "open"),
    ):
        page = yield find(PLANS, where, sort=sort, limit=limit, projection=_HEAD, hint=hint)
        found |= {repr(one["_id"]): one for one in page}
    return list(found.values())


def read_counted(
    where: Mapping[str, Any],
) -> Operation[tuple[Mapping[str, Any], PlanRecord, PlanStatus] | None]:
    """One plan with its jobs counted, and without their results: its document, as it is, and what
    that means. None when there is no such plan."""
    found = yield find_one(PLANS, where)
    if found is None:
        return None
    plan = PlanRecord.from_document(found)
    counts = (yield from count_jobs(plan.seq)) if plan.seq is not None else {}
    return found, plan, PlanStatus.of(plan, counts)


def find_job(plan: int, step: StepStatus) -> Operation[int | None]:
    """The job of a step that one wants to see, by its number: of its undo before its own, one that
    failed before one that runs, waits, or is done. None where there is none."""
    both: list[tuple[JobKind, JobCounts | None]] = [("undo", step.undo), ("step", step.jobs)]
    for kind, jobs in both:
        if jobs is None or not jobs.all:
            continue
        if jobs.failure is not None and jobs.failure.seq is not None:
            return jobs.failure.seq
        state = "working" if jobs.working else "queued" if jobs.queued else None
        where: dict[str, Any] = {"_id": _ids(plan, step, kind)}
        if step.is_mapped and state:
            where["state"] = state
        newest = [("_id", -1)] if step.name == CLOSING_STEP else None
        found = yield find(JOBS, where, projection={"seq": 1}, sort=newest, limit=1, hint="_id_")
        if found and is_whole(found[0].get("seq")):
            return int(found[0]["seq"])
    return None


def _ids(plan: int, step: StepStatus, kind: JobKind) -> Any:
    if step.name == CLOSING_STEP:  # of any try
        return {"$gte": f"plan/{plan}/{CLOSING_STEP}/", "$lt": f"plan/{plan}/{CLOSING_STEP}0"}
    return (
        items_of(plan, step.name, kind) if step.is_mapped else PlanPlace(plan, step.name, kind).id
    )
