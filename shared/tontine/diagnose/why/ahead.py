"""How many jobs of a share a node claims before a given one, counted on the indexes and only up to a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...records.job import Job
from ...records.share import Share
from ...records.states import JobState
from ...store.call import Call, Steps
from ...store.names import JOBS

_DUE = {"$expr": {"$lte": [{"$ifNull": ["$run_at", "$created_at"]}, "$$NOW"]}}


def count_ahead(job: Job, share: Share, tasks: Sequence[str], limit: int) -> Steps[tuple[int, int]]:
    """Jobs before this due one, and how many of them because of their priority. Each stops at one above the limit."""
    ranked = yield from _count("ranked", _higher(job), share, tasks, limit)
    ahead = ranked
    for index, where in _older(job):
        ahead += yield from _count(index, where, share, tasks, limit)
    return min(ahead, limit + 1), ranked


def _count(index: str, where: Mapping[str, Any], share: Share, tasks: Sequence[str], limit: int) -> Steps[int]:
    seq = {**where.get("seq", {}), **share.query()}
    matching = {**where, "state": JobState.QUEUED.value, "task": {"$in": list(tasks)}, "seq": seq}
    number: int = yield Call(
        JOBS, "count_documents", (matching,), {"limit": limit + 1, "hint": index}, repeats=True, within=30
    )
    return number


def _higher(job: Job) -> dict[str, Any]:
    """Jobs that a node looks for first: of a priority above zero, and above this job's own."""
    return {"priority": {"$gt": max(0, job.priority)}, **_DUE}


def _older(job: Job) -> list[tuple[str, dict[str, Any]]]:
    """The rest, in the order of the claim loop: equals by number, then postponed jobs, fresh ones, low ones."""
    fresh = {"run_at": None, "priority": None}
    if job.priority > 0:
        return [("ranked", {"priority": job.priority, "seq": {"$lt": job.seq}, **_DUE})]
    if job.run_at is not None:
        equals = {"run_at": job.run_at, "seq": {"$lt": job.seq}}  # such as those given back together
        return [("due", {"run_at": {"$type": "date", "$lt": job.run_at}}), ("due", equals)]
    due = ("due", {"run_at": {"$type": "date"}, "$expr": {"$lte": ["$run_at", "$$NOW"]}})
    if job.priority == 0:
        return [due, ("fresh", {**fresh, "seq": {"$lt": job.seq}})]
    low: list[tuple[str, dict[str, Any]]] = [
        ("ranked", {"priority": {"$gt": job.priority, "$lt": 0}, "run_at": None}),
        ("ranked", {"priority": job.priority, "run_at": None, "seq": {"$lt": job.seq}}),
    ]
    return [due, ("fresh", fresh), *low]
