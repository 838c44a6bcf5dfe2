"""Cancel, put back or remove many jobs: in batches, each job under the conditions under which one
alone is changed.

A job that is no longer what was asked for when its batch is written is left alone, whatever was
counted before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pymongo import UpdateOne

from ..changed import Changed
from ..errors import (
    BulkRefused,
    ManyInterrupted,
    NotPermitted,
    StoreError,
    StoreUnavailable,
    TontineError,
)
from ..filter import Filter
from ..legible import count
from ..records.job import problem
from ..records.states import FINAL, OPEN, JobState
from .bell import ring
from .call import Operation, bulk_write, delete_many, delete_one, find, update_many
from .control import retry, whose_plan
from .end import PUT_BACK, cancelled
from .find import hinted, search
from .names import JOBS, LOGS, OUTPUTS
from .outputs import remove_outputs
from .plans.heed import heed_cancelled
from .read import now
from .retention import SHORTEST, read_retention

BATCH = 1000
_WITHIN = 30.0

Documents = Sequence[Mapping[str, Any]]
Change = Callable[[Documents, Filter, Changed], Operation[Changed]]
"""Changes one batch of jobs that were just seen; what was done up to and with it."""
Hears = Callable[[int], None] | None

_SEQ_ONLY = {"_id": 0, "seq": 1}
# What tells whether a job can be run: arguments that are an object, as almost all are, need not be
# read for that.
_FITNESS: dict[str, Any] = {
    **dict.fromkeys(
        ("seq", "state", "attempt", "task", "key", "run_at", "priority", "max_attempts", "timeout"),
        1,
    ),
    "_id": 0,
    "plan": 1,
    "args": {"$cond": [{"$eq": [{"$type": "$args"}, "object"]}, {"$literal": {}}, "$args"]},
}


def cancel_many(filter: Filter, progress: Hears = None) -> Operation[Changed]:
    """Cancel queued jobs, and ask the holders of working ones to end them."""
    meant = filter.meaning(OPEN, OPEN, "cancelled")
    update = cancelled((yield from read_retention()))

    def change(batch: Documents, filter: Filter, so_far: Changed) -> Operation[Changed]:
        seqs = [one["seq"] for one in batch]
        still_meant = {"$and": [{"seq": {"$in": seqs}}, filter.where()]}
        yield from hinted(
            update_many(JOBS, still_meant, update, repeats=True, within=_WITHIN), "seq"
        )
        yield from ring(JOBS)
        # Counted afterwards: a write whose answer was lost and that was made again matches what is
        # left only.
        asked = {"seq": {"$in": seqs}, "cancel": True, "state": {"$in": [_CANCELLED, _WORKING]}}
        fields = {"state": 1, "plan.seq": 1}
        found = yield from hinted(find(JOBS, asked, projection=fields), "seq")
        if planned := [one["_id"] for one in found if "plan" in one]:
            yield from heed_cancelled(planned)
        return so_far.plus(len(found), running=sum(one["state"] == _WORKING for one in found))

    return (yield from _each(meant, _SEQ_ONLY, change, "cancelled", progress))


_CANCELLED, _WORKING = JobState.CANCELLED.value, JobState.WORKING.value


def retry_many(filter: Filter, progress: Hears = None) -> Operation[Changed]:
    """Put ended jobs back in the queue: failed ones, unless states are named."""
    meant = filter.meaning(FINAL, [JobState.FAILED], "put back")
    return (yield from _each(meant, _FITNESS, _put_back, "put back", progress))


def purge(filter: Filter, progress: Hears = None) -> Operation[Changed]:
    """Remove ended jobs and what their tasks printed.

    Not those of the last minute: whoever inserted a job and heard no answer inserts it again, and
    must find it.
    """
    meant = filter.meaning(FINAL, FINAL, "removed")
    yield from _check_removing()
    return (yield from _each((yield from lasting(meant)), _SEQ_ONLY, _remove, "removed", progress))


def lasting(filter: Filter) -> Operation[Filter]:
    """The same without jobs that ended in the last minute."""
    moment = yield from now()
    anchored = filter.anchored(moment)
    latest = moment - timedelta(seconds=SHORTEST)
    return replace(
        anchored, until=latest if anchored.until is None else min(anchored.until, latest)
    )


def _each(
    filter: Filter, projection: Mapping[str, Any], change: Change, word: str, progress: Hears
) -> Operation[Changed]:
    begun = yield from search(filter)
    so_far = Changed()
    try:
        while not begun.is_over:
            if batch := (yield from begun.page(BATCH, projection)):
                so_far = yield from change(batch, begun.filter, so_far)
            if progress:
                progress(so_far.count)
    except TontineError as error:
        if not so_far.count:
            raise
        done = count(so_far.count, "job")
        raise ManyInterrupted(
            f"{done} {word}, and up to {BATCH:,} more: {error}", so_far.count
        ) from error
    return so_far


def _put_back(batch: Documents, _: Filter, so_far: Changed) -> Operation[Changed]:
    reasons = {
        int(one["seq"]): f"it cannot be run at all: {why}" for one in batch if (why := _unfit(one))
    }
    fit = [one for one in batch if int(one["seq"]) not in reasons]
    # As it was seen, and so nothing that has begun to run since (J9).
    updates = [UpdateOne(_as_seen(one), PUT_BACK) for one in fit]
    if not updates:
        return so_far.plus(0, reasons=reasons)
    try:
        answer = yield bulk_write(JOBS, updates, within=_WITHIN)
        number = int(answer.matched_count)
    except NotPermitted:
        raise
    except StoreError as error:
        number = yield from _put_back_rest(fit, error, reasons)
    yield from ring(JOBS)
    return so_far.plus(number, reasons=reasons)


def _unfit(document: Mapping[str, Any]) -> str | None:
    return whose_plan(document) or problem({**document, "state": None})


def _as_seen(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "seq": document["seq"],
        "state": document["state"],
        "attempt": document.get("attempt") or 0,
    }


def _put_back_rest(batch: Documents, error: StoreError, reasons: dict[int, str]) -> Operation[int]:
    """Find out what a batch has done that met an error, and what becomes of each of the others; how
    many went back."""
    seqs = [one["seq"] for one in batch]
    fields = {"_id": 0, "seq": 1, "state": 1, "attempt": 1}
    found = yield from hinted(find(JOBS, {"seq": {"$in": seqs}}, projection=fields), "seq")
    there = {int(one["seq"]): _as_seen(one) for one in found}
    left = {
        place: one for place, one in enumerate(batch) if there.get(int(one["seq"])) == _as_seen(one)
    }
    if left and isinstance(error, StoreUnavailable):
        raise error
    refused = error.refused if isinstance(error, BulkRefused) else {}
    number = len(there) - len(left)
    for place, one in left.items():
        seq = int(one["seq"])
        if refused.get(place) == ("key",):
            reasons[seq] = f"an unfinished job has its key {one['key']!r}"
        else:
            number += yield from _put_back_alone(seq, str(one["state"]), reasons)
    return number


def _put_back_alone(seq: int, seen: str, reasons: dict[int, str]) -> Operation[bool]:
    try:
        return (yield from retry(seq, seen))[1]
    except (NotPermitted, StoreUnavailable):
        raise
    except TontineError as error:
        reasons[seq] = str(error)
        return False


def _remove(batch: Documents, filter: Filter, so_far: Changed) -> Operation[Changed]:
    seqs = {one["seq"] for one in batch}
    # A plan's jobs go with their plan: without them its steps would be run again.
    plain = {"seq": {"$in": list(seqs)}, "plan": {"$exists": False}}
    still_meant = {"$and": [plain, filter.where()]}
    yield from hinted(delete_many(JOBS, still_meant, repeats=True, within=_WITHIN), "seq")
    left = yield from hinted(find(JOBS, {"seq": {"$in": list(seqs)}}, projection=_SEQ_ONLY), "seq")
    gone = seqs - {one["seq"] for one in left}
    # After their jobs: one that was put back meanwhile keeps what it has printed.
    yield delete_many(LOGS, {"seq": {"$in": list(gone)}}, repeats=True, within=_WITHIN)
    yield from remove_outputs(sorted(gone))
    return so_far.plus(len(gone))


def _check_removing() -> Operation[None]:
    """Whether this user may remove jobs, lines and outputs, before any of them is removed."""
    for collection in (JOBS, LOGS, OUTPUTS):
        try:
            yield delete_one(collection, {"_id": {"$in": []}}, repeats=True)
        except NotPermitted as refusal:
            raise NotPermitted(
                f"{refusal}, and tontineOperator since `tontine init --roles` of this release",
                database=refusal.database,
                collection=refusal.collection,
                action=refusal.action,
            ) from refusal
