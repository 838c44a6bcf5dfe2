"""Reads for the observer: the unfinished jobs and the newest, and how many there are. All bounded,
on indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bson import Timestamp

from ..errors import NotPermitted, StoreError, StoreUnavailable
from ..records.roster import Roster, place_among
from ..records.states import FINAL, JobState
from .call import Operation, command, count_documents, find
from .indexes import DUE_INDEX, OPEN_JOBS, RANKED_INDEX
from .names import JOBS

NEWEST = 5_000
OPEN_AT_MOST = 5_000
COUNTED_AT_MOST = 1_000_000
SPREAD_AT_MOST = 10_000
PAGE = 100
PASSED, PASSED_WITHIN = 500, 200_000
"""So many jobs that ended are read, among so many numbers before the first that waits: the last of
these are held by nodes that claim ahead."""
PROBES = 500
"""Numbers that are asked for first, evenly spread: nodes may hold more than a hundred thousand."""
_TASKS_AT_ONCE = 100

QUEUED, WORKING = JobState.QUEUED.value, JobState.WORKING.value

_SORTED = {
    "fresh": None,
    RANKED_INDEX: [("priority", -1), ("seq", 1)],
    DUE_INDEX: [("run_at", 1)],
    "held": None,
    "raw": None,
}
SLIM = {"args": 0, "result": 0, "errors": 0, "error.traceback": 0, "stages": 0, "saved": 0}


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server says of itself."""

    at: datetime
    replica_set: str
    primary: str
    time: tuple[int, int]
    """The newest operation time that a majority has; (0, 0) without a replica set."""


def greet() -> Operation[Greeting]:
    """Who answers, and when by its own clock."""
    answer = yield command({"hello": 1})
    local: datetime = answer["localTime"]
    written = (answer.get("lastWrite") or {}).get("majorityOpTime") or {}
    stamp = written.get("ts") if isinstance(written, Mapping) else None
    return Greeting(
        local if local.tzinfo else local.replace(tzinfo=UTC),
        str(answer.get("setName") or ""),
        str(answer.get("primary") or answer.get("me") or ""),
        (stamp.time, stamp.inc) if isinstance(stamp, Timestamp) else (0, 0),
    )


def read_window(
    tasks: Sequence[str], limit: int = OPEN_AT_MOST
) -> Operation[tuple[list[dict[str, Any]], bool, int]]:
    """Jobs without payload and result: their documents, whether all unfinished ones are among them,
    and the lowest number from which on all jobs are."""
    newest = yield find(
        JOBS, {"seq": {"$gte": 0}}, sort=[("seq", -1)], limit=NEWEST, projection=SLIM
    )
    known_from = int(newest[-1]["seq"]) if len(newest) == NEWEST else 0
    found = {_key(one): one for one in reversed(newest)}
    complete = True
    for index, where in OPEN_JOBS.items():
        some = yield from _open(index, where, tasks, limit)
        complete = complete and len(some) < limit
        # What was read later is newer.
        found |= {_key(one): one for one in some}
    if known_from and not any(one.get("state") in FINAL for one in newest):
        passed = yield from read_passed(_first_by_task(found.values(), tasks), SLIM)
        found = {_key(one): one for one in reversed(passed)} | found
    return list(found.values()), complete, known_from


def _first_by_task(documents: Iterable[Mapping[str, Any]], tasks: Sequence[str]) -> list[int]:
    first: dict[str, int] = {}
    for one in documents:
        task, seq = str(one.get("task")), one.get("seq")
        if one.get("state") == QUEUED and task in tasks and isinstance(seq, int):
            first[task] = min(seq, first.get(task, seq))
    return list(first.values())


def read_passed(
    waiting: Iterable[int], shown: Mapping[str, int], limit: int = PASSED
) -> Operation[list[dict[str, Any]]]:
    """Of a queue so long that the newest jobs all wait: those that ended last, which come before
    the first that wait. `waiting` are the first numbers that wait, by task."""
    first = max(waiting, default=0)
    lowest = max(0, first - PASSED_WITHIN)
    if (step := (first - lowest) // PROBES) > 1:
        last = yield from _ended({"$in": list(range(lowest, first, step))}, {"seq": 1}, 1)
        first = min(first, int(last[0]["seq"]) + step) if last else first
    return (yield from _ended({"$gte": lowest, "$lt": first}, shown, limit))


def _ended(
    seqs: Mapping[str, Any], shown: Mapping[str, int], limit: int
) -> Operation[list[dict[str, Any]]]:
    """The last of these numbers whose jobs have ended."""
    where = {"seq": seqs, "state": {"$in": [state.value for state in FINAL]}}
    options: dict[str, Any] = {"sort": [("seq", -1)], "limit": limit, "hint": "seq"}
    found: list[dict[str, Any]] = yield find(JOBS, where, projection=shown, **options)
    return found


def read_page(limit: int = PAGE) -> Operation[list[dict[str, Any]]]:
    """The newest jobs, however many there are.

    Not the oldest that wait: where jobs are claimed by the thousand, the server passes all that
    were claimed of late.
    """
    newest: list[dict[str, Any]] = yield find(
        JOBS, {"seq": {"$gte": 0}}, sort=[("seq", -1)], limit=limit, projection=SLIM, hint="seq"
    )
    return newest


def _open(
    index: str, where: Mapping[str, Any], tasks: Sequence[str], limit: int
) -> Operation[list[dict[str, Any]]]:
    options: dict[str, Any] = {"limit": limit, "projection": SLIM}
    if order := _SORTED[index]:
        return (yield from _first_of(index, where, order, tasks, options))
    found: list[dict[str, Any]] = yield from _hinted(where, index, options)
    if index == "fresh" and len(found) >= limit and tasks:
        # The oldest of every task that a node has: a long queue of one task must not hide the
        # others.
        known = {"task": {"$in": list(tasks)[:_TASKS_AT_ONCE]}}
        found += yield from _hinted({**where, **known}, index, {**options, "sort": [("seq", 1)]})
    return found


def _first_of(
    index: str,
    where: Mapping[str, Any],
    order: list[tuple[str, int]],
    tasks: Sequence[str],
    options: Mapping[str, Any],
) -> Operation[list[dict[str, Any]]]:
    """Those of the tasks that nodes have in an order that the index has for each of them, then
    others in any."""
    known = list(tasks)[:_TASKS_AT_ONCE]
    found: list[dict[str, Any]] = []
    if known:
        ordered = {**options, "sort": order}
        found = yield from _hinted({**where, "task": {"$in": known}}, index, ordered)
    if left := options["limit"] - len(found):
        others = {**where, "task": {"$nin": known}}
        found += yield from _hinted(others, index, {**options, "limit": left})
    return found


def _hinted(
    where: Mapping[str, Any], index: str, options: Mapping[str, Any]
) -> Operation[list[dict[str, Any]]]:
    """A read that uses an index; without that index it is made all the same."""
    found: list[dict[str, Any]]
    try:
        found = yield find(JOBS, where, hint=index, **options)
    except (NotPermitted, StoreUnavailable):
        raise
    except StoreError:
        found = yield find(JOBS, where, **options)
    return found


def _key(document: Mapping[str, Any]) -> str:
    return repr(document["_id"])


def count_open() -> Operation[dict[str, int]]:
    """How many jobs are queued and working, counted on the indexes: cheap, however many have
    ended."""
    counts = {QUEUED: 0, WORKING: 0}
    for index, where in OPEN_JOBS.items():
        state = WORKING if index == "held" else QUEUED
        counts[state] += yield from _count(where, index)
    return counts


def _count(where: Mapping[str, Any], index: str) -> Operation[int]:
    options: dict[str, Any] = {"limit": COUNTED_AT_MOST}
    try:
        return int((yield count_documents(JOBS, where, **{**options, "hint": index})))
    except (NotPermitted, StoreUnavailable):
        raise
    except StoreError:
        return int((yield count_documents(JOBS, where, **options)))


Spread = tuple[int, datetime | None]
"""How many jobs, and the time of the oldest."""


def spread(roster: Roster) -> Operation[tuple[dict[int, Spread], bool]]:
    """Fresh queued jobs by the rank of their owner (MS2); False when there are more than were
    counted.

    Where all members offer the same this is one call. Else the tasks are asked for first: how many
    divide the jobs of each is not the same.
    """
    size: Any = len(roster.members)
    if not roster.is_uniform:
        tasks = yield from _grouped({"task": "$task"}, {})
        size = _sizes(roster, {str(one["_id"].get("task")) for one in tasks})
    groups = yield from _grouped({"task": "$task", "at": {"$mod": ["$seq", size]}}, _OLDEST)
    found: dict[int, Spread] = {}
    for one in groups:
        ranks = roster.ranks_of(str(one["_id"].get("task")))
        rank = place_among(ranks, int(one["_id"]["at"] or 0))
        if rank is not None:
            found[rank] = _together(found.get(rank), (int(one["count"]), _aware(one["oldest"])))
    return found, sum(int(one["count"]) for one in groups) < SPREAD_AT_MOST


_OLDEST = {"oldest": {"$min": {"$ifNull": ["$run_at", "$created_at"]}}}


def _grouped(by: Mapping[str, Any], more: Mapping[str, Any]) -> Operation[list[dict[str, Any]]]:
    pipeline: list[dict[str, Any]] = [
        {"$match": OPEN_JOBS["fresh"]},
        {"$limit": SPREAD_AT_MOST},
        {"$group": {"_id": by, "count": {"$sum": 1}, **more}},
    ]
    # All groups in the first batch: by itself a server gives 101.
    whole = {"batchSize": SPREAD_AT_MOST}
    answer = yield command({"aggregate": JOBS, "pipeline": pipeline, "cursor": whole})
    groups: list[dict[str, Any]] = answer["cursor"]["firstBatch"]
    return groups


def _sizes(roster: Roster, tasks: Iterable[str]) -> dict[str, Any]:
    """How many divide the jobs of a task, for the server; what nobody serves is divided by one."""
    branches = [
        {"case": {"$in": ["$task", {"$literal": keys}]}, "then": len(ranks)}
        for ranks, keys in roster.lanes_of(sorted(tasks)).items()
    ]
    never: dict[str, Any] = {"case": False, "then": 1}  # a switch has branches
    return {"$switch": {"branches": [*branches, never], "default": 1}}


def _together(one: Spread | None, other: Spread) -> Spread:
    if one is None:
        return other
    dates = [date for date in (one[1], other[1]) if date is not None]
    return one[0] + other[0], min(dates, default=None)


def _aware(value: Any) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def states_of(seqs: Iterable[int]) -> Operation[dict[int, tuple[str, int]]]:
    """The state and attempt of jobs, by seq."""
    found = yield find(
        JOBS,
        {"seq": {"$in": list(seqs)}},
        projection={"_id": 0, "seq": 1, "state": 1, "attempt": 1},
        hint="seq",
    )
    return {int(one["seq"]): (str(one.get("state")), int(one.get("attempt") or 0)) for one in found}
