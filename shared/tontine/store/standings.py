"""Reads for people: the schedules, what became of their last jobs, and what is odd about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from ..offers import Offers
from ..records.job import Job, is_text
from ..records.plan import PlanRecord
from ..records.schedule import Broken, LastRun, Schedule, Standing
from .call import Operation, find
from .names import JOBS, PLANS, SCHEDULES
from .read import read_nodes
from .schedules import read_schedules

Made = TypeVar("Made", Job, PlanRecord)

_SHOWN = {"seq": 1, "state": 1, "created_at": 1, "started_at": 1, "finished_at": 1}


def read_standings() -> Operation[list[Standing]]:
    """All schedules by name, with their last runs and what is odd about them."""
    judged = yield from read_schedules()
    around = Offers.of((yield from read_nodes(dead=False)))
    runs = yield from _read_runs([one for one in judged if isinstance(one, Schedule)])
    removed = yield find(
        SCHEDULES,
        {"removed": True, "_id": {"$in": sorted(around.schedules)}},
        projection={"_id": 1},
    )
    standings = [
        Standing(one.name, broken=one.why)
        if isinstance(one, Broken)
        else Standing(one.name, one, last=runs.get(one.name), warnings=around.warnings(one))
        for one in judged
    ]
    standings += [
        Standing(one["_id"], warnings=(around.still_declared(one["_id"]),), is_removed=True)
        for one in removed
    ]
    return sorted(standings, key=lambda one: one.name)


def _read_runs(schedules: Sequence[Schedule]) -> Operation[dict[str, LastRun]]:
    """What became of the last jobs, and plans, by the names of their schedules."""
    jobs = yield from _read_last(JOBS, [one for one in schedules if one.plan is None])
    plans = yield from _read_last(PLANS, [one for one in schedules if one.plan is not None])
    return {
        **{name: last_run(last, _made(Job, one)) for name, (last, one) in jobs.items()},
        **{name: last_run(last, _made(PlanRecord, one)) for name, (last, one) in plans.items()},
    }


def _read_last(
    collection: str, schedules: Sequence[Schedule]
) -> Operation[dict[str, tuple[str, Mapping[str, Any] | None]]]:
    """The `_id` of the last that each schedule inserted, and what is left of it."""
    wanted = {one.name: one.last_job for one in schedules if is_text(one.last_job)}
    if not wanted:
        return {}
    asked = {"_id": {"$in": sorted(set(wanted.values()))}}
    there = {one["_id"]: one for one in (yield find(collection, asked, projection=_SHOWN))}
    return {name: (last, there.get(last)) for name, last in wanted.items()}


def _made(kind: type[Made], document: Mapping[str, Any] | None) -> Made | None:
    return None if document is None else kind.from_document(document)


def last_run(id: str, last: Job | PlanRecord | None) -> LastRun:
    """What became of a job, or plan, that a schedule has inserted."""
    if last is None:
        return LastRun(id)
    started_at = last.started_at if isinstance(last, Job) else None
    moments = (last.finished_at, started_at, last.created_at)
    at = next((one for one in moments if isinstance(one, datetime)), None)
    return LastRun(id, last.seq, last.state, at)
