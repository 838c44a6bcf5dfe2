"""Task keys with a range that may be queued: whoever adds jobs of one notes it first, and nodes
offer those that their versions satisfy (MV2).

A note that got lost costs a minute: members walk through the queue and put it right (MV3).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..clock import Clock, SystemClock
from ..errors import ConfigError, DuplicateKey, StoreError
from ..records.job import is_text
from ..records.task_key import canonical, has_range, unreadable, with_range
from .bell import ring
from .call import Operation, find_one, update_one
from .indexes import DUE, DUE_INDEX, FRESH, RANKED, RANKED_INDEX, tells_of_missing
from .names import CLUSTER, JOBS, RANGES

AT_MOST = 64
KEPT_FOR = 3600.0
"""Seconds after which a key is forgotten that no queued job has."""
DISTINCT_AT_MOST = 10_000
REMEMBERED_FOR = 60.0
"""Seconds for which who noted a key need not look again: what is removed meanwhile, a walk puts
back within about as long."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """What the document says, as far as it says anything."""

    keys: frozenset[str] = frozenset()
    checked_at: datetime | None = None
    is_there: bool = False
    """Whether anybody has ever asked for a range."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Ranges:
        if document is None:
            return cls()
        at, tasks = document.get("checked_at"), document.get("tasks")
        said = [one.get("key") for one in _listed(tasks) if isinstance(one, Mapping)]
        keys = {key for key in said if is_text(key) and has_range(key) and not unreadable(key)}
        return cls(frozenset(keys), at if isinstance(at, datetime) else None, True)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def key_of(task: str, version: str | None = None) -> str:
    """The task key that somebody asks for with a task and perhaps a range of versions, in the form
    that all clients write; `ConfigError` when the range is none."""
    if not is_text(task) or (version is None and not has_range(task)):
        return task
    if version is not None and has_range(task):
        raise ConfigError(f"{task!r} has a range of versions already: give `version`, or that")
    if version is not None and not is_text(version):
        raise ConfigError(f"`version` must be a text like >=1.2,<2, not {type(version).__name__}")
    try:
        return canonical(task) if version is None else with_range(task, version)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def read_ranges() -> Operation[Ranges]:
    """What may be queued, as it is noted now."""
    return Ranges.from_document((yield find_one(CLUSTER, {"_id": RANGES})))


_NOT_FULL = {f"tasks.{AT_MOST - 1}": {"$exists": False}}


class Noted:
    """Keys that a producer of single jobs knows to be noted, so that it need not ask each time."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._at: dict[str, float] = {}

    def has(self, task: str) -> bool:
        """Whether it was noted less than a minute ago."""
        at = self._at.get(task)
        return at is not None and self._clock.now() - at < REMEMBERED_FOR

    def add(self, task: str) -> None:
        """It is noted."""
        if len(self._at) >= AT_MOST:
            self._at.clear()
        self._at[task] = self._clock.now()


def expect(task: str, noted: Noted | None = None) -> Operation[None]:
    """Note a key with a range before jobs of it are added; `ConfigError` when there are too many.
    Plain tasks need no note."""
    if not has_range(task) or (noted is not None and noted.has(task)):
        return
    if not (yield from _add(task, _NOT_FULL)):
        ranges = Ranges.from_document((yield find_one(CLUSTER, {"_id": RANGES})))
        if task not in ranges.keys:
            in_use = ", ".join(sorted(ranges.keys))
            raise ConfigError(
                f"there are {AT_MOST} ranges of versions in use, and that is the most: use one of "
                f"them, or wait until one has not been in the queue for an hour: {in_use}"
            )
    if noted is not None:
        noted.add(task)


def expect_all(tasks: Iterable[Any]) -> Operation[None]:
    """Note what somebody else has added already, however many there are."""
    for task in sorted({task for task in tasks if is_text(task) and has_range(task)}):
        if not unreadable(task):
            yield from _add(task, {})


def _add(task: str, limit: Mapping[str, Any]) -> Operation[bool]:
    """Whether it was added, or stood there."""
    known = yield find_one(CLUSTER, {"_id": RANGES, "tasks.key": task}, projection={"_id": 1})
    if known is not None:
        return True
    new = [{"key": {"$literal": task}, "seen_at": "$$NOW"}]
    update = [{"$set": {"tasks": {"$concatArrays": [_TASKS, new]}}}]
    absent = {"_id": RANGES, "tasks.key": {"$ne": task}, **limit}
    with contextlib.suppress(DuplicateKey):  # there is the document, and it is there or full
        answer = yield update_one(CLUSTER, absent, update, upsert=True)
        is_added = bool(answer.modified_count or answer.upserted_id)
        if is_added:  # nodes that read it now do not pass over the ring for its first job
            yield from ring(CLUSTER)
        return is_added
    return False


_TASKS = {"$cond": [{"$isArray": "$tasks"}, "$tasks", []]}


@dataclass(slots=True)
class Walk:
    """What is queued: task keys with a range, and jobs whose range cannot be read."""

    keys: set[str] = field(default_factory=set)
    unreadable: dict[str, str] = field(default_factory=dict)
    """By their task, why."""


def walk() -> Operation[Walk]:
    """Go from task to task in the indexes of queued jobs, however many jobs are queued of each."""
    seen = Walk()
    for index, where in (("fresh", FRESH), (DUE_INDEX, DUE), (RANKED_INDEX, RANKED)):
        try:
            yield from _walk_on(index, where, seen)
        except StoreError as error:
            if not tells_of_missing(error):  # as long as it is being made
                raise
    return seen


def _walk_on(index: str, where: Mapping[str, Any], seen: Walk) -> Operation[None]:
    last = ""
    for _ in range(DISTINCT_AT_MOST):
        job = yield find_one(
            JOBS,
            {**where, "task": {"$gt": last}},
            projection={"_id": 0, "task": 1},
            sort=[("task", 1)],
            hint=index,
        )
        if job is None or not is_text(job["task"]):
            return
        last = job["task"]
        if reason := unreadable(last):
            seen.unreadable[last] = reason
        elif has_range(last):
            seen.keys.add(last)


_DATES = {"$gte": datetime.min.replace(tzinfo=UTC), "$lte": datetime.max.replace(tzinfo=UTC)}
_NO_DATE = {"$or": [{"checked_at": {"$type": "array"}}, {"$nor": [{"checked_at": _DATES}]}]}
"""Also what somebody has written there that is none, or one beyond Python's: it would stay, and no
walk could put anything right any more."""


def put_right(keys: Iterable[str], checked_at: datetime | None) -> Operation[bool]:
    """Make the document say what is queued, and no longer what has not been for an hour; False when
    another was quicker."""
    found = {"$literal": sorted(keys)}
    since = {"$subtract": ["$$NOW", round(KEPT_FOR * 1000)]}
    kept = {
        "$and": [{"$not": [{"$in": ["$$this.key", found]}]}, {"$gt": ["$$this.seen_at", since]}]
    }
    others = {"$filter": {"input": _TASKS, "cond": kept}}
    seen = {"$map": {"input": found, "in": {"key": "$$this", "seen_at": "$$NOW"}}}
    update = [{"$set": {"checked_at": "$$NOW", "tasks": {"$concatArrays": [others, seen]}}}]
    seen_at = _NO_DATE if checked_at is None else {"checked_at": checked_at}
    as_seen = {"_id": RANGES, **seen_at}
    with contextlib.suppress(DuplicateKey):
        answer = yield update_one(CLUSTER, as_seen, update, upsert=True)
        return bool(answer.modified_count or answer.upserted_id)
    return False
