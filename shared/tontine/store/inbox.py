"""The inbox: producers that are trusted with nothing else leave jobs here, and nodes take them,
each exactly once.

The `_id` of the job is made of that of the document. So a node that dies between insert and delete,
two nodes at once, or a write whose outcome nobody knows do no harm: the second insert is refused,
and what was refused was taken before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import Int64, ObjectId
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from ..errors import BulkRefused, NotPermitted, StoreError, StoreUnavailable
from ..records.job import JobError, is_text, problem
from . import ranges
from .bell import common_task, ring, ring_jobs
from .call import RAW, Call, Operation, command, delete_many, find_one, insert_many, update_one
from .counter import Block, raise_counter
from .counter import take as take_numbers
from .end import born_failed
from .insert import Wish
from .names import CLUSTER, INBOX, JOBS, SETTINGS
from .retention import FOR_EVER, Retention, read_retention

LARGEST = 1024 * 1024
LONGEST_TASK = 200
AT_ONCE = 500

_FIELDS = {
    "_id": {"bsonType": "objectId"},
    "task": {"bsonType": "string", "minLength": 1, "maxLength": LONGEST_TASK},
    "args": {"bsonType": "object"},
    "run_at": {"bsonType": "date"},
}
VALIDATOR: dict[str, Any] = {
    "$jsonSchema": {
        "bsonType": "object",
        "required": ["_id", "task"],
        "additionalProperties": False,
        "properties": _FIELDS,
    },
    "$expr": {"$lte": [{"$bsonSize": "$$ROOT"}, LARGEST]},
}
_RULES = [("validator", VALIDATOR), ("validationLevel", "strict"), ("validationAction", "error")]


def make() -> Operation[None]:
    """Make the inbox, or its rules what they should be, and let nodes look there."""
    yield from mend()
    yield update_one(
        CLUSTER, {"_id": SETTINGS}, {"$set": {"inbox": True}}, upsert=True, repeats=True
    )
    yield from ring(CLUSTER)


def mend() -> Operation[bool]:
    """Make the inbox, or its rules what they should be; whether that was needed. Without rules it
    takes anything."""
    options = yield from read_options()
    if options is None:
        try:
            yield Call("", "command", (SON([("create", INBOX), *_RULES]),))
        except StoreError as error:
            if "already exists" not in str(error):
                raise
            options = {}  # perhaps by an insert, which gives it no rules
    if options is not None and is_strict(options):
        return False
    if options is not None:
        yield command(SON([("collMod", INBOX), *_RULES]))
    return True


def is_open(settings: Mapping[str, Any] | None) -> bool:
    """Whether nodes look into the inbox, by the settings of all nodes."""
    return (settings or {}).get("inbox") is True


def read_options() -> Operation[dict[str, Any] | None]:
    """The collection's options; None when there is none."""
    answer = yield command(SON([("listCollections", 1), ("filter", {"name": INBOX})]))
    found = next(iter(answer["cursor"]["firstBatch"]), None)
    return None if found is None else dict(found.get("options") or {})


def is_strict(options: Mapping[str, Any]) -> bool:
    """Whether the server refuses what the inbox must not hold."""
    defaults = {"validationLevel": "strict", "validationAction": "error"}
    return all(options.get(name, defaults.get(name)) == value for name, value in _RULES)


def read_first(aside: Collection[ObjectId] = ()) -> Operation[ObjectId | None]:
    """The `_id` of what has been lying there for longest."""
    first = yield find_one(INBOX, _takeable(aside), projection={"_id": 1}, hint=[("$natural", 1)])
    return first["_id"] if first else None


def read(aside: Collection[ObjectId] = ()) -> Operation[list[RawBSONDocument]]:
    """What lies there, in the order of arrival: so many documents, and no more bytes than one
    answer of the server."""
    reading: list[tuple[str, Any]] = [
        ("find", INBOX),
        ("filter", _takeable(aside)),
        ("hint", {"$natural": 1}),
        ("limit", AT_ONCE),
        ("batchSize", AT_ONCE),
        ("singleBatch", True),  # 16 MB, however many are left
        ("readConcern", {"level": "majority"}),
    ]
    answer = yield Call("", "command", (SON(reading),), {"codec_options": RAW}, repeats=True)
    return list(answer["cursor"]["firstBatch"])


def _takeable(aside: Collection[ObjectId]) -> dict[str, Any]:
    # Another `_id` than an ObjectId is nothing that a producer can write: it stays, and `tontine
    # doctor` tells of it.
    kind: dict[str, Any] = {"$type": "objectId"}
    return {"_id": kind | {"$nin": list(aside)} if aside else kind}


@dataclass(frozen=True, slots=True)
class Taken:
    """How many documents are jobs now, and those that even as failed jobs were refused."""

    count: int
    unfit: frozenset[ObjectId]


def take(documents: Sequence[Mapping[str, Any]]) -> Operation[Taken]:
    """Make jobs of documents and remove these; what cannot be a job becomes a failed one, with the
    reason."""
    yield from ranges.expect_all(one.get("task") for one in documents)
    block = yield from take_numbers(len(documents))
    reasons = [_problem(document) for document in documents]
    retention = (yield from read_retention()) if any(reasons) else FOR_EVER
    jobs = [
        _job(seq, block.at, document)
        if reason is None
        else _failed(seq, block.at, document, reason, retention)
        for seq, document, reason in zip(block, documents, reasons, strict=True)
    ]
    refused = yield from _insert(jobs)
    # A number that somebody has already, because the counter was set back: it is tried again, with
    # another one.
    waiting = {place for place, (key, _) in refused.items() if key == ("seq",)}
    if waiting:
        yield from raise_counter()
    unfit = yield from _fail(
        {place: why for place, (_, why) in refused.items() if place not in waiting},
        documents,
        block,
    )
    is_fresh = not any("run_at" in job for job in jobs)
    yield from ring_jobs(block.first, block.last, fresh=is_fresh, task=common_task(jobs))
    taken = [one["_id"] for place, one in enumerate(documents) if place not in waiting | unfit]
    if taken:
        yield delete_many(INBOX, {"_id": {"$in": taken}}, repeats=True)
    return Taken(len(taken), frozenset(documents[place]["_id"] for place in unfit))


def _fail(
    reasons: Mapping[int, str], documents: Sequence[Mapping[str, Any]], block: Block
) -> Operation[set[int]]:
    """Put failed jobs in the place of those that the server refused; which of these it refused,
    too."""
    if not reasons:
        return set()
    retention = yield from read_retention()
    seqs = list(block)
    places = list(reasons)
    failed = [
        _failed(seqs[one], block.at, documents[one], reasons[one], retention, with_args=False)
        for one in places
    ]
    refused = yield from _insert(failed)
    return {places[place] for place in refused}


def _insert(jobs: Sequence[Mapping[str, Any]]) -> Operation[dict[int, tuple[tuple[str, ...], str]]]:
    """Insert; which places were refused, by which index and why. A job that is there already was
    taken before."""
    try:
        yield insert_many(JOBS, list(jobs), repeats=True, within=30)
    except BulkRefused as refusal:
        return {
            place: (key, str(refusal)) for place, key in refusal.refused.items() if key != ("_id",)
        }
    except (StoreUnavailable, NotPermitted):
        raise
    except StoreError as error:
        if len(jobs) == 1:
            return {0: ((), str(error))}
        refused: dict[int, tuple[tuple[str, ...], str]] = {}
        for place, job in enumerate(jobs):  # one of them cannot be sent at all
            alone = yield from _insert([job])
            if alone:
                refused[place] = alone[0]
        return refused
    return {}


def _job(seq: Int64, at: datetime, document: Mapping[str, Any]) -> dict[str, Any]:
    wish = Wish(document["task"], run_at=document.get("run_at"))
    return {"_id": job_id(document["_id"]), "seq": seq, **wish.document(document.get("args"), at)}


def _failed(
    seq: Int64,
    at: datetime,
    document: Mapping[str, Any],
    reason: str,
    retention: Retention,
    *,
    with_args: bool = True,
) -> dict[str, Any]:
    task, args = document.get("task"), document.get("args")
    fits = with_args and isinstance(args, Mapping) and _size(document) <= LARGEST
    error = JobError("InvalidJob", f"this document of the inbox cannot be a job: {reason}")
    return {
        "_id": job_id(document["_id"]),
        "seq": seq,
        **Wish(task[:LONGEST_TASK] if is_text(task) else "").document(args if fits else None, at),
        **born_failed(error, at, retention),
    }


def job_id(id: ObjectId) -> str:
    """The `_id` of the job that a document of the inbox becomes."""
    return f"inbox-{id}"


def _problem(document: Mapping[str, Any]) -> str | None:
    """What the validator refuses, where somebody could go round it, and why."""
    if foreign := sorted(document.keys() - _FIELDS.keys()):
        return f"it has `{foreign[0]}`, and nothing but `task`, `args` and `run_at` is allowed"
    if _size(document) > LARGEST:
        return f"it has {_size(document)} bytes, and {LARGEST} are allowed"
    task = document.get("task")
    if is_text(task) and len(task) > LONGEST_TASK:
        return f"its `task` has {len(task)} characters, and {LONGEST_TASK} are allowed"
    return problem(document)


def _size(document: Mapping[str, Any]) -> int:
    return len(document.raw) if isinstance(document, RawBSONDocument) else 0
