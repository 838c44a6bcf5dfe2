"""The arguments of a plan's job: what its step has, and what it takes from the results of others,
copied (PL2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import bson
from bson.errors import BSONError

from ...errors import TontineError
from ...records.plan import (
    TAKEN_AT_MOST,
    JobFact,
    PlanPlace,
    PlanRecord,
    Source,
    StepRecord,
    Taken,
    items_of,
    sources_of,
)
from ...records.states import JobState
from ...streamed import BYTES_AT_ONCE
from ..call import DECODED, PLAIN, Operation, find_one, find_some
from ..names import JOBS
from ..raw import Raw, Some

LARGEST_ARGS = 15 * 1024 * 1024 - 16 * 1024
_RESULT = {"state": 1, "plan": 1, "result": 1}
_IS_DONE = {"$eq": ["$state", JobState.DONE.value]}
_MISSING = object()
NO_RESULT = object()
"""What a job has for a result that is not done: null, and so are its fields."""
_LARGEST_SLICE = 2**31 - 1
"""Elements; no document has as many."""


class InvalidStep(TontineError):
    """A step that cannot be released at all: the reason stops its plan (PL9)."""

    def __init__(self, message: str, step: str, item: int | None = None) -> None:
        super().__init__(message)
        self.step = step
        self.item = item


class Results:
    """Results of a plan's jobs as they were read; each is read once in a round, and those not at
    all that this process has just settled as done, which they will always be."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def know(self, settled: Iterable[JobFact]) -> None:
        """Take over what is known of jobs that were just settled."""
        done = (one for one in settled if one.outcome and one.state is JobState.DONE)
        for fact in done:
            with suppress(BSONError):  # it is read like any other, if it can be
                self._known[fact.place.id] = bson.decode(fact.outcome, PLAIN).get("r")

    def fetch(self, ids: Iterable[str]) -> Operation[None]:
        """Read the results of many jobs at once, as many as one answer holds."""
        asked = [one for one in dict.fromkeys(ids) if one not in self._known]
        if len(asked) < 2:
            return
        found: Some = yield find_some(JOBS, {"_id": {"$in": asked}}, projection=_RESULT)
        for one in found:
            self._known[one["_id"]] = _result(one)

    def of(self, id: str) -> Operation[Any]:
        """The result of a job; NO_RESULT of one that is not done, because it was allowed to
        fail."""
        if id not in self._known:
            found: Some = yield find_some(JOBS, {"_id": id}, projection=_RESULT)
            self._known[id] = _result(found[0]) if found else NO_RESULT
        return self._known[id]


def _result(job: Raw | Mapping[str, Any]) -> Any:
    return job.get("result") if job.get("state") == JobState.DONE.value else NO_RESULT


def sources_read(plan: PlanRecord, take: Mapping[str, Taken]) -> list[str]:
    """The `_id`s of the single jobs whose results are taken."""
    return [
        PlanPlace(plan.seq or 0, source.step).id
        for source in sources_of(take)
        if not plan.steps[source.step].is_mapped
    ]


def taken_values(
    plan: PlanRecord,
    step: StepRecord,
    take: Mapping[str, Taken],
    results: Results,
    own: PlanPlace | None = None,
) -> Operation[dict[str, Any]]:
    """The arguments that are taken from other steps; for an undo, `own` is the job it undoes."""
    values: dict[str, Any] = {}
    for arg, taken in take.items():
        if isinstance(taken, Source):
            values[arg] = yield from _taken(plan, step, taken, results, own)
        else:
            values[arg] = yield from _several(plan, step, taken, results, own)
    return values


def _several(
    plan: PlanRecord,
    step: StepRecord,
    sources: Sequence[Source],
    results: Results,
    own: PlanPlace | None,
) -> Operation[list[Any]]:
    values: list[Any] = []
    for source in sources:
        values += [(yield from _taken(plan, step, source, results, own))]
    return values


def _taken(
    plan: PlanRecord, step: StepRecord, source: Source, results: Results, own: PlanPlace | None
) -> Operation[Any]:
    seq, of = plan.seq or 0, None if own is None else own.item
    if own is not None and source.step == own.step:
        return field_of((yield from results.of(own.id)), source, step, of)
    if not plan.steps[source.step].is_mapped:
        found = yield from results.of(PlanPlace(seq, source.step).id)
        return field_of(found, source, step, of)
    width = plan.widths.get(source.step, 0)
    if width > TAKEN_AT_MOST:
        raise InvalidStep(
            f"it takes the results of {source.step}, which has {width:,} items, and "
            f"{TAKEN_AT_MOST:,} fit into one argument: use `stream`",
            step.name,
            of,
        )
    some, end = yield from item_results(seq, source.step, 0, width)
    if end < width:
        raise too_large(step, of)
    return [field_of(some.get(item, NO_RESULT), source, step, of) for item in range(width)]


def item_results(
    seq: int, name: str, first: int, end: int
) -> Operation[tuple[dict[int, Any], int]]:
    """The results of a mapped step's items from `first` on, as far as they are done, and how far
    they were read: no further than one answer goes."""
    if first >= end:
        return {}, end
    ids = {**items_of(seq, name, first=first), "$lt": PlanPlace(seq, name, item=end).id}
    found: Some = yield find_some(
        JOBS, {"_id": ids}, projection=_RESULT, sort=[("_id", 1)], hint="_id_"
    )
    read = {int(one["plan"]["item"]): _result(one) for one in found}
    items = {item: result for item, result in read.items() if result is not NO_RESULT}
    return items, max(read) + 1 if found.is_cut else end


def read_page(seq: int, name: str, first: int, count: int) -> Operation[bytes]:
    """The jobs of a mapped step from an item on, with their results, one after another: as many as
    a page holds."""
    found: Some = yield find_some(
        JOBS,
        {"_id": items_of(seq, name, first=first)},
        projection=_RESULT,
        sort=[("_id", 1)],
        limit=count,
        hint="_id_",
    )
    page: list[bytes] = []
    size = 0
    for job in found:
        size += len(job.raw)
        if page and size > BYTES_AT_ONCE:
            break
        page.append(job.raw)
    return b"".join(page)


def field_of(result: Any, source: Source, step: StepRecord, item: int | None = None) -> Any:
    """What is taken of a result; of none, nothing. `item` is the one for which it is taken."""
    if result is NO_RESULT:
        return None
    if source.field is None:
        return result
    value = result.get(source.field, _MISSING) if isinstance(result, Mapping) else _MISSING
    if value is _MISSING:
        raise InvalidStep(
            f"it takes {source}, but the result of {source.step} has no field {source.field!r}",
            step.name,
            item,
        )
    return value


def read_length(plan: PlanRecord, source: Source) -> Operation[int | str]:
    """How many elements a step's result has to map over; a text says why it has none."""
    place = PlanPlace(plan.seq or 0, source.step)
    value = _field("$result", source.field)
    length = {"$cond": [{"$isArray": [value]}, {"$size": value}, None]}
    found = yield find_one(JOBS, {"_id": place.id}, projection={"n": length, "t": {"$type": value}})
    if found is None or found.get("n") is None:
        kind = "missing" if found is None else found["t"]
        return f"it maps over {source}, which must be an array, and is {kind}"
    return int(found["n"])


def read_elements(
    plan: PlanRecord, step: StepRecord, first: int, count: int
) -> Operation[Sequence[Any]]:
    """Some elements of what a step maps over, if that is an array."""
    if not isinstance(step.over, Source):
        return list(step.over or ())[first : first + count]
    count = min(count, _LARGEST_SLICE)
    place = PlanPlace(plan.seq or 0, step.over.step)
    some = {"$slice": [_field("$result", step.over.field), first, count]}
    found: Some = yield find_some(JOBS, {"_id": place.id}, projection={"some": some})
    return list(found[0]["some"]) if found else []


def _field(of: str, name: str | None) -> Any:
    if name is None:
        return of
    return {"$getField": {"field": {"$literal": name}, "input": of}}


def size_of(args: Mapping[str, Any], step: StepRecord, item: int | None = None) -> int:
    """The bytes of a job's arguments, if they are not too many."""
    size = len(bson.encode(args, codec_options=DECODED))
    if size > LARGEST_ARGS:
        raise too_large(step, item)
    return size


def too_large(step: StepRecord, item: int | None = None) -> InvalidStep:
    return InvalidStep(
        "its arguments have more than 15 MB: store the data elsewhere, and pass where it is",
        step.name,
        item,
    )
