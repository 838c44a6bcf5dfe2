"""How long finished jobs are kept: for ever, unless `tontine init` was told otherwise; the same for
all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from ..records.states import ENDED_PLAN, JobState, PlanState
from .call import Operation, find_one, update_many, update_one
from .names import CLUSTER, JOBS, LOGS, PLANS, SETTINGS

SHORTEST, LONGEST = 60.0, 100 * 365 * 86400.0

_NEVER = "$$REMOVE"
IS_OF_A_PLAN = {"$ne": [{"$type": "$plan"}, "missing"]}
_UNSUCCESSFUL = [JobState.FAILED.value, JobState.CANCELLED.value]


@dataclass(frozen=True, slots=True)
class Retention:
    """Seconds to keep jobs that are done, and those that failed or were cancelled; None is for
    ever."""

    done: float | None = None
    failed: float | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Retention:
        document = document or {}
        return cls(_sane(document.get("keep_done")), _sane(document.get("keep_failed")))

    def check(self) -> None:
        """Refuse times that cannot be meant."""
        for seconds in (self.done, self.failed):
            if seconds is not None and not SHORTEST <= seconds <= LONGEST:
                raise ConfigError(
                    "finished jobs can be kept for a minute to a century, or `forever`"
                )

    def expiry(self, *, done: bool) -> Any:
        """`expire_at` of a job that ends now, as an expression; removed when it is to be kept, and
        of a job of a plan, which goes with its plan (PL16)."""
        later = _later("$$NOW", self.done if done else self.failed)
        return later if later == _NEVER else {"$cond": [IS_OF_A_PLAN, _NEVER, later]}

    def expiry_of_plan(self, *, done: bool) -> Any:
        """`expire_at` of a plan that ends now."""
        return _later("$$NOW", self.done if done else self.failed)

    def expiry_of_logs(self, written: str = "$$NOW") -> Any:
        """`expire_at` of lines: as long as their job can be there, however it ends."""
        longest = None if self.done is None or self.failed is None else max(self.done, self.failed)
        return _later(written, longest)


def _later(moment: str, seconds: float | None) -> Any:
    return _NEVER if seconds is None else {"$add": [moment, round(seconds * 1000)]}


def _sane(seconds: Any) -> float | None:
    # Whatever was written there, it must not keep a job from being settled.
    return (
        float(seconds)
        if isinstance(seconds, int | float)
        and not isinstance(seconds, bool)
        and SHORTEST <= seconds <= LONGEST
        else None
    )


FOR_EVER = Retention()


def read_retention() -> Operation[Retention]:
    """What is in force."""
    return Retention.from_document((yield find_one(CLUSTER, {"_id": SETTINGS})))


def keep(retention: Retention) -> Operation[int]:
    """Put a retention in force, also for jobs that have ended already and their lines; how many
    jobs it changed."""
    retention.check()
    values = {"keep_done": retention.done, "keep_failed": retention.failed}
    yield update_one(CLUSTER, {"_id": SETTINGS}, {"$set": values}, upsert=True, repeats=True)
    changed = 0
    for states, seconds in (
        ([JobState.DONE.value], retention.done),
        (_UNSUCCESSFUL, retention.failed),
    ):
        if seconds is None:
            matching: dict[str, Any] = {"state": {"$in": states}, "expire_at": {"$exists": True}}
            update: dict[str, Any] = {"$unset": "expire_at"}
        else:
            matching = {
                "state": {"$in": states},
                "finished_at": {"$type": "date"},
                "plan": {"$exists": False},
            }
            # A key that is held for longer keeps its job: without it, nobody would know.
            later = {"$add": ["$finished_at", round(seconds * 1000)]}
            update = {"$set": {"expire_at": {"$max": [later, "$held_until"]}}}
        answer = yield update_many(JOBS, matching, [update], repeats=True, within=600)
        changed += answer.modified_count
    yield from _keep_plans(retention)
    yield from keep_logs(retention)
    return changed


def _keep_plans(retention: Retention) -> Operation[None]:
    """Let the plans that have ended follow a retention; their jobs go with them."""
    for is_done in (True, False):
        seconds = retention.done if is_done else retention.failed
        states = sorted(state for state in ENDED_PLAN if (state is PlanState.DONE) == is_done)
        ended = {"state": {"$in": states}, "finished_at": {"$type": "date"}}
        update = {"$set": {"expire_at": _later("$finished_at", seconds)}}
        yield update_many(PLANS, ended, [update], repeats=True, within=600)


def keep_logs(retention: Retention) -> Operation[None]:
    """Let the lines that are there follow a retention."""
    update = {"$set": {"expire_at": retention.expiry_of_logs("$at")}}
    yield update_many(LOGS, {"at": {"$type": "date"}}, [update], repeats=True, within=600)
