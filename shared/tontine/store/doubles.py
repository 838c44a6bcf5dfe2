"""Jobs that share a key or a number, from a time without the unique index: all but the oldest give
way, so that it can be made. Many may do it at once: what is older never changes, so that nobody
takes another one for the oldest. One that cannot be changed is left to whoever builds the index,
and keeps no others from being parted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson import Int64
from pymongo import UpdateOne

from ..errors import NotPermitted, StoreError, StoreUnavailable
from ..records.job import JobError, is_whole
from .call import Operation, bulk_write, command, find_some
from .counter import take
from .end import CANCELLABLE, FINAL_STATES, never_begun
from .indexes import NUMBERED
from .names import JOBS
from .raw import Raw, Some, identity
from .retention import Retention, read_retention

AT_ONCE = 200
SEARCHED_WITHIN = 600.0

_WHERE: dict[str, dict[str, Any]] = {
    "key": {"key": {"$gt": ""}, "state": {"$in": CANCELLABLE}},
    "held_key": {"held_key": {"$gt": ""}},
    "seq": NUMBERED,
}
"""The documents that a unique index is about, by the field that it keeps apart."""


def resolve(field: str) -> Operation[int]:
    """Make all but the oldest job of each key (or number) give way; how many did."""
    resolved = 0
    retention: Retention | None = None
    while values := (yield from _shared(field)):
        retention = retention or (yield from read_retention())
        before = resolved
        for value in values:
            resolved += yield from _part(field, value, retention)
        if resolved == before:
            break  # others were quicker, or these cannot be changed: building the index will tell
    return resolved


def _shared(field: str) -> Operation[list[Any]]:
    """Some of the values that more than one document has."""
    stages: list[dict[str, Any]] = [
        {"$match": _WHERE[field]},
        {"$group": {"_id": f"${field}", "count": {"$sum": 1}}},
        {"$match": {"count": {"$gt": 1}}},
        {"$limit": AT_ONCE},
    ]
    search = {
        "aggregate": JOBS,
        "pipeline": stages,
        "cursor": {"batchSize": AT_ONCE},
        "allowDiskUse": True,
    }
    answer = yield command(search, within=SEARCHED_WITHIN)
    return [group["_id"] for group in answer["cursor"]["firstBatch"]]


def _part(field: str, value: Any, retention: Retention) -> Operation[int]:
    where = {**_WHERE[field], field: value}
    found: Some = yield find_some(JOBS, where, projection={"seq": 1, "state": 1, "created_at": 1})
    if len(found) < 2:
        return 0  # others were quicker
    first, *others = sorted(found, key=_age)
    if field == "key":
        updates = [_without_key(one, value, first.get("seq"), retention) for one in others]
    elif field == "held_key":
        updates = [UpdateOne({**identity(one), field: value}, _NO_HOLD) for one in others]
    else:
        block = yield from take(len(others))
        updates = [
            _renumbered(one, value, seq, retention) for seq, one in zip(block, others, strict=True)
        ]
    try:
        answer = yield bulk_write(JOBS, updates, repeats=True)
        return int(answer.modified_count)
    except (StoreUnavailable, NotPermitted):
        raise
    except StoreError:
        # One has no room for saying why, and building the index will tell; the others of this value
        # are done.
        return 0


_NO_HOLD = {"$unset": {"held_key": "", "held_until": ""}}


def _age(job: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sorts the oldest first: by number, what has none last, and those of one number by when they
    came."""
    seq, created = job.get("seq"), job.get("created_at")
    return (
        not is_whole(seq),
        seq if is_whole(seq) else 0,
        str(created or "~"),
        str(job.get("_id")),
    )


def _without_key(job: Raw, key: str, first: Any, retention: Retention) -> UpdateOne:
    where = {**identity(job), "key": key, "state": {"$in": CANCELLABLE}}
    if job.get("seq") is None:
        # A numberer judges it when the index is there, and says why it cannot be: an unfinished job
        # has its key.
        return UpdateOne({**where, "seq": None}, {"$unset": {"state": ""}})
    named = f"job {first}" if is_whole(first) else "an older job"
    return UpdateOne(
        where, _failing(f"{named} has its key {key!r}, and was there before it", retention)
    )


def _renumbered(job: Raw, seq: Any, new: Int64, retention: Retention) -> UpdateOne:
    """With a number of its own; unless it has ended it fails, too: a claim by number may have been
    meant for either."""
    where, update = {**identity(job), "seq": seq}, [{"$set": {"seq": new}}]
    if job.get("state") not in FINAL_STATES:
        update += _failing(
            f"an older job has its number {seq} as well; this one is {new} now", retention
        )
        where["state"] = {"$nin": FINAL_STATES}  # what has ended since stays as it ended
    return UpdateOne(where, update)


def _failing(reason: str, retention: Retention) -> list[dict[str, Any]]:
    message = (
        f"{reason}. No unique index kept them apart when it was inserted; `tontine init` "
        "makes it, and so do nodes"
    )
    return [{"$set": never_begun(JobError("Double", message), retention)}, {"$unset": "cancel"}]
