"""(3) Looks for fresh jobs: by number where a share is full of them, else by task. None of them
decides anything: the claim does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from ..records.job import LAST_SEQ, is_text, is_whole
from ..records.share import Part, Share, at_once
from .call import Operation, find, find_one, find_some
from .indexes import FRESH, NUMBERED, QUEUED
from .names import JOBS
from .raw import Raw, Some

# MongoDB merges at most 200 sorted index ranges; more task keys than this are asked for in parts.
KEYS_AT_ONCE = 100

_COUNTED = ("seq", "attempt", "fails", "lost")
_SHOWN_TO_TASKS = ("args", "key", "meta", "created_at")
FIELDS = dict.fromkeys(
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
"""What is asked of a job that may be claimed."""


def find_fresh(seqs: Iterable[int], tasks: Sequence[str]) -> Operation[Some]:
    """Which of these seqs are queued, never postponed, and of a task this node has (F4), the lowest
    first."""
    found: Some = yield find_some(
        JOBS,
        {**FRESH, "seq": {"$in": list(seqs)}, "task": {"$in": list(tasks)}},
        projection=FIELDS,
        hint="seq",
        lean=True,
    )
    return found


def find_sparse(parts: Sequence[Part], limit: int) -> Operation[Some]:
    """The lowest fresh jobs of these parts. Where most numbers of a share are jobs of others, to
    ask for the numbers would find next to nothing (MS4)."""
    found: list[Raw] = []
    known_to = float(LAST_SEQ)
    for some in at_once(parts, KEYS_AT_ONCE):
        answer: Some = yield find_some(
            JOBS,
            either([{**FRESH, **_of(part)} for part in some]),
            projection=FIELDS,
            sort=[("seq", 1)],
            limit=limit,
            hint="fresh",
            lean=True,
        )
        found += answer
        if answer.is_cut:  # what comes after the last of these was not looked at
            known_to = min(known_to, answer[-1]["seq"])
    merged = Some(sorted((job for job in found if job["seq"] <= known_to), key=_seq)[:limit])
    merged.is_cut = known_to < LAST_SEQ
    return merged


def _of(part: Part) -> dict[str, Any]:
    mine = part.share.query() if part.share is not None else {}
    return {"task": {"$in": list(part.keys)}, "seq": {**_from(part.start), **mine}}


def either(conditions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What any of these conditions says. Each is a whole one: the server compares every branch with
    what an index holds."""
    return dict(conditions[0]) if len(conditions) == 1 else {"$or": list(conditions)}


def _seq(job: Raw) -> Any:
    return job["seq"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is under a number: enough to tell whether it is to be claimed, and by whom."""

    task: str
    is_fresh: bool


def look_again(seqs: Iterable[int]) -> Operation[dict[int, Seen]]:
    """What there is under these numbers, whatever it is (MS5)."""
    found = yield find(
        JOBS,
        {"seq": {"$in": list(seqs)}},
        projection={"_id": 0, "seq": 1, "state": 1, "task": 1, "run_at": 1, "priority": 1},
        hint="seq",
    )
    return {int(job["seq"]): _seen(job) for job in found if is_whole(job["seq"])}


def _seen(job: dict[str, Any]) -> Seen:
    is_fresh = {"state": job.get("state"), "run_at": job.get("run_at")} == {
        "state": QUEUED,
        "run_at": None,
    }
    task = job.get("task")
    return Seen(task if is_text(task) else "", is_fresh and job.get("priority") is None)


def lowest_fresh(tasks: Sequence[str], start: int) -> Operation[int | None]:
    """The lowest queued seq from `start` on that was never postponed; skips any number of holes in
    one step."""
    lowest: list[int] = []
    for some in _some(tasks):
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
    for some in _some(tasks):
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


def find_left(tasks: Sequence[str], age: float, limit: int) -> Operation[list[Raw]]:
    """The lowest fresh jobs of any share, as far as they were inserted more than `age` seconds ago
    (F6)."""
    found: list[Raw] = []
    for some in _some(tasks):
        found += yield find_some(
            JOBS,
            {**FRESH, "task": {"$in": some}, **NUMBERED},
            projection={**FIELDS, "late": {"$lt": ["$created_at", ago(age)]}},
            sort=[("seq", 1)],
            limit=limit,
            hint="fresh",
            lean=True,
        )
    return [job for job in found if job["late"]]


def ago(age: float) -> dict[str, Any]:
    """The server's time so many seconds ago."""
    return {"$subtract": ["$$NOW", round(age * 1000)]}


def _some(tasks: Sequence[str]) -> list[list[str]]:
    return [
        list(tasks[start : start + KEYS_AT_ONCE]) for start in range(0, len(tasks), KEYS_AT_ONCE)
    ]
