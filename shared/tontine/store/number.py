"""(2) Numbering: nodes give numbers to jobs that arrived without one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import bson
from bson import Int64
from bson.errors import BSONError
from pymongo import UpdateOne

from ..errors import BulkRefused, NotPermitted, StoreError, StoreUnavailable, TooLarge, Unstorable
from ..records.job import LARGEST, JobError, is_text, problem, too_large
from ..records.states import JobState
from . import on_demand, ranges
from .bell import common_task, ring_jobs
from .call import PLAIN, Call, Operation, bulk_write, find_some
from .counter import raise_counter, take
from .end import never_begun
from .indexes import HELD_KEY, START_BY, UNNUMBERED
from .names import JOBS
from .raw import Raw, Some, identity
from .retention import FOR_EVER, Retention, read_retention

RAW_AT_ONCE = 500

Hear = Callable[[Raw, str], None]


def _nobody(_: Raw, __: str) -> None:
    """For whoever numbers and keeps no log."""


NAMES_AT_MOST, LONGEST_NAME = 50, 40

# Some names of its fields, among which there may be one that was meant to be another. Not all: a
# million of them would be more than an answer can hold, and no other job would be numbered either.
_NAMES: dict[str, Any] = {
    "$filter": {
        "input": {"$map": {"input": {"$objectToArray": "$$ROOT"}, "in": "$$this.k"}},
        "cond": {"$lte": [{"$strLenBytes": "$$this"}, LONGEST_NAME]},
        "limit": NAMES_AT_MOST,
    }
}

# All that `problem` looks at; of arguments only whether they are an object, because they may be
# large.
JUDGED: dict[str, Any] = {
    **dict.fromkeys(
        ("task", "state", "run_at", "start_by", "priority", "key", "max_attempts", "timeout"), 1
    ),
    "plan": 1,
    "held_key": 1,  # nobody judges it, but an index has to keep it unique
    "size": {"$bsonSize": "$$ROOT"},
    "names": _NAMES,
    "args": {"$cond": [{"$eq": [{"$type": "$args"}, "object"]}, {"$literal": {}}, "$args"]},
}


def find_raw(limit: int = RAW_AT_ONCE, but: Sequence[Raw] = ()) -> Operation[Some]:
    """Jobs without a number, in the order of their arrival, `but` some; as many as one answer
    holds."""
    where: dict[str, Any] = {**UNNUMBERED}
    if but:
        where["$nor"] = [identity(one) for one in but]
    found: Some = yield find_some(
        JOBS, where, projection=JUDGED, sort=[("seq", 1)], limit=limit, hint="raw"
    )
    return found


def give_numbers(documents: Sequence[Raw], hear: Hear = _nobody) -> Operation[int]:
    """Number raw jobs and fill in what claims rely on (F2); what cannot be a job becomes failed,
    with the reason.

    `hear` is told of these, each with its reason.
    """
    if not documents:
        return 0
    for name in (START_BY, HELD_KEY):
        if any(one.get(name) for one in documents):
            yield from on_demand.prefer(name)
    yield from ranges.expect_all(one.get("task") for one in documents)
    block = yield from take(len(documents))
    count = yield from _give(list(zip(block, documents, strict=True)), hear)
    yield from ring_jobs(
        block.first,
        block.last,
        fresh=not any(one.get("run_at") or one.get("priority") for one in documents),
        task=common_task(documents),
    )
    return count


Numbered = list[tuple[Int64, Raw]]


def _give(numbered: Numbered, hear: Hear) -> Operation[int]:
    reasons = [_problem(document) for _, document in numbered]
    retention = (yield from read_retention()) if any(reasons) else FOR_EVER
    updates = [
        _numbering(seq, document, reason, retention)
        for (seq, document), reason in zip(numbered, reasons, strict=True)
    ]
    try:
        result = yield _bulk(updates)
        refused: Numbered = []
        given = int(result.modified_count)
    except (StoreUnavailable, NotPermitted):
        raise
    except BulkRefused as refusal:
        refused = [numbered[place] for place in refusal.refused]
        given = len(numbered) - len(refused)
    except StoreError:
        return (yield from _give_each(numbered, hear))
    left = {seq for seq, _ in refused}
    for (seq, document), reason in zip(numbered, reasons, strict=True):
        if reason is not None and seq not in left:
            hear(document, reason)
    return given + (yield from _give_each(refused, hear)) if refused else given


def _give_each(numbered: Numbered, hear: Hear) -> Operation[int]:
    """One by one, after one of them was refused."""
    retention = yield from read_retention()
    given = 0
    for seq, document in numbered:
        given += yield from _give_one(seq, document, retention, hear)
    return given


def _give_one(seq: Int64, document: Raw, retention: Retention, hear: Hear) -> Operation[int]:
    """Number a job, or fail it: with the reason, and with less of itself where there is no room for
    that."""
    reason = _problem(document)
    for make in (_numbering, _numbering, _bare):
        try:
            result = yield _bulk([make(seq, document, reason, retention)])
            if reason is not None and result.modified_count:
                hear(document, reason)
            return int(result.modified_count)
        except Unstorable as error:
            reason = reason or _refused(error)
        except BulkRefused as error:
            if _is_about(
                error, "seq"
            ):  # the counter was set back; this job's turn comes with the next numbers
                yield from raise_counter()
                return 0
            if not _is_about(error, "key"):
                return 0  # about the server, or somebody's own index: it may be taken later
            reason = reason or _taken(document)
    return 0


def _problem(document: Raw) -> str | None:
    """Why it cannot be a job."""
    size = document.get("size")
    if isinstance(size, int) and size > LARGEST:
        return too_large(size)
    task = document.get("task")
    if is_text(task) and "\ufffd" in task and not _is_utf8(document.raw):
        return "its text is not UTF-8"
    return problem(document, map(str, document.get("names") or ()))


def _is_utf8(raw: bytes) -> bool:
    try:
        bson.decode(raw, PLAIN.with_options(unicode_decode_error_handler="strict"))
    except BSONError:
        return False
    return True


def _is_about(error: BulkRefused, field: str) -> bool:
    """Whether a unique index over that field refused it."""
    return any(field in key for key in error.refused.values())


def _refused(error: Unstorable) -> str:
    if isinstance(error, TooLarge):
        return "it is too large to be numbered, and its other fields had to be removed"
    return f"MongoDB would not take it as one: {error}"


def _bulk(updates: Iterable[UpdateOne]) -> Call:
    return bulk_write(JOBS, list(updates), repeats=True)


def _taken(document: Mapping[str, Any]) -> str:
    return f"an unfinished job has its key {document.get('key')!r} already"


# What a producer may have written that only nodes can know: it would be taken for a fact about a
# run.
_NOT_YET = [
    "cancel",
    "node",
    "progress",
    "result",
    "error",
    "errors",
    "started_at",
    "finished_at",
    "expire_at",
]


def _numbering(seq: Int64, document: Raw, reason: str | None, retention: Retention) -> UpdateOne:
    values: dict[str, Any] = {
        "seq": seq,
        "attempt": 0,
        "fails": 0,
        "lost": 0,
        "created_at": "$$NOW",
        "state": JobState.QUEUED.value,
    }
    if reason is not None:
        values |= _failure(reason, retention)
    elif document.get("args") is None:
        values["args"] = {"$literal": {}}
    # The index of fresh jobs holds those without these fields; a null or a zero says the same as
    # leaving them out.
    empty = [
        name
        for name in ("run_at", "start_by", "priority", "key")
        if name in document and not document[name]
    ]
    update: list[dict[str, Any]] = [{"$unset": [*_NOT_YET, *empty]}, {"$set": values}]
    return UpdateOne({**identity(document), "seq": None}, update)


def _bare(seq: Int64, document: Raw, reason: str | None, retention: Retention) -> UpdateOne:
    """Failed, and nothing else: there was no room for more."""
    counts = {
        "seq": seq,
        "attempt": 0,
        "fails": 0,
        "lost": 0,
        "created_at": "$$NOW",
        "args": {"$literal": {}},
    }
    bare = {"_id": "$_id", **counts, **_failure(reason or "it cannot be stored", retention)}
    return UpdateOne({**identity(document), "seq": None}, [{"$replaceWith": bare}])


def _failure(reason: str, retention: Retention) -> dict[str, Any]:
    return never_begun(
        JobError("InvalidJob", f"this document cannot be a job: {reason}"), retention
    )
