"""Reads for people: the schedules, what became of their last jobs, and what is odd about them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..offers import Offers
from ..records.job import Job, is_text
from ..records.schedule import Broken, LastRun, Schedule, Standing
from .call import Operation, find
from .names import JOBS, SCHEDULES
from .read import read_nodes
from .schedules import read_schedules


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
    """What became of the last jobs, by the names of their schedules."""
    wanted = {one.name: one.last_job for one in schedules if is_text(one.last_job)}
    if not wanted:
        return {}
    shown = {"seq": 1, "state": 1, "created_at": 1, "started_at": 1, "finished_at": 1}
    found = yield find(JOBS, {"_id": {"$in": sorted(set(wanted.values()))}}, projection=shown)
    jobs = {one["_id"]: Job.from_document(one) for one in found}
    return {name: last_run(job, jobs.get(job)) for name, job in wanted.items()}


def last_run(id: str, job: Job | None) -> LastRun:
    """What became of a job that a schedule has inserted."""
    if job is None:
        return LastRun(id)
    moments = (job.finished_at, job.started_at, job.created_at)
    at = next((one for one in moments if isinstance(one, datetime)), None)
    return LastRun(id, job.seq, job.state, at)
