"""Reads for people: lists of jobs and nodes, counts, one job or node whole. Nothing is decided from
them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from bson import Timestamp

from ..errors import TontineError
from ..records.job import Job
from ..records.roster import Roster
from ..records.states import FINAL, JobState
from .call import COMMITTED, Operation, command, count_documents, find, find_one
from .counter import counted
from .indexes import DUE_INDEX, HELD, OPEN_JOBS, QUEUED, RANKED_INDEX, UNNUMBERED, all_of
from .names import BELL, CLUSTER, COUNTER, JOBS, NODES, ROSTER, SAMPLES
from .schema import COLLECTIONS
from .validators import VALIDATORS
from .which import read_job

T = TypeVar("T")

_FINAL = sorted(state.value for state in FINAL)

IS_DUE = {"$expr": {"$lte": [{"$ifNull": ["$run_at", "$created_at"]}, "$$NOW"]}}


def read_document(seq: int) -> Operation[dict[str, Any] | None]:
    """One job's document, whole."""
    document: dict[str, Any] | None = yield find_one(JOBS, {"seq": seq})
    return document


def read_nodes(*, dead: bool = True) -> Operation[list[dict[str, Any]]]:
    """The nodes' records, the living first, each with the server's `now`."""
    where = {} if dead else {"state": {"$ne": "dead"}}
    found = yield find(NODES, where, projection={"now": "$$NOW", "record": "$$ROOT"})
    nodes = [{**one["record"], "now": one["now"]} for one in found]
    return sorted(
        nodes, key=lambda node: (node.get("state") == "dead", str(node.get("name", node["_id"])))
    )


def read_names(ids: Iterable[Any]) -> Operation[dict[str, str]]:
    """The names of those of these nodes whose records are still there, by their ids."""
    if not (asked := [one for one in ids if isinstance(one, str)]):
        return {}
    found = yield find(NODES, {"_id": {"$in": asked}}, projection={"name": 1})
    return {str(one["_id"]): str(one.get("name") or one["_id"]) for one in found}


def read_namesakes(name: str) -> Operation[list[dict[str, Any]]]:
    """The records of nodes with that name or id, the living first, then the newest, each with the
    server's `now`."""
    where = {"$or": [{"_id": name}, {"name": name}]}
    found = yield find(
        NODES, where, projection={"now": "$$NOW", "record": "$$ROOT"}, sort=[("started_at", -1)]
    )
    nodes = [{**one["record"], "now": one["now"]} for one in found]
    return sorted(nodes, key=lambda node: node.get("state") == "dead")


def read_cluster() -> Operation[tuple[Roster, int]]:
    """The roster, and the last number given."""
    documents = yield find(CLUSTER, {"_id": {"$in": [ROSTER, COUNTER]}})
    by_id = {document["_id"]: document for document in documents}
    return Roster.from_document(by_id.get(ROSTER)), counted(by_id.get(COUNTER))


_COUNT_WITHIN = 60.0


def count_states(at: tuple[int, int] | None = None) -> Operation[dict[str, int]]:
    """How many jobs are in each state, now or at an operation time; raw ones count as queued."""
    counting: dict[str, Any] = {
        "aggregate": JOBS,
        "pipeline": [
            {
                "$group": {
                    "_id": {"$ifNull": ["$state", JobState.QUEUED.value]},
                    "count": {"$sum": 1},
                }
            }
        ],
        "cursor": {},
    }
    if at is not None:
        counting["readConcern"] = {"level": "snapshot", "atClusterTime": Timestamp(*at)}
    answer = yield command(counting, within=_COUNT_WITHIN)
    counts = dict.fromkeys((state.value for state in JobState), 0)
    for group in answer["cursor"]["firstBatch"]:
        counts[str(group["_id"])] = counts.get(str(group["_id"]), 0) + int(group["count"])
    return counts


def read_final(ids: Sequence[Any]) -> Operation[list[Job]]:
    """Those of the jobs that have ended, by `_id`."""
    found = yield find(JOBS, {"_id": {"$in": list(ids)}, "state": {"$in": _FINAL}})
    return [Job.from_document(document) for document in found]


def read_changed(seen: Job) -> Operation[Job | None]:
    """The job as it is now; None when it is still as it was `seen`, which costs no more than its
    few moving fields."""
    document = yield find_one(JOBS, {"_id": seen.id}, projection=_CHANGING)
    if document is not None and _moving(Job.from_document(document)) == _moving(seen):
        return None
    return (yield from read_job(seen))


_CHANGING = dict.fromkeys(
    ("seq", "state", "attempt", "fails", "lost", "cancel", "node", "progress", "run_at"), 1
)


def _moving(job: Job) -> tuple[Any, ...]:
    return tuple(getattr(job, name) for name in _CHANGING)


def hurried(steps: Operation[T], within: float) -> Operation[T]:
    """The same operation for somebody who waits: each call is made once, and all of them have
    `within` seconds."""
    until = time.monotonic() + within
    try:
        call = next(steps)
        while True:
            try:
                answer = yield replace(
                    call,
                    repeats=False,
                    within=max(0.001, min(call.within, until - time.monotonic())),
                )
            except TontineError as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def now() -> Operation[datetime]:
    """The server's own idea of now."""
    hello = yield command({"hello": 1})
    moment: datetime = hello["localTime"]
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_ended(
    first: int, last: int, limit: int, states: Iterable[str] = _FINAL
) -> Operation[list[dict[str, Any]]]:
    """The documents of jobs numbered `first` to `last` that ended in one of these states, in their
    order."""
    where = {"seq": {"$gte": first, "$lte": last}, "state": {"$in": list(states)}}
    found: list[dict[str, Any]] = yield find(JOBS, where, sort=[("seq", 1)], limit=limit)
    return found


def read_by_id(id: Any) -> Operation[dict[str, Any] | None]:
    """One job's document by its `_id`, numbered or not."""
    document: dict[str, Any] | None = yield find_one(JOBS, {"_id": id})
    return document


def count_between(first: int, last: int) -> Operation[dict[str, int]]:
    """How many of the jobs numbered `first` to `last` are in each state; those that were removed
    are in none. As all reads see them: who counts an end must find it when reading the job."""
    answer = yield command(
        {
            "aggregate": JOBS,
            "readConcern": COMMITTED.document,
            "pipeline": [
                {"$match": {"seq": {"$gte": first, "$lte": last}}},
                {"$group": {"_id": "$state", "count": {"$sum": 1}}},
            ],
            "cursor": {},
        }
    )
    return {str(group["_id"]): int(group["count"]) for group in answer["cursor"]["firstBatch"]}


def find_unnumbered(limit: int) -> Operation[list[Any]]:
    """The `_id`s of jobs that have no number yet, in the order of their arrival."""
    found = yield find(JOBS, UNNUMBERED, projection={"_id": 1}, sort=[("seq", 1)], limit=limit)
    return [one["_id"] for one in found]


def count_unknown(tasks: Sequence[str], limit: int) -> Operation[dict[str, int]]:
    """Queued, due jobs of other tasks than these, by task; the count stops at `limit`."""
    counts: Counter[str] = Counter()
    # One query for each index that holds queued jobs, so that none has to read all jobs.
    fresh, ranked, due = (OPEN_JOBS[index] for index in ("fresh", RANKED_INDEX, DUE_INDEX))
    for where in (fresh, ranked, due | {"$expr": {"$lte": ["$run_at", "$$NOW"]}}):
        others = where | {"task": {"$nin": list(tasks)}}
        found = yield find(JOBS, others, projection={"_id": 0, "task": 1}, limit=limit)
        counts.update(str(job.get("task")) for job in found)
    return counts


def read_layout() -> Operation[dict[str, set[str]]]:
    """The collections that are there, each with its indexes and whether its validator is the one it
    should have."""
    layout: dict[str, set[str]] = {}
    answer = yield command({"listCollections": 1, "filter": {"name": {"$in": list(COLLECTIONS)}}})
    for collection in answer["cursor"]["firstBatch"]:
        name = str(collection["name"])
        if name == SAMPLES:
            layout[name] = {"the time series"} if collection["type"] == "timeseries" else set()
            continue
        if name == BELL:
            layout[name] = (
                {"the capped collection"} if collection["options"].get("capped") else set()
            )
            continue
        indexes = yield command({"listIndexes": name})
        ours = {index["name"] for index in all_of(name)}
        layout[name] = {
            f"index {index['name']}"
            for index in indexes["cursor"]["firstBatch"]
            if index["name"] in ours
        }
        validator = VALIDATORS.get(name)
        if validator and collection.get("options", {}).get("validator") == validator:
            layout[name].add("the validator")
    return {name: layout[name] for name in COLLECTIONS if name in layout}


def count_where(first: int, last: int, where: Mapping[str, Any]) -> Operation[int]:
    """How many of the jobs numbered `first` to `last` meet a condition."""
    number: int = yield count_documents(JOBS, {"seq": {"$gte": first, "$lte": last}, **where})
    return number


def count_held() -> Operation[dict[str, int]]:
    """How many jobs each node holds."""
    found = yield find(
        JOBS,
        {"state": JobState.WORKING.value, "node": {"$gt": ""}},
        projection={"_id": 0, "node": 1},
    )
    return Counter(str(job["node"]) for job in found)


def count_unfinished(soon: float) -> Operation[int]:
    """How many jobs are raw, claimed, or queued and due within `soon` seconds."""
    due = {"$lte": [{"$ifNull": ["$run_at", "$$NOW"]}, {"$add": ["$$NOW", round(soon * 1000)]}]}
    unfinished: dict[str, Any] = {"$or": [UNNUMBERED, HELD, {"state": QUEUED, "$expr": due}]}
    return int((yield count_documents(JOBS, unfinished)))
