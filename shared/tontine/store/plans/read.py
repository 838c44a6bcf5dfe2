"""Reads of plans and of their jobs, by number and by range of `_id`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...errors import UnknownPlan
from ...records.plan import JobFact, PlanRecord, all_of
from ..call import Operation, find, find_one
from ..indexes import OPEN_PLANS
from ..names import JOBS, PLANS

_MOVING = (
    "seq",
    "state",
    "try",
    "rev",
    "widths",
    "marks",
    "added",
    "undo",
    "no_undo",
    "cause",
    "outcome",
)
HEAD = dict.fromkeys(_MOVING, 1)
"""What changes of a plan while it runs; its steps do so only with `rev`."""

FACTS: dict[str, Any] = {
    **dict.fromkeys(("seq", "state", "plan", "stopped", "attempt", "refused"), 1),
    "more": {"$ne": [{"$type": "$more"}, "missing"]},
    "expires": {"$ne": [{"$type": "$expire_at"}, "missing"]},
    # A list of errors, or whatever somebody wrote there, is nobody's business here.
    "error": {
        "$cond": [
            {"$eq": [{"$type": "$error"}, "object"]},
            {"type": "$error.type", "message": "$error.message"},
            "$$REMOVE",
        ]
    },
}
"""What the rules know of a job."""


def read_plan(seq: int) -> Operation[PlanRecord]:
    """One plan by its number."""
    return PlanRecord.from_document((yield from read_document(seq)))


def read_by_id(id: Any) -> Operation[PlanRecord]:
    """One plan by its `_id`, accepted or not."""
    document: dict[str, Any] | None = yield find_one(PLANS, {"_id": id})
    if document is None:
        raise UnknownPlan(f"there is no plan with the _id {id!r}: it was removed")
    return PlanRecord.from_document(document)


def read_document(seq: int) -> Operation[dict[str, Any]]:
    """One plan's document by its number."""
    document: dict[str, Any] | None = yield find_one(PLANS, {"seq": seq}, hint="seq")
    if document is None:
        raise UnknownPlan(f"there is no plan {seq}")
    return document


def read_heads(seqs: Iterable[int]) -> Operation[dict[int, Mapping[str, Any]]]:
    """What moves of these plans, by number."""
    asked = {"seq": {"$in": list(seqs)}}
    found = yield find(PLANS, asked, projection=HEAD, hint="seq")
    return {int(one["seq"]): one for one in found}


def read_whole(seqs: Iterable[int]) -> Operation[dict[int, PlanRecord]]:
    """These plans with their steps, by number."""
    found = yield find(PLANS, {"seq": {"$in": list(seqs)}}, hint="seq")
    return {int(one["seq"]): PlanRecord.from_document(one) for one in found}


def with_head(plan: PlanRecord, head: Mapping[str, Any]) -> PlanRecord:
    """A plan whose steps are known, as it is now."""
    moved = PlanRecord.from_document(head)
    return replace(
        plan,
        state=moved.state,
        try_=moved.try_,
        rev=moved.rev,
        widths=moved.widths,
        marks=moved.marks,
        added=moved.added,
        undo=moved.undo,
        no_undo=moved.no_undo,
        cause=moved.cause,
        outcome=moved.outcome,
    )


_PAGE = 2000


def read_jobs(seq: int) -> Operation[tuple[list[JobFact], bool]]:
    """All jobs of a plan, and whether one of them would be removed by itself, which none may."""
    return (yield from read_range(all_of(seq)))


def read_range(ids: Mapping[str, str]) -> Operation[tuple[list[JobFact], bool]]:
    """The same of those in a range of `_id`. A page at a time: there may be a million, of which
    only what the rules know is kept, and others are not to wait for them."""
    facts: list[JobFact] = []
    are_expiring = False
    while True:
        found = yield find(
            JOBS, {"_id": ids}, projection=FACTS, sort=[("_id", 1)], limit=_PAGE, hint="_id_"
        )
        facts += filter(None, map(JobFact.from_document, found))
        are_expiring = are_expiring or any(one.get("expires") for one in found)
        if len(found) < _PAGE:
            return facts, are_expiring
        ids = {"$gt": found[-1]["_id"], "$lt": ids["$lt"]}


def find_open(seqs: Mapping[str, Any] | None = None) -> Operation[list[int]]:
    """The numbers of the plans that have yet to end."""
    where: dict[str, Any] = dict(OPEN_PLANS) if seqs is None else {**OPEN_PLANS, "seq": seqs}
    found = yield find(PLANS, where, projection={"_id": 0, "seq": 1}, hint="open")
    return [int(one["seq"]) for one in found]


def find_unsettled(seqs: Mapping[str, Any] | None = None) -> Operation[list[int]]:
    """The same without those that run: whoever drains or closes is looked at more often."""
    where: dict[str, Any] = {"state": {"$in": ["stopping", "undoing", "closing"]}}
    if seqs is not None:
        where["seq"] = seqs
    found = yield find(PLANS, where, projection={"_id": 0, "seq": 1}, hint="open")
    return [int(one["seq"]) for one in found]


def whose_number(seq: int) -> Operation[tuple[bool, bool]]:
    """Whether a job and whether a plan has this number."""
    is_job = yield find_one(JOBS, {"seq": seq}, projection={"_id": 1}, hint="seq")
    is_plan = yield find_one(PLANS, {"seq": seq}, projection={"_id": 1})
    return is_job is not None, is_plan is not None
