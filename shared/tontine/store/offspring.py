"""(1) Jobs that tasks submit: named after their parent, so that a second run of its task adds none
of them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import bson
from bson import Int64
from bson.errors import BSONError

from ..errors import ChildDiffers, ConfigError
from ..family import COUNTED_AT_MOST, Children, child_id, ids_of_children
from ..records.job import Job
from ..records.states import JobState
from . import ranges
from .bell import ring_jobs
from .call import DECODED, Operation, command, find
from .counter import Reserve, take
from .insert import Wish, holder_of, make_documents, put_in, refuse_unfit, see_to_indexes
from .names import JOBS

SHOWN_AT_MOST = 10

_KNOWN = {"args": 0, "result": 0, "error": 0, "errors": 0, "progress": 0}


def submit(
    parent: int,
    wish: Wish,
    names: Sequence[str],
    many: Sequence[Mapping[str, Any] | None],
    *,
    is_counted: bool,
    reserve: Reserve | None = None,
) -> Operation[list[Job]]:
    """Add jobs under these names of their parent's; what has such a name already comes back, marked
    `existed`.

    It can be repeated, and two may do it at once: a name is given once. Where a name only stands
    for the order of the calls and another job has it, that would take the place of the one that is
    wanted now, which would be lost: refused.
    """
    refuse_unfit(wish, many)
    if wish.is_timed:
        yield from see_to_indexes(wish)
    yield from ranges.expect(wish.task, None if reserve is None else reserve.noted)
    block = yield from take(len(many)) if reserve is None or len(many) > 1 else reserve.take_one()
    documents = make_documents(wish, many, block)
    for name, document in zip(names, documents, strict=True):
        document |= {"_id": child_id(parent, name), "parent": Int64(parent)}
    refused = yield from put_in(documents)
    if reserve is not None and documents[0]["seq"] != block.first:
        reserve.forget()
    found = yield find(JOBS, {"_id": {"$in": [one["_id"] for one in documents]}}, projection=_KNOWN)
    stored = {one["_id"]: one for one in found}
    if refused and not stored:
        return [(yield from holder_of(wish, documents[0]))]
    # What is not there any more was added, and has ended and expired since.
    jobs = [Job.from_document(stored.get(one["_id"], one)) for one in documents]
    jobs = [
        replace(job, existed=job.seq != one["seq"])
        for job, one in zip(jobs, documents, strict=True)
    ]
    if new := [job.seq for job in jobs if not job.existed]:
        yield from ring_jobs(min(new), max(new), fresh=wish.is_fresh, task=wish.task)
    if earlier := [(job, one) for job, one in zip(jobs, documents, strict=True) if job.existed]:
        yield from _refuse_others(parent, earlier, is_counted=is_counted)
    return jobs


def _refuse_others(
    parent: int, earlier: Sequence[tuple[Job, Mapping[str, Any]]], *, is_counted: bool
) -> Operation[None]:
    """Refuse to take a job that is there for another that is wanted under its name."""
    for job, wanted in earlier:
        if job.parent != parent:
            raise ConfigError(
                f"the _id {job.id!r} is taken by a job that is no child of job {parent}: use "
                "another name="
            )
        if job.task != wanted["task"]:
            raise _differs(job, f"{job.task}, and now it is {wanted['task']}")
    if is_counted:
        found = yield find(
            JOBS, {"_id": {"$in": [job.id for job, _ in earlier]}}, projection={"args": 1}
        )
        args = {one["_id"]: one.get("args") for one in found}
        for job, wanted in earlier:
            if job.id in args and not _is_same(args[job.id], wanted["args"]):
                raise _differs(job, f"{job.task} with other arguments")


def _differs(job: Job, what: str) -> ChildDiffers:
    return ChildDiffers(
        f"an earlier run of job {job.parent} has submitted {job.id} (job {job.seq}) as {what}: "
        "jobs are told apart by "
        "the order of the calls; where that or the arguments can differ, give each its own name=..."
    )


def _is_same(one: Any, other: Any) -> bool:
    try:
        encoded = [bson.encode(args, codec_options=DECODED) for args in (one, other)]
        return encoded[0] == encoded[1] or bson.decode(encoded[0], DECODED) == bson.decode(
            encoded[1], DECODED
        )
    except (BSONError, OverflowError, UnicodeError):
        return False


def read_children(parent: int) -> Operation[Children]:
    """The children of a job, for people: a range of `_id`, and no more than so many of it."""
    failed_first = {"$cond": [{"$eq": ["$state", JobState.FAILED.value]}, 0, 1]}
    shown = [
        {"$addFields": {"place": failed_first}},
        {"$sort": {"place": 1, "seq": 1}},
        {"$limit": SHOWN_AT_MOST},
    ]
    pipeline: list[dict[str, Any]] = [
        {"$match": {"_id": ids_of_children(parent), "parent": parent}},
        {"$limit": COUNTED_AT_MOST + 1},
        {"$project": dict.fromkeys(("seq", "task", "state", "parent"), 1)},
        {
            "$facet": {
                "states": [{"$group": {"_id": "$state", "count": {"$sum": 1}}}],
                "some": shown,
            }
        },
    ]
    answer = yield command(
        {"aggregate": JOBS, "pipeline": pipeline, "cursor": {}, "hint": {"_id": 1}}
    )
    found: Mapping[str, Any] = next(iter(answer["cursor"]["firstBatch"]), {})
    states = {str(one["_id"]): int(one["count"]) for one in found.get("states", ())}
    return Children(
        dict(sorted(states.items())), tuple(map(Job.from_document, found.get("some", ())))
    )
