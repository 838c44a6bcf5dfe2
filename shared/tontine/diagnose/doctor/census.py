"""Reads for `tontine doctor` about the queue: its collections, its jobs, its nodes. All bounded, on indexes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bson import ObjectId

from ...records.node import Sighting
from ...records.states import FINAL, JobState
from ...store import schema
from ...store.call import Call, Steps, find, find_one
from ...store.names import JOBS
from ...store.read import count_held, find_unnumbered, now, read_cluster, read_namesakes, read_nodes, tasks_of
from ...store.retention import read_retention
from .backlog import Kept, Raw, Recent, Unclaimable, Version
from .nodes import Look

NEWEST = 10_000
COUNTED_AT_MOST = 1_000_000
TASKS_AT_MOST = 200
RAW_AT_MOST = 1000

_QUEUED = JobState.QUEUED.value
_DUE = {"$expr": {"$lte": [{"$ifNull": ["$run_at", "$created_at"]}, "$$NOW"]}}

# Every job that has not ended is in one of these indexes.
_OPEN: dict[str, dict[str, Any]] = {
    "fresh": {"state": _QUEUED, "run_at": None, "priority": None, "seq": {"$gte": 0}},
    "ranked": {"state": _QUEUED, "run_at": None, "priority": {"$type": "number"}},
    "due": {"state": _QUEUED, "run_at": {"$type": "date"}},
    "held": {"state": JobState.WORKING.value},
    "raw": {"seq": None},
}


def index_faults() -> Steps[list[str]]:
    """Indexes that are missing, there under their name and not as they should be, or no longer wanted."""
    return (yield from schema.index_faults())


def validator_faults() -> Steps[list[str]]:
    """Collections whose validator is missing or not the one it should be."""
    return [fault for fault in (yield from schema.collection_faults()) if fault.endswith("another validator")]


def version() -> Steps[Version]:
    """The schema's version, and the one that this software knows."""
    return Version((yield from schema.read_version()), schema.VERSION)


def kept() -> Steps[Kept]:
    """Retention, and about how many jobs have ended: all but those that an index says are open."""
    retention = yield from read_retention()
    total: int = yield Call(JOBS, "estimated_document_count", repeats=True)
    open_jobs = 0
    for index, where in _OPEN.items():
        options = {"hint": index, "limit": COUNTED_AT_MOST}
        open_jobs += yield Call(JOBS, "count_documents", (where,), options, repeats=True, within=30)
    return Kept(retention.done, retention.failed, max(0, total - open_jobs))


def unclaimable() -> Steps[Unclaimable]:
    """Jobs that are due, of tasks that no live node has."""
    nodes = yield from read_nodes(dead=False)
    known = frozenset(tasks_of(nodes))
    waiting = yield from _fresh_but(known)
    for index in ("due", "ranked"):
        found = yield find(JOBS, {**_OPEN[index], **_DUE}, hint=index, limit=NEWEST, projection={"_id": 0, "task": 1})
        waiting.update(str(job.get("task")) for job in found if job.get("task") not in known)
    return Unclaimable(waiting, known, NEWEST)


def _fresh_but(known: frozenset[str]) -> Steps[Counter[str]]:
    """Walks from task to task in the index, however many jobs are queued of each."""
    waiting: Counter[str] = Counter()
    fresh, last = _OPEN["fresh"], ""
    for _ in range(TASKS_AT_MOST):
        where = {**fresh, "task": {"$gt": last}}
        found = yield find_one(JOBS, where, sort=[("task", 1)], hint="fresh", projection={"task": 1})
        if found is None:
            break
        last = str(found["task"])
        if last not in known:
            options = {"hint": "fresh", "limit": NEWEST + 1}
            waiting[last] = yield Call(JOBS, "count_documents", ({**fresh, "task": last},), options, repeats=True)
    return waiting


def recent() -> Steps[Recent]:
    """How the newest jobs ended."""
    found = yield find(
        JOBS, {"seq": {"$gte": 0}}, sort=[("seq", -1)], limit=NEWEST, hint="seq", projection={"_id": 0, "state": 1}
    )
    states = [one.get("state") for one in found]
    return Recent(len(states), states.count(JobState.FAILED.value), sum(state in FINAL for state in states))


def look_at(name: str) -> Steps[Look]:
    """Only the nodes with that name or id, and the roster: what a probe of one node costs."""
    nodes = yield from read_namesakes(name)
    roster, _ = yield from read_cluster()
    moment = nodes[0]["now"] if nodes else (yield from now())
    return Look(moment, tuple(map(Sighting.from_document, nodes)), roster, {}, Raw((), None, moment))


def look() -> Steps[Look]:
    """The nodes, the roster, who holds what, and the jobs without a number."""
    moment = yield from now()
    nodes = yield from read_nodes()
    roster, _ = yield from read_cluster()
    held = yield from count_held()
    raw = yield from find_unnumbered(RAW_AT_MOST)
    times = [one.generation_time for one in raw if isinstance(one, ObjectId)]
    seen = Raw(tuple(map(repr, raw)), min(times, default=None), moment)
    return Look(moment, tuple(map(Sighting.from_document, nodes)), roster, held, seen)
