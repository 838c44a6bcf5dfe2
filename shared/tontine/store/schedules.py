"""Recurring jobs as documents. A due time is fired by inserting a job whose `_id` names it: a second one is refused.

Anybody may write to `schedules`, so each document is decoded alone, and those that nobody can use never stand in the
way: nodes read names and times first, and a whole document only when it is due.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

from ..doctor.schedules import Survey
from ..errors import ConfigError, DuplicateKey, TontineError
from ..job import LARGEST, too_large
from ..legible import legible
from ..schedule import YEARS, Broken, Schedule
from .bell import ring_jobs
from .call import DECODED, PLAIN, RAW, Call, Steps, find, find_one
from .counter import raise_counter, take
from .insert import Wish
from .look import now, read_cluster
from .raw import identity
from .schema import JOBS, SCHEDULES

DUE_AT_ONCE = 100
CHECKED_AT_ONCE = 200
SURVEYED_AT_MOST = 10_000
TRIES = 5
NAME_SHOWN = 200

_SMALL = 5000
"""Bytes of a field that is read together with those of many others."""


def _is_small(field: str) -> dict[str, Any]:
    return {"$lte": [{"$bsonSize": {"value": f"${field}"}}, _SMALL]}


def _small(field: str) -> dict[str, Any]:
    """A field as it is, or something that no field may be."""
    return {"$cond": [_is_small(field), f"${field}", {"$literal": b"large"}]}


# A filter's $type is also content with an array of dates, and dates go further than Python's.
_IS_TIME = {
    "$and": [
        {"$eq": [{"$type": "$next_at"}, "date"]},
        {"$gte": ["$next_at", datetime(YEARS.start, 1, 1, tzinfo=UTC)]},
        {"$lt": ["$next_at", datetime(YEARS.stop, 1, 1, tzinfo=UTC)]},
    ]
}
_NAMED = {"_id": {"$type": "string"}, "$expr": _is_small("_id")}
_AROUND = {"_id": 0, "now": "$$NOW", "size": {"$bsonSize": "$$ROOT"}}
_WHOLE = {**_AROUND, "schedule": "$$ROOT"}
_SLIM: dict[str, Any] = {
    **_AROUND,
    "schedule": {
        **{field: _small(field) for field in ("_id", "task", "cron", "every", "timezone", "missed", "next_at")},
        "args": {"$cond": [{"$eq": [{"$type": "$args"}, "object"]}, {"$literal": {}}, _small("args")]},
    },
}


@dataclass(frozen=True, slots=True)
class Due:
    """A schedule that is due soon, as it was seen: its document may still turn out to be none."""

    name: str
    next_at: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class Mending:
    """A schedule whose `next_at` was seen to be wrong, and what it should be."""

    name: str
    seen: Any
    right: datetime


def add(schedule: Schedule) -> Steps[Schedule]:
    """Add or replace a schedule; it is due for the first time after the server's now."""
    schedule.check()
    document = schedule.to_document() | {"next_at": schedule.next_after((yield from now()))}
    with contextlib.suppress(BSONError, OverflowError, UnicodeError):  # storing it says why it cannot be
        _check_size(len(bson.encode(document, codec_options=DECODED)))
    yield Call(SCHEDULES, "replace_one", ({"_id": schedule.name}, document), {"upsert": True}, repeats=True)
    return Schedule.from_document(document)


def read_schedules() -> Steps[list[Schedule | Broken]]:
    """All schedules, by name."""
    found = yield find(SCHEDULES, {}, raw=True, projection=_WHOLE, sort=[("_id", 1)])
    return [_judged(one) for one in found]


def survey() -> Steps[Survey]:
    """What `tontine doctor` judges; without arguments, which may be large."""
    found = yield find(SCHEDULES, {}, raw=True, projection=_SLIM, limit=SURVEYED_AT_MOST)
    judged = [_judged(one) for one in found]
    roster, _ = yield from read_cluster()
    return Survey(
        now=(yield from now()),
        schedules=tuple(one for one in judged if isinstance(one, Schedule)),
        broken=tuple(one for one in judged if isinstance(one, Broken)),
        members=len(roster.members),
    )


def remove(name: str) -> Steps[bool]:
    """Remove a schedule; jobs that it inserted stay. Also one whose `_id` is no text, by what is shown of it."""
    answer = yield Call(SCHEDULES, "delete_one", ({"_id": name},), repeats=True)
    if answer.deleted_count:
        return True
    found = yield find(SCHEDULES, {}, raw=True, projection={"_id": 1})
    for one in found:
        if _shown_name(one) == name:
            answer = yield Call(SCHEDULES, "delete_one", (identity(one),), repeats=True)
            return bool(answer.deleted_count)
    return False


def find_due(ahead: float, beyond: int = 0) -> Steps[list[Due]]:
    """Schedules that are due within `ahead` seconds, those longest due first but for the first `beyond`."""
    soon = {"$add": ["$$NOW", round(ahead * 1000)]}
    found = yield find(
        SCHEDULES,
        {
            "_id": {"$type": "string"},
            "next_at": {"$type": "date"},
            "$expr": {"$and": [{"$lte": ["$next_at", soon]}, _IS_TIME, _is_small("_id")]},
        },
        projection={"now": "$$NOW", "next_at": 1},
        hint="next",
        skip=beyond,
        limit=DUE_AT_ONCE,
    )
    return [Due(one["_id"], one["next_at"], one["now"]) for one in found]


def fire(due: Due) -> Steps[int | None]:
    """Insert the jobs of a schedule's due times and move it on; how many were inserted by this call.

    None: it is not as it was seen, so somebody else has moved it on. Whoever dies between the two leaves it to the next
    node to insert again, which the `_id` refuses, and to move on.
    """
    seen = {"_id": due.name, "next_at": due.next_at}
    found = yield Call(SCHEDULES, "find_one", (seen,), {"projection": _WHOLE}, repeats=True, raw=True)
    if found is None:
        return None
    schedule = _decoded(found, RAW)
    times, following = schedule.fire(found["now"])
    fired = 0
    for time in times:
        fired += yield from _insert_job(schedule, time)
    yield Call(SCHEDULES, "update_one", (seen, {"$set": {"next_at": following}}), repeats=True)
    return fired


def find_wrong(beyond: int) -> Steps[tuple[int, list[Mending]]]:
    """Look at some schedules, after the first `beyond`: how many there were, and those whose `next_at` is wrong."""
    found = yield find(
        SCHEDULES, _NAMED, raw=True, projection=_SLIM, sort=[("_id", 1)], skip=beyond, limit=CHECKED_AT_ONCE
    )
    wrong = []
    for one in found:
        schedule = _judged(one)
        if isinstance(schedule, Schedule) and (right := schedule.mended(one["now"])) is not None:
            wrong.append(Mending(schedule.name, schedule.next_at, right))
    return len(found), wrong


def mend(wrong: Mending) -> Steps[bool]:
    """Put a `next_at` right, unless it is another one by now."""
    unchanged = {"$expr": {"$not": _IS_TIME}} if wrong.seen is None else {"next_at": wrong.seen}
    answer = yield Call(
        SCHEDULES, "update_one", ({"_id": wrong.name, **unchanged}, {"$set": {"next_at": wrong.right}}), repeats=True
    )
    return bool(answer.modified_count)


def _insert_job(schedule: Schedule, time: datetime) -> Steps[bool]:
    """Insert the job of a due time; False where it is there already."""
    name = schedule.job_id(time)
    for _ in range(TRIES):
        block = yield from take(1)
        document: dict[str, Any] = {
            "_id": name,
            "seq": next(iter(block)),
            **Wish(schedule.task).document(schedule.args, block.at),
            "schedule": schedule.name,
        }
        try:
            yield Call(JOBS, "insert_one", (document,), repeats=True)
        except DuplicateKey as error:
            if error.key == ("seq",):
                yield from raise_counter()
            elif error.key != ("_id",):
                raise
            elif (yield from _is_anothers(name, schedule)):
                name += "~"  # somebody's job has taken the name: whoever comes later finds the same next one
            else:
                return False
            continue
        yield from ring_jobs(block.first, block.last, fresh=True)
        return True
    raise TontineError(f"{TRIES} names or numbers in turn were taken by others")


def _is_anothers(name: str, schedule: Schedule) -> Steps[bool]:
    holder = yield find_one(JOBS, {"_id": name}, projection={"schedule": 1})
    return holder is not None and holder.get("schedule") != schedule.name


def _judged(found: Mapping[str, Any]) -> Schedule | Broken:
    try:
        return _decoded(found, PLAIN)
    except ConfigError as error:
        return Broken(_shown_name(found["schedule"]), str(error))


def _decoded(found: Mapping[str, Any], codec: CodecOptions[Any]) -> Schedule:
    """The schedule in one document, if it is one. With `RAW`, arguments stay the bytes that a job gets."""
    _check_size(found["size"])
    try:
        return Schedule.from_document(_fields(found["schedule"], codec))
    except (BSONError, OverflowError, UnicodeError) as error:
        raise ConfigError(f"its document cannot be decoded: {error}") from error


def _fields(document: Mapping[str, Any], codec: CodecOptions[Any]) -> dict[str, Any]:
    return dict(bson.decode(document.raw, codec) if isinstance(document, RawBSONDocument) else document)


def _check_size(size: int) -> None:
    if size > LARGEST:  # its job would have no room for an outcome
        raise ConfigError(too_large(size))


def _shown_name(document: Mapping[str, Any]) -> str:
    try:
        name = _fields(document, PLAIN).get("_id")
        return legible(_fields(name, PLAIN) if isinstance(name, RawBSONDocument) else name, NAME_SHOWN)
    except (BSONError, OverflowError, UnicodeError):
        return "?"
