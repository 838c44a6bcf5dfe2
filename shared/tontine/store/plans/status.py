"""How plans stand: their jobs are counted by the server, however many a map has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import UnknownPlan
from ...records.plan import TAKEN_AT_MOST, PlanPlace, PlanRecord, all_of
from ...records.plan_status import JobCounts, PlanStatus, result_step
from ...records.states import JobState, PlanState
from ...rules.plan_graph import PlanGraph
from ..call import Operation, command, find, find_one
from ..indexes import NEW_PLANS, NUMBERED
from ..names import JOBS, PLANS
from .values import item_results

_COUNT_WITHIN = 60.0
_STATES = frozenset(state.value for state in JobState)


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
    """The jobs of a plan by kind and step."""
    group = {
        "_id": {"kind": "$plan.kind", "step": "$plan.step", "state": "$state"},
        "count": {"$sum": 1},
        "stopped": {"$sum": {"$cond": [{"$eq": ["$stopped", True]}, 1, 0]}},
        "started_at": {"$min": "$started_at"},
        "finished_at": {"$max": "$finished_at"},
    }
    counting: dict[str, Any] = {
        "aggregate": JOBS,
        "pipeline": [{"$match": {"_id": all_of(seq)}}, {"$group": group}],
        "cursor": {"batchSize": 10_000},
        "hint": "_id_",
    }
    answer = yield command(counting, within=_COUNT_WITHIN)
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
    for name, choose in (("started_at", min), ("finished_at", max)):
        moment = group.get(name)
        if moment is not None:
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
    items, _ = yield from item_results(plan.seq, name, 0, width)
    return [items.get(item) for item in range(width)]


def list_plans(
    state: str | None = None, name: str | None = None, limit: int = 50
) -> Operation[list[PlanRecord]]:
    """Plans, the newest first; `new` are those that nobody has accepted."""
    if state == "new":
        found = yield find(PLANS, NEW_PLANS, limit=limit, hint="new")
        return [PlanRecord.from_document(one) for one in found]
    where: dict[str, Any] = dict(NUMBERED)
    if state is not None:
        where["state"] = state
    if name is not None:
        where["name"] = name
    found = yield find(PLANS, where, sort=[("seq", -1)], limit=limit, hint="seq")
    return [PlanRecord.from_document(one) for one in found]
