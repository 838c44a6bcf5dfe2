"""Reads for lists beside the jobs: what failed, newest first, and how many of each task are queued.
All bounded, on indexes."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from ..errors import NotPermitted, StoreError, StoreUnavailable
from .call import Operation, command, count_documents, find
from .find import hinted
from .indexes import DUE_INDEX, OPEN_JOBS, RANKED_INDEX, UNSUCCESSFUL
from .names import JOBS

FAILED_AT_ONCE = 1_000
QUEUED_AT_MOST = 100_000
WAITING_AT_MOST = 1_000
_FAILED = {
    "_id": 0,
    "seq": 1,
    "task": 1,
    "finished_at": 1,
    "error.type": 1,
    "error.message": {"$substrCP": [{"$toString": {"$ifNull": ["$error.message", ""]}}, 0, 300]},
}


def read_failed(
    since: datetime, until: datetime, limit: int = FAILED_AT_ONCE
) -> Operation[list[dict[str, Any]]]:
    """Jobs that failed between two moments, the newest first."""
    where = {**UNSUCCESSFUL, "finished_at": {"$gte": since, "$lt": until}}
    where = {"$and": [where, {"state": "failed"}]}
    found: list[dict[str, Any]] = yield from hinted(
        find(JOBS, where, sort=[("finished_at", -1)], limit=limit, projection=_FAILED),
        "unsuccessful",
    )
    return found


def count_queued() -> Operation[tuple[dict[str, int], bool]]:
    """How many jobs of each task are queued, and whether these are all."""
    counts: Counter[str] = Counter()
    is_all = True
    for index in ("fresh", RANKED_INDEX, DUE_INDEX):
        pipeline: list[dict[str, Any]] = [
            {"$match": OPEN_JOBS[index]},
            {"$limit": QUEUED_AT_MOST},
            {"$group": {"_id": "$task", "count": {"$sum": 1}}},
        ]
        counting = {"aggregate": JOBS, "pipeline": pipeline, "cursor": {"batchSize": 1000}}
        try:
            answer = yield command({**counting, "hint": index})
        except (NotPermitted, StoreUnavailable):
            raise
        except StoreError:  # there is no such index yet
            answer = yield command(counting)
        found = {str(one["_id"]): int(one["count"]) for one in answer["cursor"]["firstBatch"]}
        is_all = is_all and sum(found.values()) < QUEUED_AT_MOST
        counts.update(found)
    return dict(counts), is_all


def count_waiting(key: str) -> Operation[int]:
    """How many jobs of one task key are queued, up to `WAITING_AT_MOST`."""
    waiting = 0
    for index in ("fresh", RANKED_INDEX, DUE_INDEX):
        where = {"task": key, **OPEN_JOBS[index]}
        limit = WAITING_AT_MOST - waiting
        waiting += yield from hinted(count_documents(JOBS, where, limit=limit), index)
        if waiting >= WAITING_AT_MOST:
            break
    return waiting
