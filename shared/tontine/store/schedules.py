"""Recurring jobs as documents. A due time is fired by inserting a job whose `_id` names it: a second one is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ..errors import ConfigError, DuplicateKey, TontineError
from ..schedule import Schedule
from .bell import ring_jobs
from .call import Call, Steps, command, find
from .counter import take
from .insert import Wish
from .schema import JOBS, SCHEDULES


def add(schedule: Schedule) -> Steps[Schedule]:
    """Add or replace a schedule; it is due for the first time after the server's now."""
    schedule.check()
    hello = yield command({"hello": 1})
    now: datetime = hello["localTime"]
    now = now if now.tzinfo else now.replace(tzinfo=UTC)
    try:
        first = next(schedule.times_after(now))
    except StopIteration:
        raise ConfigError(f"{schedule.cron!r} never comes: a date that no year has") from None
    document = schedule.to_document() | {"next_at": first}
    yield Call(SCHEDULES, "replace_one", ({"_id": schedule.name}, document), {"upsert": True}, repeats=True)
    return Schedule.from_document(document)


def read_schedules() -> Steps[list[Schedule]]:
    """All schedules, by name."""
    found = yield find(SCHEDULES, {}, sort=[("_id", 1)])
    return [Schedule.from_document(document) for document in found]


def remove(name: str) -> Steps[bool]:
    """Remove a schedule; jobs that it inserted stay."""
    answer = yield Call(SCHEDULES, "delete_one", ({"_id": name},), repeats=True)
    return bool(answer.deleted_count)


def find_due(ahead: float) -> Steps[list[tuple[Schedule, datetime]]]:
    """Schedules that are due within `ahead` seconds, each with the server's now."""
    soon = {"$add": ["$$NOW", round(ahead * 1000)]}
    found = yield find(
        SCHEDULES,
        {"next_at": {"$type": "date"}, "$expr": {"$lte": ["$next_at", soon]}},
        projection={"now": "$$NOW", "schedule": "$$ROOT"},
        hint="next",
        limit=100,
    )
    return [(Schedule.from_document(one["schedule"]), one["now"]) for one in found]


def fire(schedule: Schedule, now: datetime) -> Steps[int]:
    """Insert the jobs of a schedule's due times and move it on; how many were inserted by this call.

    Whoever dies between the two leaves it to the next node to insert again, which the `_id` refuses, and to move on.
    """
    due, following = schedule.fire(now)
    fired = 0
    for time in due:
        block = yield from take(1)
        document: dict[str, Any] = {
            "_id": f"{schedule.name}@{time.astimezone(UTC).isoformat()}",
            "seq": next(iter(block)),
            **Wish(schedule.task).document(schedule.args, block.at),
            "schedule": schedule.name,
        }
        try:
            yield Call(JOBS, "insert_one", (document,), repeats=True)
            yield from ring_jobs(block.first, block.last, fresh=True)
            fired += 1
        except DuplicateKey as error:
            if error.key != ("_id",):
                raise TontineError(f"schedule {schedule.name} could not fire: {error}") from error
    seen = {"_id": schedule.name, "next_at": schedule.next_at}
    yield Call(SCHEDULES, "update_one", (seen, {"$set": {"next_at": following}}), repeats=True)
    return fired
