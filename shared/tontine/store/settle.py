"""(5) Settle: the one write that ends an attempt, and the release of a job that was not run.

Every filter names the job, `working`, the node and the attempt, so a late writer changes nothing
(S1, S2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd
from typing import Any, Literal

from bson.raw_bson import RawBSONDocument
from pymongo import UpdateOne

from ..records.counted import Noted
from ..records.job import LAST_ATTEMPT, LAST_SEQ, JobError, is_whole
from ..records.states import JobState
from .bell import ring_jobs
from .call import Operation, bulk_write, find, update_many
from .end import (
    ERRORS_SO_FAR,
    Stage,
    bare,
    closed,
    ending,
    given_back,
    lost,
    noting,
    one_more,
    too_late_or_given_back,
    unlicensed,
)
from .names import JOBS
from .raw import Raw
from .retention import FOR_EVER, Retention

_WORKING = JobState.WORKING.value

Kind = Literal[
    "done", "failed", "refused", "retry", "cancelled", "released", "lost", "late", "unlicensed"
]
"""`refused` is a failure that the task had no part in, and `released` gives a job back: neither
counts as an attempt that failed. `lost` is an attempt that ended with its worker. `late` was not
started in time, if the server agrees. `unlicensed` is a plan's job that its plan did not let
start."""


Saved = tuple[int, bytes]
"""What a task saved: its number in that attempt, and it itself as {"r": value}."""


@dataclass(slots=True)
class Outcome:
    """How one attempt ended, as it will be written. Made for every job: frozen, it would cost three
    times more."""

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
    """For `done`: no earlier attempt left an error, so many of these can be settled by one update.
    """
    final: bool = False
    """For `lost`: the task does not want to be run again after that; for `unlicensed`: its plan is
    gone."""
    progress: tuple[float, str] | None = None
    """What the task said last of how far it is."""
    bare: bool = False
    """For `refused`: its document has no room for that, so everything goes that is not needed to
    say so."""
    begun: bool = False
    """For `released`: a worker may have begun it, so that it was started in time."""
    more: bool = False
    """For `done`: steps to add to its plan are in `result`, too, as `m` (PL13)."""
    noted: Noted | None = None
    """For `done`: what the task has counted and observed; its counts are in `result`, too, as `c`.
    """
    saved: Saved | None = None
    """What the task saved and is not written yet."""


@dataclass(slots=True)
class Settled:
    """Which seqs' outcomes were accepted, and which were refused because the job is no longer this
    node's."""

    accepted: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)


def settle_done(
    node: str,
    attempt: int,
    results: Mapping[int, bytes],
    retention: Retention = FOR_EVER,
    *,
    are_counted: bool = False,
) -> Operation[Settled]:
    """Settle many jobs of one attempt number as done in one update that looks each result up by its
    place (J3). Only where some `are_counted`, counts are looked for (MM2)."""
    seqs = sorted(results)
    mine = _looked_up(seqs, results)
    done = ending(
        JobState.DONE, result="$$mine.r", started_at={"$subtract": ["$$NOW", "$$mine.ms"]}
    )
    if are_counted:
        done["counts"] = "$$mine.c"
    if retention.done is not None:
        done["expire_at"] = retention.expiry(done=True)
    update = [
        {
            "$replaceWith": {
                "$let": {"vars": {"mine": mine}, "in": {"$mergeObjects": ["$$ROOT", done]}}
            }
        }
    ]
    answer = yield update_many(JOBS, fenced(node, attempt, {"$in": seqs}), update, repeats=True)
    if answer.modified_count == len(seqs):
        return Settled(accepted=set(seqs))
    return (yield from verify(node, dict.fromkeys(seqs, attempt)))


def _looked_up(seqs: Sequence[int], results: Mapping[int, bytes]) -> dict[str, Any]:
    """The expression for a job's own result.

    A share's seqs are evenly spaced: unless many are missing, a place can be counted, which is
    quicker than searching.
    """
    if len(set(results.values())) == 1:
        return {"$literal": RawBSONDocument(results[seqs[0]])}
    step = gcd(*(after - before for before, after in pairwise(seqs)))
    places = range(seqs[0], seqs[-1] + 1, step)
    if len(places) > 2 * len(seqs):
        found = [RawBSONDocument(results[seq]) for seq in seqs]
        return {
            "$arrayElemAt": [{"$literal": found}, {"$indexOfArray": [{"$literal": seqs}, "$seq"]}]
        }
    spread = [RawBSONDocument(results[seq]) if seq in results else None for seq in places]
    return {
        "$arrayElemAt": [
            {"$literal": spread},
            {"$divide": [{"$subtract": ["$seq", seqs[0]]}, step]},
        ]
    }


GIVEN_BACK = ("released", "lost", "late")


def settle_each(
    node: str, outcomes: Sequence[Outcome], retention: Retention = FOR_EVER
) -> Operation[Settled]:
    """Settle attempts that ended differently, in one unordered bulk."""
    updates = [
        UpdateOne(fenced(node, one.attempt, one.seq), _ending(one, retention)) for one in outcomes
    ]
    answer = yield bulk_write(JOBS, updates, repeats=True)
    # Some may be in the share of a node that has nothing to do.
    if queued := [one.seq for one in outcomes if one.kind in ("retry", *GIVEN_BACK)]:
        yield from ring_jobs(min(queued), max(queued), fresh=False)
    if answer.modified_count == len(outcomes):
        return Settled(accepted={one.seq for one in outcomes})
    attempts = {one.seq: one.attempt for one in outcomes}
    return (
        yield from verify(node, attempts, {one.seq for one in outcomes if one.kind in GIVEN_BACK})
    )


def verify(
    node: str, attempts: Mapping[int, int], given_back: Collection[int] = ()
) -> Operation[Settled]:
    """What became of settlements that matched fewer jobs than were sent: accepted before, or
    dropped (J3).

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
        elif job.get("state") != _WORKING:
            settled.accepted.add(seq)
        # Otherwise it is still ours and still open: to be sent again.
    return settled


def release(
    node: str, attempts: Mapping[int, int], retention: Retention = FOR_EVER
) -> Operation[int]:
    """Give jobs back unsettled, at no cost to them (J5); how many were still this node's."""
    update = closed([given_back()], retention)
    released = 0
    by_attempt: dict[int, list[int]] = {}
    for seq, attempt in attempts.items():
        by_attempt.setdefault(attempt, []).append(seq)
    for attempt, seqs in by_attempt.items():
        answer = yield update_many(JOBS, fenced(node, attempt, {"$in": seqs}), update, repeats=True)
        released += answer.modified_count
    return released


@dataclass(slots=True)
class Held:
    """What the store says a node holds: attempts by seq, and documents in which these are no
    numbers."""

    attempts: dict[int, int] = field(default_factory=dict)
    odd: list[Raw] = field(default_factory=list)


def find_held(node: str) -> Operation[Held]:
    """What the store says this node holds (J6)."""
    mine = {"state": _WORKING, "node": node}
    found: list[Raw] = yield find(
        JOBS, mine, projection={"seq": 1, "attempt": 1}, hint="held", raw=True
    )
    held = Held()
    for job in found:
        seq, attempt = job.get("seq"), job.get("attempt")
        if (
            is_whole(seq)
            and is_whole(attempt)
            and 0 <= attempt <= LAST_ATTEMPT
            and 0 <= seq < LAST_SEQ
        ):
            held.attempts[int(seq)] = int(attempt)
        else:
            held.odd.append(job)
    return held


def find_cancelled(node: str) -> Operation[set[int]]:
    """The jobs this node holds whose cancelling was asked for (J8)."""
    asked = {"state": _WORKING, "node": node, "cancel": True}
    found: list[Raw] = yield find(JOBS, asked, projection={"seq": 1}, hint="held", raw=True)
    return {int(job["seq"]) for job in found if is_whole(job.get("seq"))}


def note_running(
    node: str, marks: Sequence[tuple[int, int, float, Mapping[str, Any] | None]]
) -> Operation[None]:
    """Show when jobs (seq, attempt, seconds ago, progress) started and how far they are, while they
    run."""
    updates = []
    for seq, attempt, ago, progress in marks:
        values: dict[str, Any] = {"started_at": {"$subtract": ["$$NOW", round(ago * 1000)]}}
        if progress is not None:
            values["progress"] = {"$literal": dict(progress)}
        updates.append(UpdateOne(fenced(node, attempt, seq), [{"$set": values}]))
    yield bulk_write(JOBS, updates)


def fenced(node: str, attempt: int, seq: Any) -> dict[str, Any]:
    """The condition that only the holder of this attempt meets."""
    return {"seq": seq, "state": _WORKING, "node": node, "attempt": attempt}


def _ending(one: Outcome, retention: Retention) -> list[Stage]:
    """The update for one outcome."""
    if one.kind == "unlicensed":
        return unlicensed(is_orphan=one.final)
    if one.saved is None or one.bare:
        return closed(_change(one), retention)
    last = {"$set": {"saved": saving(one.attempt, one.saved)}}
    return closed([last, *_change(one)], retention)


def saving(attempt: int, saved: Saved) -> dict[str, Any]:
    """What a task saved, unless something newer of this attempt is there: a write may be late."""
    number, body = saved
    is_there = {
        "$and": [{"$eq": ["$saved.attempt", attempt]}, {"$gte": ["$saved.n", number]}],
    }
    new = {
        "$let": {
            "vars": {"mine": {"$literal": RawBSONDocument(body)}},
            "in": {"attempt": attempt, "n": number, "value": "$$mine.r"},
        }
    }
    return {"$cond": [is_there, "$saved", new]}


def _change(one: Outcome) -> list[Stage]:
    if one.kind == "lost":
        reason = one.error.message if one.error else "the worker ended"
        return [*_last_progress(one), *lost(one.final, {"$literal": reason})]
    if one.kind == "released":
        return [given_back(start_by="$$REMOVE") if one.begun else given_back()]
    if one.kind == "late":
        return [too_late_or_given_back()]
    if one.bare:
        return bare(one.error or JobError("UnstorableResult", "its outcome cannot be stored"))
    return [*_last_progress(one), *_conclusion(one)]


def _last_progress(one: Outcome) -> list[Stage]:
    """A job that ends shows the last that its task said, also what was not written while it ran."""
    if one.progress is None:
        return []
    value, note = one.progress
    return [{"$set": {"progress": {"$literal": {"value": value, "note": note}}}}]


def _conclusion(one: Outcome) -> list[Stage]:
    fields = noting(one.error)
    if one.kind == "retry":
        # `node` stays: it lets a repeated settlement see that the first one was accepted.
        return [
            given_back(
                one.delay, **fields, fails=one_more("$fails"), node="$node", start_by="$$REMOVE"
            )
        ]
    if one.ran is not None:
        fields["started_at"] = {"$subtract": ["$$NOW", round(one.ran * 1000)]}
    if one.kind == "done":
        # The result stays encoded: what a driver cannot decode, a task may still return.
        result = {
            "$let": {"vars": {"mine": {"$literal": RawBSONDocument(one.result)}}, "in": "$$mine.r"}
        }
        fields |= {"result": result, "errors": ERRORS_SO_FAR}
        if one.more:
            fields["more"] = {
                "$let": {
                    "vars": {"mine": {"$literal": RawBSONDocument(one.result)}},
                    "in": "$$mine.m",
                }
            }
        if one.noted is not None and one.noted.counts:
            fields["counts"] = {"$literal": one.noted.counts}
        return [{"$set": ending(JobState.DONE, **fields)}, {"$unset": "error"}]
    if one.kind == "cancelled":
        return [{"$set": ending(JobState.CANCELLED, **fields)}]
    if one.kind == "failed":
        fields["fails"] = one_more("$fails")
    return [{"$set": ending(JobState.FAILED, **fields)}]
