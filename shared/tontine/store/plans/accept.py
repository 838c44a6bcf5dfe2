"""Accepting: a document that any driver inserted becomes a plan that runs, or fails with the reason
(PL1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import bson
from bson import Int64
from bson.raw_bson import RawBSONDocument

from ...errors import DuplicateKey, StoreError
from ...records.job import LAST_SEQ, is_whole
from ...records.plan import LARGEST_PLAN, PlanError, all_of
from ...records.states import NodeState, PlanState
from ...rules.plan_check import problem
from ...storable import REFUSALS
from ..call import PLAIN, Operation, find_one, find_some, update_one
from ..counter import counted, raise_counter, take
from ..indexes import NEW_PLANS
from ..names import CLUSTER, COUNTER, JOBS, NODES, PLANS
from ..raw import Raw, Some, identity
from ..retention import Retention

NEW_AT_ONCE = 100
INVALID_PLAN = "InvalidPlan"
_TRIES = 5
_FULL = 16 * 1024 * 1024 - 64 * 1024
"""Bytes of a document beyond which there may be no room for why it is refused."""
_SIZE = {"$bsonSize": "$$ROOT"}
_JUDGED: dict[str, Any] = {
    "size": _SIZE,
    "whole": {"$cond": [{"$lte": [_SIZE, LARGEST_PLAN]}, "$$ROOT", None]},
    "seq": 1,
}
NOT_YET = [
    *("try", "rev", "cause", "error", "undo", "no_undo", "widths", "marks", "added"),
    *("outcome", "finished_at", "expire_at"),
]
"""What a producer may have written that only nodes can know."""


def find_new(limit: int = NEW_AT_ONCE, but: Sequence[Raw] = ()) -> Operation[Some]:
    """Plans that nobody has accepted, in the order of their arrival, `but` some."""
    where: dict[str, Any] = {**NEW_PLANS}
    if but:
        where["$nor"] = [identity(one) for one in but]
    found: Some = yield find_some(PLANS, where, projection=_JUDGED, limit=limit, hint="new")
    return found


def all_know_plans() -> Operation[bool]:
    """Whether every node that lives knows of plans: one that does not would start what has no
    licence."""
    older = {"state": {"$ne": NodeState.DEAD.value}, "plans": {"$ne": True}}
    return (yield find_one(NODES, older, projection={"_id": 1})) is None


def accept(new: Raw, retention: Retention) -> Operation[int | None]:
    """Make a plan of a document; its number if it is one, None if it failed or was another's."""
    document, reason = _read(new)
    seq, odd = yield from _number(document.get("seq"))
    reason = reason or odd
    for _ in range(_TRIES):
        if seq is None or (yield find_one(JOBS, {"_id": all_of(seq)}, projection={"_id": 1})):
            seq = int((yield from take(1)).first)
            continue
        is_full = int(new.get("size") or 0) > _FULL
        update = _refused(seq, reason, retention, bare=is_full) if reason else _accepted(seq)
        try:
            yield update_one(PLANS, {**identity(new), **NEW_PLANS}, update, repeats=True)
        except DuplicateKey as error:
            if error.key == ("key",):
                reason = f"an unfinished plan has its key {document.get('key')!r} already"
            elif document.get("seq") is not None:
                reason, seq = f"its `seq` {seq} is another plan's", None
            else:
                yield from raise_counter()
                seq = None
            continue
        # Read back: an answer may have been lost, and somebody else may have been quicker.
        accepted = {**identity(new), "seq": seq, "state": PlanState.RUNNING.value}
        is_ours = (yield find_one(PLANS, accepted, projection={"_id": 1})) is not None
        return seq if is_ours else None
    raise StoreError("numbers are taken as fast as they are given, and a plan got none")


def _read(new: Raw) -> tuple[Mapping[str, Any], str | None]:
    """The document, and why it cannot be a plan."""
    whole, size = new.get("whole"), int(new.get("size") or 0)
    if whole is None:
        return {"seq": new.get("seq")}, problem({}, size)
    try:
        raw = whole.raw if isinstance(whole, RawBSONDocument) else bson.encode(whole)
        document = bson.decode(raw, PLAIN)
    except REFUSALS as error:
        return {}, f"its document cannot be decoded: {error}"
    return document, problem(document, size)


def _number(given: Any) -> Operation[tuple[int | None, str | None]]:
    """The number that came with it, if it can be one, or why it cannot."""
    if given is None:
        return None, None
    if not is_whole(given) or not 1 <= given < LAST_SEQ:
        return None, "`seq` must be a whole number from 1 on: leave it out, and a node gives one"
    seq = int(given)
    last = counted((yield find_one(CLUSTER, {"_id": COUNTER})))
    if seq > last:
        return None, (
            f"its `seq` {seq} is above the last number given, which is {last}: leave it out, and "
            "a node gives one"
        )
    if (yield find_one(JOBS, {"seq": seq}, projection={"_id": 1}, hint="seq")) is not None:
        return None, f"its `seq` {seq} is a job's: leave it out, and a node gives one"
    return seq, None


def _accepted(seq: int) -> list[dict[str, Any]]:
    values = {
        "seq": Int64(seq),
        "state": PlanState.RUNNING.value,
        "try": 0,
        "rev": 0,
        "created_at": "$$NOW",
    }
    return [{"$unset": NOT_YET}, {"$set": values}]


def _refused(seq: int, reason: str, retention: Retention, *, bare: bool) -> list[dict[str, Any]]:
    """`bare`: nothing else is left of it."""
    room = " (its fields had to go to make room for this)" if bare else ""
    error = PlanError(INVALID_PLAN, f"this document cannot be a plan: {reason}{room}")
    values = {
        "seq": Int64(seq),
        "state": PlanState.FAILED.value,
        "error": {"$literal": error.to_document()},
        "created_at": "$$NOW",
        "finished_at": "$$NOW",
        "expire_at": retention.expiry_of_plan(done=False),
    }
    if bare:
        return [{"$replaceWith": {"_id": "$_id", **values}}]
    return [{"$unset": NOT_YET}, {"$set": values}]
