"""Jobs that were not started by their `start_by`: they are cancelled, and say so. Only such jobs
are looked at.

A node that has claimed one checks it again right before it starts (`late` in `settle.py`).
"""

from __future__ import annotations

from typing import Any

from ..errors import NotPermitted, StoreError, StoreUnavailable, Unstorable
from ..records.states import JobState
from . import on_demand
from .call import Operation, find_some, update_many, update_one
from .end import IS_LATE, closed, too_late
from .indexes import START_BY
from .names import JOBS
from .raw import Raw, identity
from .repair import set_aside
from .retention import FOR_EVER, Retention

EACH_AT_ONCE = 1000

# One that failed or was lost before has been started; nodes of an earlier release leave it its
# `start_by`.
_LATE: dict[str, Any] = {
    "seq": {"$gte": 0},  # whoever numbers it judges it first
    "state": JobState.QUEUED.value,
    "start_by": {"$type": "date"},
    "$expr": IS_LATE,
    "fails": {"$not": {"$gt": 0}},
    "lost": {"$not": {"$gt": 0}},
}


def cancel_late(retention: Retention = FOR_EVER) -> Operation[int]:
    """Cancel the queued jobs that were not started in time; how many."""
    return on_demand.using(START_BY, _cancel_late(retention))


def _cancel_late(retention: Retention) -> Operation[int]:
    found: list[Raw] = yield find_some(
        JOBS, _LATE, projection={"_id": 1}, hint=START_BY, limit=EACH_AT_ONCE
    )
    if not found:
        return 0
    update = closed([{"$set": too_late()}], retention)
    try:
        answer = yield update_many(JOBS, _LATE, update, hint=START_BY, repeats=True)
        return int(answer.modified_count)
    except (StoreUnavailable, NotPermitted):
        raise
    except StoreError:
        return (yield from _cancel_each(found, update, retention))


def _cancel_each(
    found: list[Raw], update: list[dict[str, Any]], retention: Retention
) -> Operation[int]:
    """One of these cannot take what is to be written, and must not keep the others from it."""
    cancelled = 0
    for job in found:
        one = {**_LATE, **identity(job)}
        try:
            answer = yield update_one(JOBS, one, update, repeats=True)
            cancelled += answer.modified_count
        except Unstorable as error:
            reason = f"it was not started in time, and that cannot be noted: {error}"
            cancelled += yield from set_aside(one, reason, retention)
    return cancelled
