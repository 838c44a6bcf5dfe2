"""Release: to release a step is to insert its job, under an `_id` that only this step can have
(PL2, PL4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from bson import Int64

from ...errors import BulkRefused, StoreError, Unstorable
from ...records.job import nobodys_task
from ...records.plan import (
    CLOSING_STEP,
    JobFact,
    PlanPlace,
    PlanRecord,
    Source,
    StepRecord,
    streams_of,
)
from ...records.states import JobState
from ...records.task_key import canonical
from ...rules.plan_deeds import Release
from .. import ranges
from ..bell import common_task, ring_jobs
from ..call import Operation, find, insert_many
from ..counter import Reserve, raise_counter, take
from ..insert import CHUNK, RENUMBERED_AT_MOST, Wish
from ..names import JOBS
from .values import (
    NO_RESULT,
    InvalidStep,
    Results,
    field_of,
    item_results,
    read_elements,
    size_of,
    sources_read,
    taken_values,
)

BATCH_BYTES = 8 * 1024 * 1024
Document = dict[str, Any]
Claim = Callable[[Mapping[str, Any]], str | None]
"""Asked for a job that is about to be inserted, by whoever has it in its table as pending from then
on: the node that claims it with that, or None."""


def sources(plan: PlanRecord, deed: Release) -> list[str]:
    """The `_id`s of the single jobs whose results a release needs."""
    step = _step(plan, deed)
    take = (step.undo.take if step.undo else {}) if deed.kind == "undo" else step.take
    return sources_read(plan, take)


def make_one(plan: PlanRecord, deed: Release, results: Results) -> Operation[Document]:
    """The document of a release that is a single job, without its number."""
    step = _step(plan, deed)
    outcome = str(plan.outcome) if deed.kind == "finally" else None
    tries = plan.try_ or 0
    place = PlanPlace(plan.seq or 0, deed.step, deed.kind, try_=tries, outcome=outcome)
    if deed.kind == "undo":
        return (yield from _make_undo(plan, step, place, results))
    values = yield from taken_values(plan, step, step.take, results)
    args = {**step.args, **values}
    size_of(args, step)
    return _document(plan, step, place, step.task, args)


def release_items(
    plan: PlanRecord, deed: Release, results: Results, reserve: Reserve | None = None
) -> Operation[None]:
    """Insert the jobs of a mapped step's items, in their order, each batch after the last was
    confirmed."""
    step = _step(plan, deed)
    same: dict[str, Any] = {}
    if deed.kind == "step":
        same = {**step.args, **(yield from taken_values(plan, step, step.take, results))}
        size_of(same, step)
    left = deed.items or ()
    unfit: InvalidStep | None = None
    while left:
        values: dict[int, Any] = dict.fromkeys(_near(left))
        if deed.kind == "step":
            values = yield from _item_values(plan, step, _near(left))
        else:
            results = yield from _own_results(plan, step, values)
        batch: list[Document] = []
        size = 0
        done = 0
        for item in values:
            place = PlanPlace(plan.seq or 0, deed.step, deed.kind, item, plan.try_ or 0)
            done += 1
            try:
                if deed.kind == "undo":
                    document = yield from _make_undo(plan, step, place, results)
                else:
                    args = {**same, step.as_: values[item]}
                    document = _document(plan, step, place, step.task, args)
                size += size_of(document["args"], step, item)
            except InvalidStep as error:
                if deed.kind == "step":
                    raise
                unfit = unfit or error  # it holds back what comes after it, and no other (PL12)
                continue
            batch.append(document)
            if size > BATCH_BYTES:
                break
        if batch:
            yield from put(batch, reserve)
        left = left[done:]
    if unfit is not None:
        raise unfit


def _own_results(plan: PlanRecord, step: StepRecord, items: Iterable[int]) -> Operation[Results]:
    """What the undos of these items take of them, as far as one answer goes; no more than that is
    in memory at a time."""
    results = Results()
    if step.undo is not None and step.undo.take:
        yield from results.fetch(PlanPlace(plan.seq or 0, step.name, item=one).id for one in items)
    return results


def put(
    documents: list[Document], reserve: Reserve | None = None, claim: Claim = lambda _: None
) -> Operation[list[int]]:
    """Number and insert jobs of plans; one that is there already was inserted before, by whoever
    it was. Only a job alone takes its number from the reserve.

    A job may be claimed with its insertion: that is what would be if its claim came at once. The
    numbers of those that certainly are.
    """
    yield from ranges.expect_all(document["task"] for document in documents)
    if len(documents) > 1 or reserve is None:
        reserve = None
        block = yield from take(len(documents))
    else:
        block = yield from reserve.take_one()
    at = block.at
    for seq, document in zip(block, documents, strict=True):
        document["seq"], document["created_at"] = seq, at
        if "delay" in document:
            document["run_at"] = at + timedelta(seconds=document.pop("delay"))
    first, last, task = block.first, block.last, common_task(documents)
    is_fresh = not any("run_at" in one or "priority" in one for one in documents)
    claimed = {document["_id"] for document in documents if is_fresh and _claim(document, claim)}
    is_rung = is_fresh and len(documents) == 1 and not claimed
    if is_rung:  # before it is there, as `insert.submit` does
        yield from ring_jobs(first, last, fresh=True, task=task, planned=True)
    ours: list[int] = []
    for _ in range(RENUMBERED_AT_MOST):
        taken, there = yield from _insert(documents)
        landed = claimed.difference(one["_id"] for one in (*taken, *there))
        ours += [int(one["seq"]) for one in documents if one["_id"] in landed]
        claimed.clear()
        if not taken:
            if not is_rung and len(ours) < last - first + 1:
                yield from ring_jobs(first, last, fresh=is_fresh, task=task, planned=True)
            return ours
        is_rung = False
        if reserve is not None:
            reserve.forget()
        yield from raise_counter()
        block = yield from take(len(taken))
        for seq, document in zip(block, taken, strict=True):
            document["seq"] = seq
            unclaim(document)
        first, last, documents = min(first, block.first), max(last, block.last), taken
    raise StoreError("numbers are taken as fast as they are given, and a step got none")


def _claim(document: Document, claim: Claim) -> bool:
    """Claim a job with its insertion (J1), if somebody does."""
    node = claim(document)
    if node is not None:
        document |= {"state": JobState.WORKING.value, "node": node, "attempt": 1}
    return node is not None


def unclaim(document: Document) -> None:
    """Let a job wait that could not be inserted as it was claimed."""
    document |= {"state": JobState.QUEUED.value, "attempt": 0}
    document.pop("node", None)


def _insert(documents: list[Document]) -> Operation[tuple[list[Document], list[Document]]]:
    """Those whose number was taken, and those that were there already."""
    try:
        yield insert_many(JOBS, documents, repeats=True, within=30)
    except BulkRefused as refusal:
        if any(key not in (("_id",), ("seq",)) for key in refusal.refused.values()):
            raise
        there = [documents[one] for one, key in refusal.refused.items() if key == ("_id",)]
        yield from _check_ours(there)
        return [documents[one] for one, key in refusal.refused.items() if key == ("seq",)], there
    except Unstorable as error:
        plan = documents[0]["plan"]
        raise InvalidStep(f"MongoDB cannot store its job: {error}", plan["step"]) from error
    return [], []


def _check_ours(documents: Sequence[Document]) -> Operation[None]:
    """A job that has the name of one of a plan's must be it."""
    if not documents:
        return
    ids = [document["_id"] for document in documents]
    found = yield find(JOBS, {"_id": {"$in": ids}}, projection={"plan": 1, "state": 1})
    ours = {one["_id"] for one in found if JobFact.from_document(one) is not None}
    seen = {one["_id"] for one in found}
    for document in documents:
        if document["_id"] in seen and document["_id"] not in ours:
            plan = document["plan"]
            raise InvalidStep(
                f"another job has the _id {document['_id']}, which only this step's may have",
                plan["step"],
                plan.get("item"),
            )


def _near(items: Sequence[int]) -> Sequence[int]:
    """The first of these items, as many as are made at once: those that lie close together."""
    end = items[0] + CHUNK
    return [item for item in items[:CHUNK] if item < end]


def _item_values(
    plan: PlanRecord, step: StepRecord, items: Sequence[int]
) -> Operation[dict[int, Any]]:
    """What each of these items is: elements of an array, or results of another mapped step's
    items. Of the first of them, as far as one answer goes."""
    first, end = items[0], items[-1] + 1
    if isinstance(step.over, Source) and plan.steps[step.over.step].is_mapped:
        some, read = yield from item_results(plan.seq or 0, step.over.step, first, end)
        return {
            item: field_of(some.get(item, NO_RESULT), step.over, step, item)
            for item in items
            if item < read
        }
    chunk = step.chunk
    elements = yield from read_elements(plan, step, first * chunk, (end - first) * chunk)
    if len(elements) <= (items[-1] - first) * chunk:
        raise InvalidStep(
            f"what it maps over has fewer elements than before: {step.over}", step.name
        )
    if chunk == 1:
        return {item: elements[item - first] for item in items}
    return {
        item: list(elements[(item - first) * chunk : (item - first + 1) * chunk]) for item in items
    }


def _step(plan: PlanRecord, deed: Release) -> StepRecord:
    if deed.kind == "finally":
        return plan.closing or StepRecord(CLOSING_STEP, "")
    return plan.steps[deed.step]


def _make_undo(
    plan: PlanRecord, step: StepRecord, place: PlanPlace, results: Results
) -> Operation[Document]:
    undo = step.undo
    if undo is None:
        raise InvalidStep("it has no undo", step.name, place.item)
    own = PlanPlace(place.seq, place.step, item=place.item)
    values = yield from taken_values(plan, step, undo.take, results, own)
    args = {**undo.args, **values}
    size_of(args, step, place.item)
    bare = StepRecord(step.name, undo.task)
    return _document(plan, bare, place, undo.task, args)


def _document(
    plan: PlanRecord, step: StepRecord, place: PlanPlace, task: str, args: dict[str, Any]
) -> Document:
    """A job but for its number and its time."""
    if reason := nobodys_task(task):  # somebody has changed the plan since it was accepted
        raise InvalidStep(reason, step.name, place.item)
    wish = Wish(
        canonical(task),
        priority=plan.priority,
        max_attempts=step.max_attempts,
        timeout=step.timeout,
    )
    document: Document = {"_id": place.id, "seq": Int64(0), **wish.document(args, _UNTIMED)}
    document["plan"] = place.to_document()
    if step.stream:
        document["plan"]["stream"] = streams_of(plan, step)
    if plan.tenant is not None:
        document["tenant"] = plan.tenant
    if step.delay:
        document["delay"] = step.delay
    return document


_UNTIMED: Any = None
