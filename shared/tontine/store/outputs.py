"""Stages: what a job keeps of those that are done, in the job itself or beside it in `outputs`, and
what its task saves.

Every write on a job names `working`, the node and the attempt, so that only the holder's counts
(MI5). Parts of outputs are immutable and have the attempt in their `_id`: what a holder leaves
behind that is one no longer, nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bson import MaxKey
from bson.raw_bson import RawBSONDocument
from bson.son import SON
from pymongo import ReturnDocument, UpdateOne

from ..errors import DuplicateKey
from ..records.job import ERRORS_KEPT, JobError
from ..records.stage import StageDone
from ..records.states import OPEN
from .call import (
    Operation,
    bulk_write,
    delete_many,
    find,
    find_one,
    find_one_and_update,
    update_one,
)
from .end import noting
from .names import JOBS, OUTPUTS
from .raw import Raw
from .settle import Saved, fenced, saving

PART = 8 * 1024 * 1024
INLINE, INLINE_IN_ALL = 64 * 1024, 256 * 1024
"""Bytes of an output in the job itself, and of all of them."""
KEPT_FOR = 7 * 86400.0
_BUSY = [state.value for state in OPEN]


@dataclass(frozen=True, slots=True)
class DoneStage:
    """A stage whose output is to be kept."""

    place: int
    name: str
    version: str
    ms: int
    body: bytes
    """The output as {"r": output}."""


def keep_stage(
    node: str, seq: int, attempt: int, stage: DoneStage, *, apart: bool
) -> Operation[bool | None]:
    """Keep a stage's output, `apart` in parts or in the job, and note that it is done (ME1).

    Whether cancelling was asked for; None when this attempt is over. Making it again after an
    unknown outcome changes nothing, also when the first try lands after a later stage's.
    """
    parts = (yield from _keep_parts(seq, attempt, stage)) if apart else 0
    element = {
        "name": stage.name,
        "state": "done",
        "attempt": attempt,
        "version": stage.version,
        "ms": stage.ms,
        "bytes": len(stage.body),
        "node": node,
    }
    if parts:
        new: dict[str, Any] = {"$literal": {**element, "parts": parts}}
    else:
        output = {"mine": {"$literal": RawBSONDocument(stage.body)}}
        joined = {"$mergeObjects": [{"$literal": element}, {"output": "$$mine.r"}]}
        new = {"$let": {"vars": output, "in": joined}}
    found = yield find_one_and_update(
        JOBS,
        fenced(node, attempt, seq),
        [{"$set": {"stages": _with_stage(stage, attempt, new)}}],
        projection={"_id": 0, "cancel": 1},
        return_document=ReturnDocument.AFTER,
        hint="seq",
        repeats=True,
    )
    return None if found is None else found.get("cancel") is True


def _with_stage(stage: DoneStage, attempt: int, new: dict[str, Any]) -> dict[str, Any]:
    """The stages before it and this one; all as they are where this attempt has noted it already,
    and perhaps a later one since."""
    stored = {"$cond": [{"$isArray": "$stages"}, "$stages", []]}
    here = {"$arrayElemAt": [stored, stage.place]}
    is_noted = {
        "$and": [
            {"$gt": [{"$size": stored}, stage.place]},
            {"$eq": [{"$getField": {"field": "attempt", "input": here}}, attempt]},
            {"$eq": [{"$getField": {"field": "name", "input": here}}, {"$literal": stage.name}]},
        ]
    }
    before = {"$slice": [stored, stage.place]} if stage.place else []
    return {"$cond": [is_noted, stored, {"$concatArrays": [before, [new]]}]}


def _keep_parts(seq: int, attempt: int, stage: DoneStage) -> Operation[int]:
    starts = range(0, len(stage.body), PART)
    for part, start in enumerate(starts):
        # An upsert and not an insert: it can store the server's time.
        data = {"$ifNull": ["$data", {"$literal": stage.body[start : start + PART]}]}
        update = [{"$set": {"data": data, "at": {"$ifNull": ["$at", "$$NOW"]}}}]
        where = {"_id": _part_id(seq, stage.name, attempt, part)}
        with suppress(DuplicateKey):
            yield update_one(OUTPUTS, where, update, upsert=True, repeats=True)
    return len(starts)


def _part_id(seq: int, stage: str, attempt: int, part: Any) -> SON[str, Any]:
    return SON([("seq", seq), ("stage", stage), ("attempt", attempt), ("part", part)])


def read_kept(node: str, attempts: Mapping[int, int]) -> Operation[dict[int, Raw]]:
    """What these jobs, as this node holds them, have of earlier attempts: `stages` and `saved`
    (ME3)."""
    by_attempt: dict[int, list[int]] = {}
    for seq, attempt in attempts.items():
        by_attempt.setdefault(attempt, []).append(seq)
    kept: dict[int, Raw] = {}
    for attempt, seqs in by_attempt.items():
        found: list[Raw] = yield find(
            JOBS,
            fenced(node, attempt, {"$in": seqs}),
            projection={"_id": 0, "seq": 1, "stages": 1, "saved": 1},
            hint="seq",
            raw=True,
        )
        kept |= {int(one["seq"]): one for one in found}
    return kept


def read_output(seq: int, stage: StageDone) -> Operation[bytes | None]:
    """An output that is kept apart; None when some of it is gone."""
    parts: list[bytes] = []
    for number in range(stage.parts):
        # One by one: an answer has 16 MB at most, and all of them are wanted or none.
        one = yield find_one(OUTPUTS, {"_id": _part_id(seq, stage.name, stage.attempt, number)})
        if one is None or not isinstance(one.get("data"), bytes):
            return None
        parts.append(one["data"])
    whole = b"".join(parts)
    return whole if len(whole) == stage.bytes else None


def forget_stages(
    node: str, seq: int, attempt: int, place: int, error: JobError
) -> Operation[None]:
    """Let a job begin at an earlier stage, because what it would go on from is gone, and say so
    (ME4). Only a read tells afterwards."""
    stored = {"$cond": [{"$isArray": "$stages"}, "$stages", []]}
    fields = noting(error)
    told = {"$slice": [{"$concatArrays": [fields["errors"], [fields["error"]]]}, -ERRORS_KEPT]}
    kept = {"$slice": [stored, place]} if place else []
    yield update_one(
        JOBS,
        {**fenced(node, attempt, seq), f"stages.{place}": {"$exists": True}},
        [{"$set": {"stages": kept, "errors": told}}, {"$unset": "error"}],
        repeats=True,
    )


def write_saved(node: str, values: Iterable[tuple[int, int, Saved]]) -> Operation[None]:
    """Keep what tasks have saved (ME6), by seq and attempt."""
    updates = [
        UpdateOne(fenced(node, attempt, seq), [{"$set": {"saved": saving(attempt, saved)}}])
        for seq, attempt, saved in values
    ]
    yield bulk_write(JOBS, updates)


def remove_outputs(seqs: Sequence[int]) -> Operation[None]:
    """Remove what is kept apart of these jobs."""
    for seq in seqs:
        yield delete_many(OUTPUTS, _of_job(seq), repeats=True)


def _of_job(seq: Any) -> dict[str, Any]:
    """The whole range of a job's `_id`s: documents compare field by field, in order."""
    return {"_id": {"$gte": SON([("seq", seq)]), "$lt": SON([("seq", seq), ("stage", MaxKey())])}}


def remove_old_outputs(age: float = KEPT_FOR) -> Operation[int]:
    """Remove outputs of that age whose job is not queued or working, also of jobs that are gone
    (ME7); how many documents."""
    removed = 0
    seqs = yield from _jobs_with_outputs()
    for start in range(0, len(seqs), _AT_ONCE):
        some = seqs[start : start + _AT_ONCE]
        busy = yield find(
            JOBS,
            {"seq": {"$in": some}, "state": {"$in": _BUSY}},
            projection={"_id": 0, "seq": 1},
            hint="seq",
        )
        for seq in {*some} - {int(one["seq"]) for one in busy}:
            is_old = {"$lt": ["$at", {"$subtract": ["$$NOW", round(age * 1000)]}]}
            answer = yield delete_many(
                OUTPUTS, {**_of_job(seq), "$expr": is_old}, repeats=True, within=60.0
            )
            removed += answer.deleted_count
    return removed


_AT_ONCE = 500


def _jobs_with_outputs() -> Operation[list[int]]:
    """One step for each job, over the index alone."""
    seqs: list[int] = []
    after: Any = SON([("seq", -1)])
    while True:
        one = yield find_one(
            OUTPUTS, {"_id": {"$gt": after}}, projection={"_id": 1}, sort=[("_id", 1)]
        )
        seq = one["_id"].get("seq") if one is not None and isinstance(one["_id"], Mapping) else None
        if not isinstance(seq, int | float):
            return seqs
        seqs.append(int(seq))
        after = SON([("seq", seq), ("stage", MaxKey())])


def find_outputs(seq: int) -> Operation[set[tuple[str, int, int]]]:
    """What is kept apart of a job: stage, attempt and part of each document."""
    found = yield find(OUTPUTS, _of_job(seq), projection={"_id": 1})
    ids = [one["_id"] for one in found]
    return {(str(one["stage"]), int(one["attempt"]), int(one["part"])) for one in ids}
