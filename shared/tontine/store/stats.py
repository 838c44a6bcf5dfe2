"""Reads for `tontine stats` and `tontine metrics`: sums that nodes tell, sums that jobs have, and
how many jobs wait."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..records.counted import Stat, counts_in
from ..records.node import Sighting
from ..records.roster import Roster
from ..records.states import JobState
from ..records.task_key import name_of
from ..rules.health import known_tasks
from .call import Operation, command, find_one
from .indexes import DUE_INDEX, OPEN_JOBS, RANKED_INDEX
from .names import CLUSTER, JOBS, ROSTER
from .read import count_unknown, read_nodes
from .task_name import TASK_NAME

COUNTED_TO = 10_000
_TASKS_AT_ONCE = 100
_ALL = 100_000
_EXACT_WITHIN = 300.0

_FINITE = {"$type": ["int", "long", "double"], "$gte": -1e300, "$lte": 1e300}


def sum_counts(
    task: str | None = None, nodes: Collection[str] | None = None
) -> Operation[list[Stat]]:
    """What done jobs say that they have counted, by task and name. It reads all jobs."""
    where: dict[str, Any] = {"state": JobState.DONE.value, "counts": {"$type": "object"}}
    if task is not None:
        where["task"] = {"$regex": rf"^{_pattern(task)}(@|\z)"}
    if nodes is not None:
        where["node"] = {"$in": list(nodes)}
    pipeline: list[dict[str, Any]] = [
        {"$match": where},
        {"$project": {"_id": 0, "task": TASK_NAME, "counts": {"$objectToArray": "$counts"}}},
        {"$unwind": "$counts"},
        {"$match": {"counts.v": _FINITE}},
        {
            "$group": {
                "_id": {"task": "$task", "name": "$counts.k"},
                "count": {"$sum": "$counts.v"},
            }
        },
        {"$sort": {"_id.task": 1, "_id.name": 1}},
    ]
    answer = yield command(
        {"aggregate": JOBS, "pipeline": pipeline, "cursor": {"batchSize": _ALL}},
        within=_EXACT_WITHIN,
    )
    return [stat for one in answer["cursor"]["firstBatch"] for stat in _stat(one)]


def _stat(group: Mapping[str, Any]) -> Iterator[Stat]:
    task, name = str(group["_id"]["task"]), str(group["_id"]["name"])
    for value in counts_in({name: group["count"]}).values():
        yield Stat(task, name, value)


def _pattern(task: str) -> str:
    return "[^@]*".join(re.escape(part) for part in task.split("*"))


@dataclass(frozen=True, slots=True)
class Picture:
    """The whole cluster at one moment, as its records tell."""

    records: list[dict[str, Any]]
    epoch: int
    queued: Mapping[str, int]
    """How many jobs of a task wait; the count stops at `COUNTED_TO`."""


def picture() -> Operation[Picture]:
    """Read all that is served to Prometheus."""
    records = yield from read_nodes()
    roster = Roster.from_document((yield find_one(CLUSTER, {"_id": ROSTER})))
    tasks = sorted(known_tasks(map(Sighting.from_document, records)))
    queued = yield from count_queued(tasks)
    return Picture(records, roster.epoch, queued)


def count_queued(tasks: Collection[str]) -> Operation[dict[str, int]]:
    """How many jobs wait, by task: of these, and of any other that is asked for; each counted to
    `COUNTED_TO`."""
    counts: Counter[str] = Counter(dict.fromkeys(tasks, 0))
    several = list(tasks)
    for start in range(0, len(several), _TASKS_AT_ONCE):
        counts.update((yield from _count_each(several[start : start + _TASKS_AT_ONCE])))
    for task, count in (yield from count_unknown(several, COUNTED_TO)).items():
        counts[name_of(task)] += count
    return {task: min(count, COUNTED_TO) for task, count in counts.items()}


def _count_each(tasks: Collection[str]) -> Operation[dict[str, int]]:
    """In one call: a part for each task and each index that holds queued jobs, so that none reads
    more than it counts."""
    parts = [
        [
            {"$match": {**OPEN_JOBS[index], "task": task}},
            {"$limit": COUNTED_TO},
            {"$group": {"_id": {"$literal": task}, "count": {"$sum": 1}}},
        ]
        for task in tasks
        for index in ("fresh", RANKED_INDEX, DUE_INDEX)
    ]
    first, *others = parts
    pipeline = [*first, *({"$unionWith": {"coll": JOBS, "pipeline": one}} for one in others)]
    answer = yield command({"aggregate": JOBS, "pipeline": pipeline, "cursor": {"batchSize": _ALL}})
    counts: Counter[str] = Counter()
    for one in answer["cursor"]["firstBatch"]:
        counts[str(one["_id"])] += int(one["count"])
    return counts
