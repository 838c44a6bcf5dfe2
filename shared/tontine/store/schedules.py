"""Recurring jobs, and plans, as documents. A due time is fired by inserting a job whose `_id` names
it: a second one is refused.

Anybody may write to `schedules`, so each document is decoded alone, and those that nobody can use
never stand in the way: nodes read names and times first, and a whole document only when it is due.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

from ..errors import ConfigError, TontineError
from ..legible import legible
from ..offers import Offers
from ..records.job import LARGEST, Job, nobodys_task, too_large
from ..records.schedule import YEARS, Broken, Declared, Schedule
from ..records.states import OPEN
from ..rules.plan_check import problem as plan_problem
from . import on_demand, ranges
from .call import DECODED, PLAIN, RAW, Call, Operation, delete_one, find, find_one, update_one
from .indexes import START_BY
from .insert import Put, Wish, put_named
from .names import JOBS, PLANS, SCHEDULES
from .plans import control as plans
from .plans.status import read_status_by_id
from .raw import identity
from .read import now, read_nodes

DUE_AT_ONCE = 100
CHECKED_AT_ONCE = 200
TRIES = 5
NAME_SHOWN = 200

Fired = Literal["inserted", "there", "skipped"]
_OPEN = sorted(state.value for state in OPEN)

_JUDGED = (
    "_id",
    "task",
    "cron",
    "every",
    "timezone",
    "missed",
    "next_at",
    "overlap",
    "max_age",
    "off",
    "declared",
)
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
THERE = {"removed": {"$ne": True}}
"""Not one that an operator removed although a module declares it: only its name is left, so that no
node adds it again. What is left says neither when nor how often, so that no node takes it for a
schedule, of the release before either."""
_ACTIVE = {"off": {"$ne": True}, **THERE}
_NAMED = {"_id": {"$type": "string"}, "$expr": _is_small("_id"), **THERE}
_AROUND = {"_id": 0, "now": "$$NOW", "size": {"$bsonSize": "$$ROOT"}}
_WHOLE = {**_AROUND, "schedule": "$$ROOT"}
# One that is large is judged when it is due: no more is read beside many others.
_SOME_PLAN: dict[str, Any] = {"$literal": {"steps": {"large": {"task": "large.plan"}}}}
_SLIM: dict[str, Any] = {
    **_AROUND,
    "schedule": {
        **{field: _small(field) for field in _JUDGED},
        "plan": {"$cond": [_is_small("plan"), "$plan", _SOME_PLAN]},
        "args": {
            "$cond": [{"$eq": [{"$type": "$args"}, "object"]}, {"$literal": {}}, _small("args")]
        },
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


def add(schedule: Schedule) -> Operation[Schedule]:
    """Add or replace a schedule; it is due for the first time after the server's now."""
    schedule.check()
    if schedule.plan is not None:
        plans.check(schedule.plan)
    else:
        # Not of one that is there already: it is shown, and does no harm.
        if reason := nobodys_task(schedule.task):
            raise ConfigError(f"it can insert no job: {reason}")
        schedule = replace(schedule, task=ranges.key_of(schedule.task))
        yield from ranges.expect(schedule.task)
    before = (yield find_one(SCHEDULES, {"_id": schedule.name}, projection={"last_job": 1})) or {}
    known = {"last_job": before["last_job"]} if before.get("last_job") is not None else {}
    document = schedule.to_document() | {"next_at": schedule.next_after((yield from now()))} | known
    with contextlib.suppress(
        BSONError, OverflowError, UnicodeError
    ):  # storing it says why it cannot be
        _check_size(len(bson.encode(document, codec_options=DECODED)))
    yield Call(
        SCHEDULES, "replace_one", ({"_id": schedule.name}, document), {"upsert": True}, repeats=True
    )
    return Schedule.from_document(document)


def read_schedules() -> Operation[list[Schedule | Broken]]:
    """All schedules, by name."""
    found = yield find(SCHEDULES, THERE, raw=True, projection=_WHOLE, sort=[("_id", 1)])
    return [_judged(one) for one in found]


def read_slim(limit: int) -> Operation[list[Schedule | Broken]]:
    """So many schedules without their arguments, which may be large."""
    found = yield find(SCHEDULES, THERE, raw=True, projection=_SLIM, limit=limit)
    return [_judged(one) for one in found]


def remove(name: str) -> Operation[bool]:
    """Remove a schedule; jobs that it inserted stay. Also one whose `_id` is no text, by what is
    shown of it.

    Of one that a module declares its name is left, so that no node adds it again.
    """
    if (yield from _bury(name)):
        return True
    answer = yield delete_one(SCHEDULES, {"_id": name, **THERE}, repeats=True)
    if answer.deleted_count:
        return True
    found = yield find(SCHEDULES, THERE, raw=True, projection={"_id": 1})
    for one in found:
        if _shown_name(one) == name:
            answer = yield delete_one(SCHEDULES, identity(one), repeats=True)
            return bool(answer.deleted_count)
    return False


def _bury(name: str) -> Operation[bool]:
    """Leave nothing but its name of a schedule that is declared, or was added over one; False if it
    is not."""
    found = yield find_one(SCHEDULES, {"_id": name, **THERE}, projection={"declared": 1, "task": 1})
    if found is None:
        return False
    if Declared.from_document(found.get("declared")) is None:
        around = Offers.of((yield from read_nodes(dead=False)))
        if name not in around.schedules:
            return False
    left = {"_id": name, "task": str(found.get("task")), "cron": None, "removed": True}
    answer = yield Call(SCHEDULES, "replace_one", ({"_id": name}, left), repeats=True)
    return bool(answer.matched_count)


def switch_off(name: str) -> Operation[bool]:
    """Let a schedule rest: it is not due until it is switched on. False where there is none."""
    update = {"$set": {"off": True}, "$unset": {"next_at": ""}}
    answer = yield update_one(SCHEDULES, {"_id": name, **THERE}, update, repeats=True)
    return bool(answer.matched_count)


def switch_on(name: str) -> Operation[Schedule | None]:
    """Let a schedule go on, from now; None where it had been removed, and a node adds it again as
    it is declared."""
    answer = yield delete_one(SCHEDULES, {"_id": name, "removed": True}, repeats=True)
    if answer.deleted_count:
        return None
    schedule, moment = yield from _read_one(name)
    if not schedule.off:
        return schedule
    following = schedule.next_after(moment)
    update = {"$set": {"next_at": following}, "$unset": {"off": ""}}
    yield update_one(SCHEDULES, {"_id": name, "off": True}, update, repeats=True)
    return replace(schedule, off=False, next_at=following)


def run_now(name: str) -> Operation[Any]:
    """Insert a job, or a plan, of a schedule beside its times, also of one that is off; that `Job`,
    or `PlanStatus`.

    Where they must not overlap, an unfinished one comes back instead, marked `existed`.
    """
    schedule, moment = yield from _read_one(name)
    inserted, fired = yield from _insert(schedule, moment)
    if fired == "skipped":
        inserted = yield from _unfinished(schedule)
    else:
        changes = {"$set": {"last_job": inserted}}
        yield update_one(SCHEDULES, {"_id": name, **THERE}, changes, repeats=True)
    existed = fired != "inserted"
    if schedule.plan is not None:
        return (yield from read_status_by_id(inserted, existed=existed))
    document = yield find_one(JOBS, {"_id": inserted})
    return Job.from_document(document, existed=existed)


def _unfinished(schedule: Schedule) -> Operation[Any]:
    """The `_id` of what a schedule must not overlap with."""
    if schedule.plan is not None:
        plan = yield from plans.find_holder(schedule.plan_document().get("key", ""))
        if plan is not None and plan.state is None:
            raise TontineError(
                f"plan {plan.seq} of it waits to be accepted: `tontine why` tells why"
            )
        found = None if plan is None else plan.id
    else:
        job = yield find_one(JOBS, {"key": schedule.key, "state": {"$in": _OPEN}})
        found = None if job is None else job["_id"]
    if found is None:
        raise TontineError(
            f"the last one of {legible(schedule.name)} has ended just now: try again"
        )
    return found


def _read_one(name: str) -> Operation[tuple[Schedule, datetime]]:
    """A schedule, and the server's now; a ConfigError says that there is none, or why it is
    none."""
    options = {"projection": _WHOLE}
    found = yield Call(
        SCHEDULES, "find_one", ({"_id": name, **THERE},), options, repeats=True, raw=True
    )
    if found is None:
        raise ConfigError(f"there is no schedule {name!r}: `tontine schedule ls` lists them")
    try:
        return _decoded(found, RAW), found["now"]
    except ConfigError as error:
        raise ConfigError(f"{legible(name)} is broken: {error}") from error


def find_due(ahead: float, beyond: int = 0) -> Operation[list[Due]]:
    """Schedules that are due within `ahead` seconds, those longest due first but for the first
    `beyond`."""
    soon = {"$add": ["$$NOW", round(ahead * 1000)]}
    found = yield find(
        SCHEDULES,
        {
            "_id": {"$type": "string"},
            "next_at": {"$type": "date"},
            **_ACTIVE,
            "$expr": {"$and": [{"$lte": ["$next_at", soon]}, _IS_TIME, _is_small("_id")]},
        },
        projection={"now": "$$NOW", "next_at": 1},
        hint="next",
        skip=beyond,
        limit=DUE_AT_ONCE,
    )
    return [Due(one["_id"], one["next_at"], one["now"]) for one in found]


def fire(due: Due) -> Operation[int | None]:
    """Insert the jobs of a schedule's due times and move it on; how many were inserted by this
    call.

    None: it is not as it was seen, so somebody else has moved it on. Whoever dies between the two
    leaves it to the next node to insert again, which the `_id` refuses, and to move on.
    """
    seen = {"_id": due.name, "next_at": due.next_at, **_ACTIVE}
    found = yield Call(
        SCHEDULES, "find_one", (seen,), {"projection": _WHOLE}, repeats=True, raw=True
    )
    if found is None:
        return None
    schedule = _decoded(found, RAW)
    times, following = schedule.fire(found["now"])
    changes: dict[str, Any] = {"next_at": following}
    inserted = skipped = 0
    for time in times:
        job, fired = yield from _insert(schedule, time)
        inserted += fired == "inserted"
        skipped += fired == "skipped"
        if fired != "skipped":
            changes["last_job"] = job
    if skipped:
        changes["skipped"] = schedule.skipped + skipped
    yield update_one(SCHEDULES, seen, {"$set": changes}, repeats=True)
    return inserted


def find_wrong(beyond: int) -> Operation[tuple[int, list[Mending]]]:
    """Look at some schedules, after the first `beyond`: how many there were, and those whose
    `next_at` is wrong."""
    found = yield find(
        SCHEDULES,
        _NAMED,
        raw=True,
        projection=_SLIM,
        sort=[("_id", 1)],
        skip=beyond,
        limit=CHECKED_AT_ONCE,
    )
    wrong = []
    for one in found:
        schedule = _judged(one)
        if isinstance(schedule, Schedule) and (right := schedule.mended(one["now"])) is not None:
            wrong.append(Mending(schedule.name, schedule.next_at, right))
    return len(found), wrong


def mend(wrong: Mending) -> Operation[bool]:
    """Put a `next_at` right, unless it is another one by now, or the schedule was switched off or
    removed."""
    unchanged = {"$expr": {"$not": _IS_TIME}} if wrong.seen is None else {"next_at": wrong.seen}
    seen = {"_id": wrong.name, **_ACTIVE, **unchanged}
    answer = yield update_one(SCHEDULES, seen, {"$set": {"next_at": wrong.right}}, repeats=True)
    return bool(answer.modified_count)


def _insert(schedule: Schedule, time: datetime) -> Operation[tuple[str, Fired]]:
    """Insert the job, or the plan, of a due time, unless it is there already, or must be skipped;
    its `_id`, and what was done.

    One unfinished job at most has a key: the index refuses a job that would overlap with the one
    before.
    """
    name = schedule.job_id(time)
    for _ in range(TRIES):
        put = yield from _put(schedule, name)
        if put == "inserted":
            return name, put
        holder = yield from _holder_of_name(schedule, name)
        if put == "key":
            return name, "there" if holder == schedule.name else "skipped"
        if holder in (schedule.name, _NOBODY):
            return name, "there"
        name += (
            "~"  # somebody's job has taken the name: whoever comes later finds the same next one
        )
    raise TontineError(f"{TRIES} names in turn were taken by others")


def _put(schedule: Schedule, name: str) -> Operation[Put]:
    if schedule.plan is not None:
        return (yield from plans.put_named(name, schedule.plan_document()))
    wish = Wish(schedule.task, key=schedule.key, max_age=schedule.max_age)
    if wish.max_age is not None:
        yield from on_demand.prefer(START_BY)
    return (yield from put_named(name, wish, schedule.args, schedule=schedule.name))


_NOBODY = object()


def _holder_of_name(schedule: Schedule, name: str) -> Operation[Any]:
    """The schedule of the job, or plan, with this `_id`, if there is such a one."""
    where = JOBS if schedule.plan is None else PLANS
    holder = yield find_one(where, {"_id": name}, projection={"schedule": 1})
    return _NOBODY if holder is None else holder.get("schedule")


def _judged(found: Mapping[str, Any]) -> Schedule | Broken:
    try:
        return _decoded(found, PLAIN)
    except ConfigError as error:
        return Broken(_shown_name(found["schedule"]), str(error))


def _decoded(found: Mapping[str, Any], codec: CodecOptions[Any]) -> Schedule:
    """The schedule in one document, if it is one. With `RAW`, arguments stay the bytes that a job
    gets."""
    _check_size(found["size"])
    try:
        schedule = Schedule.from_document(_fields(found["schedule"], codec))
        reason = None if schedule.plan is None else plan_problem(schedule.plan)
    except (BSONError, OverflowError, UnicodeError) as error:
        raise ConfigError(f"its document cannot be decoded: {error}") from error
    if reason is not None:
        raise ConfigError(f"it can insert no plan: {reason}")
    return schedule


def _fields(document: Mapping[str, Any], codec: CodecOptions[Any]) -> dict[str, Any]:
    return dict(
        bson.decode(document.raw, codec) if isinstance(document, RawBSONDocument) else document
    )


def _check_size(size: int) -> None:
    if size > LARGEST:  # its job would have no room for an outcome
        raise ConfigError(too_large(size))


def _shown_name(document: Mapping[str, Any]) -> str:
    try:
        name = _fields(document, PLAIN).get("_id")
        return legible(
            _fields(name, PLAIN) if isinstance(name, RawBSONDocument) else name, NAME_SHOWN
        )
    except (BSONError, OverflowError, UnicodeError):
        return "?"
