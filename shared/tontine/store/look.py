"""Reads for people: lists of jobs and nodes, counts, one job or node whole. Nothing is decided from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..job import Job
from ..roster import Roster
from ..states import FINAL, JobState
from .call import Call, Steps, command, find, find_one
from .schema import CLUSTER, COUNTER, JOBS, NODES, ROSTER

_FINAL = sorted(state.value for state in FINAL)


def read_document(seq: int) -> Steps[dict[str, Any] | None]:
    """One job's document, whole."""
    document: dict[str, Any] | None = yield find_one(JOBS, {"seq": seq}, hint="seq")
    return document


def read_jobs(state: JobState | None, task: str | None, limit: int) -> Steps[list[Job]]:
    """The newest jobs, newest first."""
    filter: dict[str, Any] = {"seq": {"$exists": True}}
    if state is not None:
        filter["state"] = state.value
    if task is not None:
        filter["task"] = task
    found = yield find(JOBS, filter, sort=[("seq", -1)], limit=limit, projection={"result": 0, "errors": 0})
    return [Job.from_document(document) for document in found]


def read_nodes(*, dead: bool = True) -> Steps[list[dict[str, Any]]]:
    """The nodes' records, the living first, each with `beat_age`-free raw values and the server's `now`."""
    filter = {} if dead else {"state": {"$ne": "dead"}}
    found = yield find(NODES, filter, projection={"now": "$$NOW", "record": "$$ROOT"})
    nodes = [{**one["record"], "now": one["now"]} for one in found]
    return sorted(nodes, key=lambda node: (node["state"] == "dead", str(node.get("name", node["_id"]))))


def read_cluster() -> Steps[tuple[Roster, int]]:
    """The roster, and the last number given."""
    documents = yield find(CLUSTER, {"_id": {"$in": [ROSTER, COUNTER]}})
    by_id = {document["_id"]: document for document in documents}
    return Roster.from_document(by_id.get(ROSTER)), int(by_id.get(COUNTER, {}).get("seq", 0))


def count_states() -> Steps[dict[str, int]]:
    """How many jobs are in each state; raw ones count as queued."""
    answer = yield command(
        {
            "aggregate": JOBS,
            "pipeline": [{"$group": {"_id": {"$ifNull": ["$state", JobState.QUEUED.value]}, "count": {"$sum": 1}}}],
            "cursor": {},
        }
    )
    counts = dict.fromkeys((state.value for state in JobState), 0)
    for group in answer["cursor"]["firstBatch"]:
        counts[str(group["_id"])] = counts.get(str(group["_id"]), 0) + int(group["count"])
    return counts


def read_final(ids: Sequence[Any]) -> Steps[list[Job]]:
    """Those of the jobs that have ended, by `_id`."""
    found = yield find(JOBS, {"_id": {"$in": list(ids)}, "state": {"$in": _FINAL}})
    return [Job.from_document(document) for document in found]


def count_final(first: int, last: int) -> Steps[dict[str, int]]:
    """How many of the jobs numbered `first` to `last` have ended, by state."""
    match = {"seq": {"$gte": first, "$lte": last}, "state": {"$in": _FINAL}}
    answer = yield command(
        {
            "aggregate": JOBS,
            "pipeline": [{"$match": match}, {"$group": {"_id": "$state", "count": {"$sum": 1}}}],
            "cursor": {},
            "hint": "seq",
        }
    )
    return {str(group["_id"]): int(group["count"]) for group in answer["cursor"]["firstBatch"]}


def server_time() -> Call:
    """The server's own idea of now, in its hello."""
    return command({"hello": 1})
