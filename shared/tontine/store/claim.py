"""(3) Claim: make jobs this node's, or lose the race quietly. The update's filter decides, never a
read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any

from bson import Timestamp
from pymongo import ReturnDocument

from ..errors import StoreUnavailable
from ..records.job import LAST_SEQ, SUSPECT, is_whole
from ..records.roster import Roster
from ..records.share import Share
from .call import Operation, find, find_one, find_one_and_update, find_some, update_many
from .counter import counted
from .inbox import is_open
from .indexes import DUE, FRESH, NUMBERED, QUEUED, RANKED, WORKING
from .names import CLUSTER, COUNTER, JOBS, ROSTER, SETTINGS
from .raw import Raw, Some
from .retention import Retention

_NO_NUMBER = "`seq` must be a whole number from 0 on"
_NO_DATE = "`run_at` must be a date"

# MongoDB merges at most 200 sorted index ranges; more tasks than this are asked for in parts.
_TASKS_AT_ONCE = 100

_COUNTED = ("seq", "attempt", "fails", "lost")
_SHOWN_TO_TASKS = ("args", "key", "meta", "created_at")
_FIELDS = dict.fromkeys(
    (
        *_COUNTED,
        *_SHOWN_TO_TASKS,
        "task",
        "priority",
        "max_attempts",
        "timeout",
        "run_at",
        "start_by",
        "plan",
    ),
    1,
)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What all nodes share: roster, last number given, how long finished jobs are kept, whether
    there is an inbox."""

    roster: Roster
    counter: int
    retention: Retention
    inbox: bool


def overview() -> Operation[ClusterState]:
    """The whole of `cluster`, in one read."""
    documents = yield find(CLUSTER, {"_id": {"$in": [ROSTER, COUNTER, SETTINGS]}})
    by_id = {document["_id"]: document for document in documents}
    return ClusterState(
        Roster.from_document(by_id.get(ROSTER)),
        counted(by_id.get(COUNTER)),
        Retention.from_document(by_id.get(SETTINGS)),
        is_open(by_id.get(SETTINGS)),
    )


def find_fresh(seqs: Iterable[int], tasks: Sequence[str]) -> Operation[Some]:
    """Which of these seqs are queued, never postponed, and of a task this node has (F4), the lowest
    first."""
    found: Some = yield find_some(
        JOBS,
        {**FRESH, "seq": {"$in": list(seqs)}, "task": {"$in": list(tasks)}},
        projection=_FIELDS,
        hint="seq",
        lean=True,
    )
    return found


def lowest_fresh(tasks: Sequence[str], start: int) -> Operation[int | None]:
    """The lowest queued seq from `start` on that was never postponed; skips any number of holes in
    one step."""
    lowest: list[int] = []
    for some in _parts(tasks):
        job = yield find_one(
            JOBS,
            {**FRESH, "task": {"$in": some}, "seq": _from(start)},
            projection={"_id": 0, "seq": 1},
            sort=[("seq", 1)],
            hint="fresh",
        )
        if job is not None:
            lowest.append(ceil(job["seq"]))
    return min(lowest, default=None)


def _from(start: int) -> dict[str, int]:
    """Numbers from `start` on, as far as numbers go."""
    return {"$gte": start, "$lt": LAST_SEQ}


def find_behind(share: Share, tasks: Sequence[str], end: int, limit: int) -> Operation[list[int]]:
    """Queued seqs of the share below `end`: what the cursor passed while it was not there yet (F5
    c)."""
    seqs: list[int] = []
    for some in _parts(tasks):
        jobs = yield find(
            JOBS,
            {**FRESH, "task": {"$in": some}, "seq": {"$lt": end, **share.query()}},
            projection={"_id": 0, "seq": 1},
            sort=[("seq", 1)],
            limit=limit,
            hint="fresh",
        )
        seqs += [int(job["seq"]) for job in jobs if is_whole(job["seq"])]
    return sorted(seqs)[:limit]


# BSON sorts by type first, so that what cannot be a number, a text or a date stands before or
# behind all that can; `true` is the last that comes before dates, and a timestamp the first after
# them.
_ODD: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("fresh", {**FRESH, "$expr": {"$lt": ["$task", ""]}}, "`task` must be a text"),
    ("fresh", {**FRESH, "$expr": {"$gte": ["$task", {"$literal": {}}]}}, "`task` must be a text"),
    (
        "due",
        {**DUE, "$expr": {"$and": [{"$gt": ["$run_at", None]}, {"$lte": ["$run_at", True]}]}},
        _NO_DATE,
    ),
    ("due", {**DUE, "$expr": {"$gte": ["$run_at", Timestamp(0, 0)]}}, _NO_DATE),
)


def find_odd(tasks: Sequence[str], limit: int) -> Operation[list[tuple[Raw, str]]]:
    """Queued jobs that no other look would ever come to, because of what somebody wrote there, and
    what that is."""
    looks = list(_ODD)
    for some in _parts(tasks):
        fresh = {**FRESH, "task": {"$in": some}}
        looks += [
            ("fresh", {**fresh, "$expr": {"$gte": ["$seq", LAST_SEQ]}}, _NO_NUMBER),
            ("fresh", {**fresh, "seq": {"$lt": 0}}, _NO_NUMBER),
        ]
    found: list[tuple[Raw, str]] = []
    for index, where, reason in looks:
        some_odd: Some = yield find_some(
            JOBS, where, projection={"_id": 1}, limit=limit, hint=index
        )
        found += [(job, reason) for job in some_odd]
    return found


def find_due(
    share: Share, tasks: Sequence[str], ahead: float, limit: int, *, suspects: bool = True
) -> Operation[Some]:
    """Postponed jobs of the share that are due within `ahead` seconds; `wait` says in how many ms
    (F5 a)."""
    soon = {"$add": ["$$NOW", round(ahead * 1000)]}
    found: Some = yield find_some(
        JOBS,
        {
            **DUE,
            "run_at": {"$type": "date"},
            "$expr": {"$lte": ["$run_at", soon]},
            "seq": share.query(),
            "task": {"$in": list(tasks)},
            **_unless(suspects),
        },
        projection={**_FIELDS, "wait": {"$subtract": ["$run_at", "$$NOW"]}},
        sort=[("run_at", 1)],
        limit=limit,
        hint="due",
        lean=True,
    )
    return found


def find_overdue(
    tasks: Sequence[str], age: float, limit: int, *, suspects: bool = True
) -> Operation[Some]:
    """The oldest postponed jobs of any share that have been due for more than `age` seconds
    (F6)."""
    found: Some = yield find_some(
        JOBS,
        {
            **DUE,
            "run_at": {"$type": "date"},
            "$expr": {"$lt": ["$run_at", _ago(age)]},
            **NUMBERED,
            "task": {"$in": list(tasks)},
            **_unless(suspects),
        },
        projection=_FIELDS,
        sort=[("run_at", 1)],
        limit=limit,
        hint="due",
        lean=True,
    )
    return found


def find_left(tasks: Sequence[str], age: float, limit: int) -> Operation[list[Raw]]:
    """The lowest fresh jobs of any share, as far as they were inserted more than `age` seconds ago
    (F6)."""
    found: list[Raw] = []
    for some in _parts(tasks):
        found += yield find_some(
            JOBS,
            {**FRESH, "task": {"$in": some}, **NUMBERED},
            projection={**_FIELDS, "late": {"$lt": ["$created_at", _ago(age)]}},
            sort=[("seq", 1)],
            limit=limit,
            hint="fresh",
            lean=True,
        )
    return [job for job in found if job["late"]]


def find_ranked(
    share: Share | None,
    tasks: Sequence[str],
    limit: int,
    *,
    low: bool = False,
    age: float = 0.0,
    suspects: bool = True,
) -> Operation[Some]:
    """Due jobs with a priority, the highest first, with or without the `low` ones below zero; of a
    share, or of all."""
    # Without a time of its own a job is due, whatever its `created_at` says; only helpers wait for
    # it to grow old.
    since = "$created_at" if age else datetime(1970, 1, 1, tzinfo=UTC)
    ranked: dict[str, Any] = {
        **RANKED,
        "priority": RANKED["priority"] if low else {"$gt": 0},
        "$expr": {"$lte": [{"$ifNull": ["$run_at", since]}, _ago(age)]},
        "task": {"$in": list(tasks)},
        **(NUMBERED if share is None else {"seq": share.query()}),
        **_unless(suspects),
    }
    found: Some = yield find_some(
        JOBS,
        ranked,
        projection=_FIELDS,
        sort=[("priority", -1), ("seq", 1)],
        limit=limit,
        hint="ranked",
        lean=True,
    )
    return found


def _unless(suspects: bool) -> dict[str, Any]:
    """Leave out jobs that may be poison, as long as they could not be claimed anyway (P2)."""
    return {} if suspects else {"lost": {"$lt": SUSPECT}}


def _ago(age: float) -> dict[str, Any]:
    return {"$subtract": ["$$NOW", round(age * 1000)]}


def claim(node: str, seqs: Sequence[int], attempt: int) -> Operation[set[int]]:
    """Claim queued jobs that were claimed `attempt` times before; the seqs that are this node's now
    (J1).

    An unknown outcome is read back; if that fails too, `StoreUnavailable` leaves them pending.
    """
    try:
        result = yield update_many(
            JOBS,
            {"seq": {"$in": list(seqs)}, "state": QUEUED, "attempt": attempt},
            {"$set": {"state": WORKING, "node": node, "attempt": attempt + 1}},
        )
        if result.modified_count == len(seqs):
            return set(seqs)
    except StoreUnavailable:
        pass
    return (yield from held(node, seqs, attempt + 1))


def claim_announced(node: str, seq: int, tasks: Sequence[str]) -> Operation[Raw | None]:
    """Claim a fresh job by its number alone; as it was before, or None if it is not there, or not
    for this node (J1).

    `StoreUnavailable` leaves it pending.
    """
    found: Raw | None = yield find_one_and_update(
        JOBS,
        {**FRESH, "seq": seq, "attempt": 0, "task": {"$in": list(tasks)}},
        {"$set": {"state": WORKING, "node": node, "attempt": 1}},
        projection=_FIELDS,
        return_document=ReturnDocument.BEFORE,
        raw=True,
        lean=True,
    )
    return found


def held(node: str, seqs: Sequence[int], attempt: int) -> Operation[set[int]]:
    """Which of these jobs are this node's, at this attempt."""
    found = yield find(
        JOBS,
        {"seq": {"$in": list(seqs)}, "state": WORKING, "node": node, "attempt": attempt},
        projection={"_id": 0, "seq": 1},
        hint="seq",
    )
    return {int(job["seq"]) for job in found}


def _parts(tasks: Sequence[str]) -> Iterator[list[str]]:
    return (
        list(tasks[start : start + _TASKS_AT_ONCE])
        for start in range(0, len(tasks), _TASKS_AT_ONCE)
    )
