"""Keys that stay taken after the end: `unique_for` makes a done job hold its key for so long.

`held_key` is on such jobs alone, unique among them, and stays when they end. Whoever meets one
whose time is over takes it off, by a write that only matches then; nodes do the same now and then,
for producers that may not.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

from ..errors import NotPermitted, StoreError, StoreUnavailable, Unstorable
from ..records.schedule import LONGEST
from ..records.states import FINAL, JobState
from . import on_demand
from .call import Operation, find_one, find_some, update_many, update_one
from .indexes import HELD_KEY
from .names import JOBS
from .raw import Raw, identity

EACH_AT_ONCE = 1000

_FAR = datetime(9000, 1, 1, tzinfo=UTC)
_FINAL = sorted(state.value for state in FINAL)
_END = {"$add": ["$finished_at", {"$multiply": ["$unique_for", 1000]}]}
_IS_HELD = {
    "$and": [
        {"$eq": ["$state", JobState.DONE.value]},
        # Whatever somebody wrote there, the sum must be a date: otherwise no other job's key would
        # be looked at either.
        {"$isNumber": "$unique_for"},
        {"$gt": ["$unique_for", 0]},
        {"$lte": ["$unique_for", LONGEST]},
        {"$eq": [{"$type": "$finished_at"}, "date"]},
        {"$lt": ["$finished_at", _FAR]},
        {"$gt": [_END, "$$NOW"]},
    ]
}
"""Only what was done need not be done again: one that failed or was cancelled holds nothing."""


def find_holder(key: str) -> Operation[dict[str, Any] | None]:
    """The job that has a key by `unique_for`, unfinished or done; None if there is none, or no
    longer."""
    found = yield find_one(JOBS, {"held_key": key}, projection={"_id": 1})
    if found is None:
        return None
    over = {
        "_id": found["_id"],
        "held_key": key,
        "state": {"$in": _FINAL},
        "$expr": {"$not": [_IS_HELD]},
    }
    with contextlib.suppress(
        NotPermitted
    ):  # a producer that may only insert: a node does it within half a minute
        yield update_one(JOBS, over, {"$unset": {"held_key": "", "held_until": ""}}, repeats=True)
    # As it is now: it may have been retried, or another may have been quicker.
    holder: dict[str, Any] | None = yield find_one(JOBS, {"_id": found["_id"], "held_key": key})
    return holder


def review_holds() -> Operation[int]:
    """Note until when jobs that have ended hold their keys, keep them until then, and end what is
    over; how many."""
    return on_demand.using(HELD_KEY, _review_holds())


def _review_holds() -> Operation[int]:
    ended = {
        "held_key": {"$gt": ""},
        "state": {"$in": _FINAL},
        "$expr": {"$lt": ["$held_until", "$$NOW"]},  # absent is less than any date
    }
    kept = {
        "$cond": [
            {"$eq": [{"$type": "$expire_at"}, "date"]},
            {"$max": ["$expire_at", _END]},
            "$expire_at",
        ]
    }
    update = {
        "held_until": {"$cond": [_IS_HELD, _END, "$$REMOVE"]},
        "held_key": {"$cond": [_IS_HELD, "$held_key", "$$REMOVE"]},
        "expire_at": {"$cond": [_IS_HELD, kept, "$expire_at"]},
    }
    try:
        answer = yield update_many(JOBS, ended, [{"$set": update}], hint=HELD_KEY, repeats=True)
        return int(answer.modified_count)
    except (StoreUnavailable, NotPermitted):
        raise
    except StoreError:
        return (yield from _review_each(ended, [{"$set": update}]))


def _review_each(ended: dict[str, Any], update: list[dict[str, Any]]) -> Operation[int]:
    """One of these has no room for that, and must not keep the others from it; its time ends all
    the same."""
    found: list[Raw] = yield find_some(
        JOBS, ended, projection={"_id": 1}, hint=HELD_KEY, limit=EACH_AT_ONCE
    )
    reviewed = 0
    for job in found:
        with contextlib.suppress(Unstorable):
            answer = yield update_one(JOBS, {**ended, **identity(job)}, update, repeats=True)
            reviewed += answer.modified_count
    return reviewed
