"""(5) Settle: the one write that ends an attempt. Also what gives a job back: release, and repair after a death.

Every filter names the job, `working`, the node and the attempt, so a late writer changes nothing (S1, S2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd
from typing import Any, Literal

from bson.raw_bson import RawBSONDocument
from pymongo import UpdateOne

from ..job import ERRORS_KEPT, JobError
from ..states import FINAL, JobState, NodeState
from .bell import ring, ring_jobs
from .call import Call, Steps, find
from .claim import LIMIT
from .members import presume_dead
from .retention import FOR_EVER, Retention
from .schema import JOBS, NODES

_WORKING, _QUEUED = JobState.WORKING.value, JobState.QUEUED.value
_FAILED, _CANCELLED = JobState.FAILED.value, JobState.CANCELLED.value
_FINAL = sorted(state.value for state in FINAL)

Kind = Literal["done", "failed", "refused", "retry", "cancelled", "released", "lost"]
"""`refused` is a failure that the task had no part in, and `released` gives a job back: neither counts as an attempt
that failed. `lost` is an attempt that ended with its worker."""


@dataclass(slots=True)
class Outcome:
    """How one attempt ended, as it will be written. Made for every job: frozen, it would cost three times more."""

    kind: Kind
    seq: int
    attempt: int
    ran: float | None = None
    """Seconds from its start to its end; None when it never started."""
    result: bytes = b""
    """For `done`: the document {"r": result, "ms": milliseconds run}, encoded by the worker."""
    error: JobError | None = None
    delay: float = 0.0
    clean: bool = False
    """For `done`: no earlier attempt left an error, so many of these can be settled by one update."""
    final: bool = False
    """For `lost`: the task does not want to be run again after that."""


@dataclass(slots=True)
class Settled:
    """Which seqs' outcomes were accepted, and which were refused because the job is no longer this node's."""

    accepted: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)


def settle_done(
    node: str, attempt: int, results: Mapping[int, bytes], retention: Retention = FOR_EVER
) -> Steps[Settled]:
    """Settle many jobs of one attempt number as done in one update that looks each result up by its place (J3)."""
    seqs = sorted(results)
    mine = _looked_up(seqs, results)
    done: dict[str, Any] = {
        "state": JobState.DONE.value,
        "result": "$$mine.r",
        "finished_at": "$$NOW",
        "started_at": {"$subtract": ["$$NOW", "$$mine.ms"]},
    }
    if retention.done is not None:
        done["expire_at"] = retention.expiry(done=True)
    update = [{"$replaceWith": {"$let": {"vars": {"mine": mine}, "in": {"$mergeObjects": ["$$ROOT", done]}}}}]
    answer = yield Call(JOBS, "update_many", (_mine(node, attempt, {"$in": seqs}), update), repeats=True)
    if answer.modified_count == len(seqs):
        return Settled(accepted=set(seqs))
    return (yield from verify(node, dict.fromkeys(seqs, attempt)))


def _looked_up(seqs: Sequence[int], results: Mapping[int, bytes]) -> dict[str, Any]:
    """The expression for a job's own result.

    A share's seqs are evenly spaced: unless many are missing, a place can be counted, which is quicker than searching.
    """
    if len(set(results.values())) == 1:
        return {"$literal": RawBSONDocument(results[seqs[0]])}
    step = gcd(*(after - before for before, after in pairwise(seqs)))
    places = range(seqs[0], seqs[-1] + 1, step)
    if len(places) > 2 * len(seqs):
        found = [RawBSONDocument(results[seq]) for seq in seqs]
        return {"$arrayElemAt": [{"$literal": found}, {"$indexOfArray": [{"$literal": seqs}, "$seq"]}]}
    spread = [RawBSONDocument(results[seq]) if seq in results else None for seq in places]
    return {"$arrayElemAt": [{"$literal": spread}, {"$divide": [{"$subtract": ["$seq", seqs[0]]}, step]}]}


GIVEN_BACK = ("released", "lost")


def settle_each(node: str, outcomes: Sequence[Outcome], retention: Retention = FOR_EVER) -> Steps[Settled]:
    """Settle attempts that ended differently, in one unordered bulk."""
    updates = [UpdateOne(_mine(node, one.attempt, one.seq), _ending(one, retention)) for one in outcomes]
    answer = yield Call(JOBS, "bulk_write", (updates,), {"ordered": False}, repeats=True)
    # Some may be in the share of a node that has nothing to do.
    if queued := [one.seq for one in outcomes if one.kind in ("retry", *GIVEN_BACK)]:
        yield from ring_jobs(min(queued), max(queued), fresh=False)
    if answer.modified_count == len(outcomes):
        return Settled(accepted={one.seq for one in outcomes})
    attempts = {one.seq: one.attempt for one in outcomes}
    return (yield from verify(node, attempts, {one.seq for one in outcomes if one.kind in GIVEN_BACK}))


def verify(node: str, attempts: Mapping[int, int], given_back: Collection[int] = ()) -> Steps[Settled]:
    """What became of settlements that matched fewer jobs than were sent: accepted before, or dropped (J3).

    A job that was `given_back` belongs to nobody since.
    """
    found = yield find(
        JOBS,
        {"seq": {"$in": list(attempts)}},
        projection={"_id": 0, "seq": 1, "state": 1, "node": 1, "attempt": 1},
        hint="seq",
    )
    now = {int(job["seq"]): job for job in found}
    settled = Settled()
    for seq, attempt in attempts.items():
        job = now.get(seq)
        holders = (node, None) if seq in given_back else (node,)
        if job is None or job.get("attempt") != attempt or job.get("node") not in holders:
            settled.dropped.add(seq)
        elif job["state"] != _WORKING:
            settled.accepted.add(seq)
        # Otherwise it is still ours and still open: to be sent again.
    return settled


def release(node: str, attempts: Mapping[int, int], retention: Retention = FOR_EVER) -> Steps[int]:
    """Give jobs back unsettled, at no cost to them (J5); how many were still this node's."""
    update = [_requeue(), {"$set": {"expire_at": _expiry(retention)}}]
    released = 0
    by_attempt: dict[int, list[int]] = {}
    for seq, attempt in attempts.items():
        by_attempt.setdefault(attempt, []).append(seq)
    for attempt, seqs in by_attempt.items():
        answer = yield Call(JOBS, "update_many", (_mine(node, attempt, {"$in": seqs}), update), repeats=True)
        released += answer.modified_count
    return released


def find_held(node: str) -> Steps[dict[int, int]]:
    """What the store says this node holds, as seq -> attempt (J6)."""
    found = yield find(
        JOBS, {"state": _WORKING, "node": node}, projection={"_id": 0, "seq": 1, "attempt": 1}, hint="held"
    )
    return {int(job["seq"]): int(job["attempt"]) for job in found}


def find_cancelled(node: str) -> Steps[set[int]]:
    """The jobs this node holds whose cancelling was asked for (J8)."""
    found = yield find(
        JOBS, {"state": _WORKING, "node": node, "cancel": True}, projection={"_id": 0, "seq": 1}, hint="held"
    )
    return {int(job["seq"]) for job in found}


def note_running(node: str, marks: Sequence[tuple[int, int, float, Mapping[str, Any] | None]]) -> Steps[None]:
    """Show when jobs (seq, attempt, seconds ago, progress) started and how far they are, while they run."""
    updates = []
    for seq, attempt, ago, progress in marks:
        values: dict[str, Any] = {"started_at": {"$subtract": ["$$NOW", round(ago * 1000)]}}
        if progress is not None:
            values["progress"] = {"$literal": dict(progress)}
        updates.append(UpdateOne(_mine(node, attempt, seq), [{"$set": values}]))
    yield Call(JOBS, "bulk_write", (updates,), {"ordered": False})


def find_holders() -> Steps[list[str]]:
    """The nodes that hold any job."""
    holders: list[str] = yield Call(JOBS, "distinct", ("node", {"state": _WORKING}), repeats=True)
    return [holder for holder in holders if holder is not None]


def repair(
    fail_tasks: Sequence[str], retention: Retention = FOR_EVER, holders: Collection[str] | None = None
) -> Steps[dict[str, int]]:
    """Give back or fail the jobs of the dead among those who hold any (J7): how many, by node. Any node may, always."""
    if holders is None:
        holders = yield from find_holders()
    if not holders:
        return {}
    # The holders were read first: a node born after that cannot be taken for a missing one.
    known = yield find(NODES, {"_id": {"$in": list(holders)}}, projection={"state": 1, "careful": 1})
    states = {node["_id"]: node["state"] for node in known}
    careful = {node["_id"]: node.get("careful") or [] for node in known}
    repaired: dict[str, int] = {}
    for holder in holders:
        if holder not in states:
            states[holder] = yield from presume_dead(holder)
        if states[holder] == NodeState.DEAD:
            unwilling = {"$in": ["$task", {"$literal": [*fail_tasks, *careful.get(holder, ())]}]}
            update = _losing(unwilling, {"$literal": f"node {holder} died"})
            update.append({"$set": {"expire_at": _expiry(retention)}})
            answer = yield Call(JOBS, "update_many", ({"state": _WORKING, "node": holder}, update), {"hint": "held"})
            repaired[holder] = answer.modified_count
    if any(repaired.values()):
        yield from ring(JOBS)
    return repaired


def _mine(node: str, attempt: int, seq: Any) -> dict[str, Any]:
    return {"seq": seq, "state": _WORKING, "node": node, "attempt": attempt}


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


def _requeue(delay: float = 0.0, **more: Any) -> dict[str, Any]:
    later = {"$add": ["$$NOW", round(delay * 1000)]} if delay else "$$NOW"
    values = {
        "state": {"$cond": [_ASKED_TO_CANCEL, _CANCELLED, _QUEUED]},
        "finished_at": {"$cond": [_ASKED_TO_CANCEL, "$$NOW", "$$REMOVE"]},
        "run_at": later,
        "node": None,
        "started_at": "$$REMOVE",
        "progress": "$$REMOVE",
    }
    return {"$set": values | more}


def _failing(error: JobError | None) -> dict[str, Any]:
    if error is None:
        return {}
    return {"errors": ERRORS_SO_FAR, "error": {"$literal": error.to_document()}}


def _ending(one: Outcome, retention: Retention) -> list[dict[str, Any]]:
    """The update for one outcome."""
    return [*_change(one), {"$set": {"expire_at": _expiry(retention)}}]


def _expiry(retention: Retention) -> dict[str, Any]:
    """`expire_at` by the state that the stages before have led to."""
    done = {"$cond": [{"$eq": ["$state", JobState.DONE.value]}, retention.expiry(done=True), "$$REMOVE"]}
    return {"$cond": [{"$in": ["$state", [_FAILED, _CANCELLED]]}, retention.expiry(done=False), done]}


def _change(one: Outcome) -> list[dict[str, Any]]:
    if one.kind == "lost":
        reason = one.error.message if one.error else "the worker ended"
        return _losing(one.final, {"$literal": reason})
    if one.kind == "released":
        return [_requeue()]
    fields = _failing(one.error)
    if one.ran is not None and one.kind != "retry":
        fields["started_at"] = {"$subtract": ["$$NOW", round(one.ran * 1000)]}
    if one.kind == "retry":
        # `node` stays: it lets a repeated settlement see that the first one was accepted.
        return [_requeue(one.delay, **fields, fails={"$add": ["$fails", 1]}, node="$node")]
    fields["finished_at"] = "$$NOW"
    if one.kind == "done":
        # The result stays encoded: what a driver cannot decode, a task may still return.
        result = {"$let": {"vars": {"mine": {"$literal": RawBSONDocument(one.result)}}, "in": "$$mine.r"}}
        done = {"state": JobState.DONE.value, "result": result, "errors": ERRORS_SO_FAR}
        return [{"$set": fields | done}, {"$unset": "error"}]
    if one.kind == "cancelled":
        return [{"$set": fields | {"state": _CANCELLED}}]
    if one.kind == "failed":
        fields["fails"] = {"$add": ["$fails", 1]}
    return [{"$set": fields | {"state": _FAILED}}]


def _losing(hopeless: Any, reason: Any) -> list[dict[str, Any]]:
    """An attempt that ended with its worker or node: counted, then given back, failed or cancelled."""
    hopeless = {"$or": [hopeless, {"$gte": ["$lost", LIMIT]}]}
    ends = {"$or": [hopeless, _ASKED_TO_CANCEL]}
    times = {"$cond": [{"$eq": ["$lost", 1]}, "once", {"$concat": [{"$toString": "$lost"}, " times"]}]}
    message = {"$concat": ["its worker or node ended ", times, " while it ran: ", reason]}
    error = {"type": "Lost", "message": message, "traceback": ""}
    return [
        {"$set": {"lost": {"$add": ["$lost", 1]}}},
        {
            "$set": {
                "state": {"$cond": [_ASKED_TO_CANCEL, _CANCELLED, {"$cond": [hopeless, _FAILED, _QUEUED]}]},
                "errors": ERRORS_SO_FAR,
                "error": error,
                "finished_at": {"$cond": [ends, "$$NOW", "$$REMOVE"]},
                "run_at": "$$NOW",
                "node": {"$cond": [ends, "$node", None]},
                "started_at": {"$cond": [ends, "$started_at", "$$REMOVE"]},
                "progress": {"$cond": [ends, "$progress", "$$REMOVE"]},
            }
        },
    ]
