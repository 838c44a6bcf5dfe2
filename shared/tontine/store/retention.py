"""How long finished jobs are kept: for ever, unless `tontine init` was told otherwise; the same for all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..states import JobState
from .call import Call, Steps, find_one
from .schema import CLUSTER, JOBS, SETTINGS

_UNSUCCESSFUL = [JobState.FAILED.value, JobState.CANCELLED.value]


@dataclass(frozen=True, slots=True)
class Retention:
    """Seconds to keep jobs that are done, and those that failed or were cancelled; None is for ever."""

    done: float | None = None
    failed: float | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Retention:
        document = document or {}
        return cls(document.get("keep_done"), document.get("keep_failed"))

    def expiry(self, *, done: bool) -> Any:
        """`expire_at` of a job that ends now, as an expression; removed when it is to be kept."""
        keep = self.done if done else self.failed
        return "$$REMOVE" if keep is None else {"$add": ["$$NOW", round(keep * 1000)]}


FOR_EVER = Retention()


def read_retention() -> Steps[Retention]:
    """What is in force."""
    return Retention.from_document((yield find_one(CLUSTER, {"_id": SETTINGS})))


def keep(retention: Retention) -> Steps[int]:
    """Put a retention in force, also for jobs that have ended already; how many of those it changed."""
    values = {"keep_done": retention.done, "keep_failed": retention.failed}
    yield Call(CLUSTER, "update_one", ({"_id": SETTINGS}, {"$set": values}), {"upsert": True}, repeats=True)
    changed = 0
    for states, seconds in (([JobState.DONE.value], retention.done), (_UNSUCCESSFUL, retention.failed)):
        if seconds is None:
            matching: dict[str, Any] = {"state": {"$in": states}, "expire_at": {"$exists": True}}
            update: dict[str, Any] = {"$unset": "expire_at"}
        else:
            matching = {"state": {"$in": states}, "finished_at": {"$type": "date"}}
            update = {"$set": {"expire_at": {"$add": ["$finished_at", round(seconds * 1000)]}}}
        answer = yield Call(JOBS, "update_many", (matching, [update]), repeats=True, within=600)
        changed += answer.modified_count
    return changed
