"""(2) Numbers: producers take blocks of them, nodes give them to jobs that arrived without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import Int64
from pymongo import ReturnDocument, UpdateOne

from ..errors import BulkRefused, DuplicateKey, TooLarge
from ..job import JobError, problem
from ..states import JobState
from .bell import ring_jobs
from .call import Call, Steps, find
from .retention import FOR_EVER, Retention, read_retention
from .schema import CLUSTER, COUNTER, JOBS

RAW_AT_ONCE = 500

# All that `problem` looks at; of arguments only whether they are an object, because they may be large.
_JUDGED: dict[str, Any] = {
    **dict.fromkeys(("task", "state", "run_at", "priority", "key", "max_attempts", "timeout"), 1),
    "args": {"$cond": [{"$eq": [{"$type": "$args"}, "object"]}, {"$literal": {}}, "$args"]},
}


@dataclass(frozen=True, slots=True)
class Block:
    """Numbers that nobody else has, and the server's time when they were taken."""

    first: int
    count: int
    at: datetime

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def __iter__(self) -> Any:
        return (Int64(seq) for seq in range(self.first, self.first + self.count))


def take(count: int) -> Steps[Block]:
    """A block of new numbers (F1). Taking one twice after an unknown outcome only leaves a hole."""
    statement = Call(
        CLUSTER,
        "find_one_and_update",
        (
            {"_id": COUNTER},
            [{"$set": {"seq": {"$toLong": {"$add": [{"$ifNull": ["$seq", 0]}, count]}}, "at": "$$NOW"}}],
        ),
        {"upsert": True, "return_document": ReturnDocument.AFTER},
        repeats=True,
    )
    try:
        counter = yield statement
    except DuplicateKey:  # two first producers at once: the document is there now
        counter = yield statement
    return Block(int(counter["seq"]) - count + 1, count, counter["at"])


def find_raw(limit: int = RAW_AT_ONCE) -> Steps[list[dict[str, Any]]]:
    """Jobs without a number, in the order of their arrival."""
    found: list[dict[str, Any]] = yield find(
        JOBS, {"seq": None}, projection=_JUDGED, sort=[("seq", 1)], limit=limit, hint="raw"
    )
    return found


def give_numbers(documents: list[dict[str, Any]]) -> Steps[int]:
    """Number raw jobs and fill in what claims rely on (F2); what cannot be a job becomes failed, with the reason."""
    if not documents:
        return 0
    block = yield from take(len(documents))
    count = yield from _give(block, documents)
    yield from ring_jobs(
        block.first, block.last, fresh=not any(one.get("run_at") or one.get("priority") for one in documents)
    )
    return count


def _give(block: Block, documents: list[dict[str, Any]]) -> Steps[int]:
    numbered = list(zip(block, documents, strict=True))
    reasons = [problem(document) for document in documents]
    retention = (yield from read_retention()) if any(reasons) else FOR_EVER
    updates = [
        _numbering(seq, document, reason, retention) for (seq, document), reason in zip(numbered, reasons, strict=True)
    ]
    try:
        result = yield _bulk(updates)
        return int(result.modified_count)
    except TooLarge:
        return (yield from _number_large(numbered))
    except BulkRefused as refusal:
        # Two raw jobs with one key, or a key that an unfinished job has: the later one cannot be.
        taken = [numbered[place] for place, key in refusal.refused.items() if "key" in key]
        if taken:
            retention = yield from read_retention()
            yield _bulk([_numbering(seq, document, _taken(document), retention) for seq, document in taken])
        return len(documents) - len(refusal.refused) + len(taken)


def _number_large(numbered: list[tuple[Int64, dict[str, Any]]]) -> Steps[int]:
    """One of these has no room left in its document for a number: it fails, without its arguments."""
    count = 0
    for seq, document in numbered:
        update = _numbering(seq, document, problem(document), FOR_EVER)
        try:
            result = yield _bulk([update])
        except TooLarge:
            why = "it is too large to be numbered, and its `args` had to be removed"
            slim = _numbering(seq, document, why, FOR_EVER, {"args": {"$literal": {}}})
            result = yield _bulk([slim])
        count += int(result.modified_count)
    return count


def _bulk(updates: Iterable[UpdateOne]) -> Call:
    return Call(JOBS, "bulk_write", (list(updates),), {"ordered": False}, repeats=True)


def _taken(document: Mapping[str, Any]) -> str:
    return f"an unfinished job has its key {document.get('key')!r} already"


def _numbering(
    seq: Int64,
    document: Mapping[str, Any],
    reason: str | None,
    retention: Retention,
    more: Mapping[str, Any] | None = None,
) -> UpdateOne:
    values: dict[str, Any] = {
        "seq": seq,
        "attempt": 0,
        "fails": 0,
        "lost": 0,
        "created_at": "$$NOW",
        "state": JobState.QUEUED.value,
    }
    if reason is not None:
        error = JobError("InvalidJob", f"this document cannot be a job: {reason}").to_document()
        values |= {"state": JobState.FAILED.value, "error": {"$literal": error}, "finished_at": "$$NOW"}
        values |= {"expire_at": retention.expiry(done=False), **(more or {})}
    elif document.get("args") is None:
        values["args"] = {"$literal": {}}
    update: list[dict[str, Any]] = [{"$set": values}]
    # The index of fresh jobs holds those without these fields; a null or a zero says the same as leaving them out.
    if empty := [name for name in ("run_at", "priority", "key") if name in document and not document[name]]:
        update.append({"$unset": empty})
    update.append({"$unset": "cancel"})  # a wish about a running job, and this one is new
    return UpdateOne({"_id": document["_id"], "seq": None}, update)
