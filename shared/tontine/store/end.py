"""(6) The end: what makes a job final, and what gives it back instead. No other file of the store
writes a final state.

Whatever is to happen when a job has ended hangs here. Updates are pipelines, so that `$$NOW` is the
server's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ..records.job import ERRORS_KEPT, LAST_ATTEMPT, LAST_SEQ, LIMIT, JobError
from ..records.states import FINAL, JOB_MOVES, JobState, sources
from .retention import Retention

Stage = dict[str, Any]

FINAL_STATES = sorted(state.value for state in FINAL)
CANCELLABLE = sources(JOB_MOVES, JobState.CANCELLED)
"""The states out of which a job can be cancelled, or fail."""
_DONE, _FAILED, _CANCELLED = JobState.DONE.value, JobState.FAILED.value, JobState.CANCELLED.value
_QUEUED = JobState.QUEUED.value

_ASKED_TO_CANCEL = {"$eq": ["$cancel", True]}
ERRORS_SO_FAR = {
    "$slice": [
        {
            "$concatArrays": [
                {"$cond": [{"$isArray": "$errors"}, "$errors", []]},
                {"$cond": [{"$eq": [{"$type": "$error"}, "object"]}, ["$error"], []]},
            ]
        },
        -ERRORS_KEPT,
    ]
}


def ending(state: JobState, **fields: Any) -> dict[str, Any]:
    """The fields of a job that ends now."""
    return {"state": state.value, "finished_at": "$$NOW", **fields}


def noting(error: JobError | None) -> dict[str, Any]:
    """The fields that tell of an error; the one before it joins the earlier ones."""
    if error is None:
        return {}
    return {"errors": ERRORS_SO_FAR, "error": {"$literal": error.to_document()}}


def closed(stages: Sequence[Stage], retention: Retention) -> list[Stage]:
    """Stages that may end a job, with `expire_at` by the state that they have led to."""
    done = {"$cond": [{"$eq": ["$state", _DONE]}, retention.expiry(done=True), "$$REMOVE"]}
    expiry = {
        "$cond": [{"$in": ["$state", [_FAILED, _CANCELLED]]}, retention.expiry(done=False), done]
    }
    return [*stages, {"$set": {"expire_at": expiry}}]


def one_more(count: str) -> dict[str, Any]:
    """A count that grows, whatever somebody has written there: it must not keep an attempt from
    ending."""
    return {"$add": [{"$cond": [{"$isNumber": count}, count, 0]}, 1]}


def given_back(delay: float = 0.0, **fields: Any) -> Stage:
    """Queued again; or cancelled, where that was asked for meanwhile (J8)."""
    later = {"$add": ["$$NOW", round(delay * 1000)]} if delay else "$$NOW"
    values = {
        "state": {"$cond": [_ASKED_TO_CANCEL, _CANCELLED, _QUEUED]},
        "finished_at": {"$cond": [_ASKED_TO_CANCEL, "$$NOW", "$$REMOVE"]},
        "run_at": later,
        "node": None,
        "started_at": "$$REMOVE",
        "progress": "$$REMOVE",
    }
    return {"$set": values | fields}


_UNLESS_DONE = {
    name: {"$cond": [{"$eq": ["$state", _DONE]}, "$$REMOVE", f"${name}"]}
    for name in ("stages", "saved")
}
PUT_BACK: list[dict[str, Any]] = [
    {"$set": _UNLESS_DONE},  # of a job that is done, all of it runs again (ME3)
    {
        "$set": {
            "state": _QUEUED,
            "node": None,
            "run_at": "$$NOW",
            "lost": 0,
            "fails": 0,
            "errors": ERRORS_SO_FAR,
        }
    },
    {"$unset": ["cancel", "expire_at", "finished_at", "started_at", "progress", "result", "error"]},
    {"$unset": ["start_by", "held_until", "counts"]},  # its key is held from its next end on
]
"""What makes a queued job of a finished one (J9). The attempt is never reset."""


def lost(hopeless: Any, reason: Any) -> list[Stage]:
    """An attempt that ended with its worker or node: counted, then given back, failed or cancelled
    (J7)."""
    hopeless = {"$or": [hopeless, {"$gte": ["$lost", LIMIT]}]}
    ends = {"$or": [hopeless, _ASKED_TO_CANCEL]}
    times = {
        "$cond": [{"$eq": ["$lost", 1]}, "once", {"$concat": [{"$toString": "$lost"}, " times"]}]
    }
    message = {"$concat": ["its worker or node ended ", times, " while it ran: ", reason]}
    return [
        {"$set": {"lost": one_more("$lost")}},
        {
            "$set": {
                "state": {
                    "$cond": [_ASKED_TO_CANCEL, _CANCELLED, {"$cond": [hopeless, _FAILED, _QUEUED]}]
                },
                "errors": ERRORS_SO_FAR,
                "error": {"type": "Lost", "message": message, "traceback": ""},
                "finished_at": {"$cond": [ends, "$$NOW", "$$REMOVE"]},
                "run_at": "$$NOW",
                "start_by": "$$REMOVE",
                "node": {"$cond": [ends, "$node", None]},
                "started_at": {"$cond": [ends, "$started_at", "$$REMOVE"]},
                "progress": {"$cond": [ends, "$progress", "$$REMOVE"]},
            }
        },
    ]


def cancelled(retention: Retention) -> list[Stage]:
    """A queued job is cancelled, and the holder of a working one is asked to end it (J8)."""
    is_queued = {"$eq": ["$state", _QUEUED]}
    update = {
        "state": {"$cond": [is_queued, _CANCELLED, "$state"]},
        "finished_at": {"$cond": [is_queued, "$$NOW", "$$REMOVE"]},
        "expire_at": {"$cond": [is_queued, retention.expiry(done=False), "$$REMOVE"]},
        "cancel": True,
    }
    return [{"$set": update}]


def halted(*, asks: bool) -> list[Stage]:
    """A plan stops: what is queued of it is cancelled, and the holders of what runs are perhaps
    asked to end it (PL10)."""
    is_queued = {"$eq": ["$state", _QUEUED]}
    update = {
        "state": {"$cond": [is_queued, _CANCELLED, "$state"]},
        "finished_at": {"$cond": [is_queued, "$$NOW", "$finished_at"]},
        "stopped": True,
    }
    if asks:
        update["cancel"] = {"$cond": [is_queued, "$cancel", True]}
    return [{"$set": update}]


ORPHANS_KEPT = 3600.0
"""Seconds for which a job is kept whose plan is gone."""


def unlicensed(*, is_orphan: bool) -> list[Stage]:
    """A claimed job that its plan gives no leave to start (PL5)."""
    ended = ending(JobState.CANCELLED, stopped=True, refused=one_more("$refused"))
    if is_orphan:
        ended["expire_at"] = {"$add": ["$$NOW", round(ORPHANS_KEPT * 1000)]}
    return [{"$set": ended}]


TOO_LATE = "TooLate"
"""The type of the error of a job that was cancelled because it had not been started by `start_by`.
"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

IS_LATE = {"$and": [{"$eq": [{"$type": "$start_by"}, "date"]}, {"$lt": ["$start_by", "$$NOW"]}]}


def too_late() -> dict[str, Any]:
    """The fields of a job that was not started in time."""
    # Not every date of BSON can be written out.
    by = {
        "$cond": [
            {"$gte": ["$start_by", _EPOCH]},
            {"$dateToString": {"date": "$start_by"}},
            "a time long past",
        ]
    }
    message = {"$concat": ["it was not started by ", by, ", and shall not be later"]}
    error = {"type": TOO_LATE, "message": message, "traceback": ""}
    return ending(JobState.CANCELLED, errors=ERRORS_SO_FAR, error=error)


def too_late_or_given_back() -> Stage:
    """Cancelled if the server's clock says that it is late, too; otherwise it goes back, and is
    claimed again."""
    late, back = too_late(), given_back()["$set"]
    return {
        "$set": {
            name: {"$cond": [IS_LATE, late.get(name, f"${name}"), back.get(name, f"${name}")]}
            for name in sorted({*late, *back})
        }
    }


def unfit(error: JobError) -> list[Stage]:
    """Failed, with counts that are counts; what was odd is in the error."""
    sound = {
        name: {"$cond": [_is_count(f"${name}", last), f"${name}", 0]}
        for name, last in (("attempt", LAST_ATTEMPT), ("fails", LAST_SEQ), ("lost", LAST_SEQ))
    }
    text_or_none = {"$cond": [{"$eq": [{"$type": "$node"}, "string"]}, "$node", None]}
    return [
        {"$set": {**sound, **ending(JobState.FAILED, **noting(error), node=text_or_none)}},
        {"$unset": ["priority", "timeout", "max_attempts", "cancel"]},
    ]


def _is_count(value: str, last: int) -> dict[str, Any]:
    return {"$and": [{"$isNumber": value}, {"$gte": [value, 0]}, {"$lte": [value, last]}]}


_KEPT_BARE = {
    **dict.fromkeys(("task", "node", "attempt", "fails", "lost", "created_at", "schedule"), 1000),
    **dict.fromkeys(("refused", "stopped", "tenant"), 1000),
    "plan": 100_000,  # without it, a plan would take it for somebody else's
}
"""Fields of a job, and up to how many bytes."""


def bare(error: JobError) -> list[Stage]:
    """Failed, and nothing left of it but what it was, as far as that is small: there was no room
    for more."""
    kept = {
        name: {
            "$cond": [{"$lt": [{"$bsonSize": {"it": f"${name}"}}, most]}, f"${name}", "$$REMOVE"]
        }
        for name, most in _KEPT_BARE.items()
    }
    message = f"{error.message[:1000]} (its other fields had to go to make room for this)"
    short = {"type": error.type[:100], "message": message, "traceback": ""}
    ended = ending(JobState.FAILED, error={"$literal": short})
    return [{"$replaceWith": {"_id": "$_id", "seq": "$seq", **kept, **ended}}]


def never_begun(error: JobError, retention: Retention) -> dict[str, Any]:
    """The fields of a job that fails before it could be one."""
    literal = {"$literal": error.to_document()}
    return ending(JobState.FAILED, error=literal, expire_at=retention.expiry(done=False))


def born_failed(error: JobError, at: datetime, retention: Retention) -> dict[str, Any]:
    """The same for a document that is inserted like that, in server time `at`."""
    document = {"state": _FAILED, "error": error.to_document(), "finished_at": at}
    if retention.failed is not None:
        document["expire_at"] = at + timedelta(seconds=retention.failed)
    return document
