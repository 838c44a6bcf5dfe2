"""(1) The statements that add jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import bson
from bson import ObjectId
from bson.errors import BSONError

from ..batch import Batch
from ..errors import BulkRefused, ConfigError, StoreError, StoreUnavailable, SubmitInterrupted, TontineError, TooLarge
from ..job import LARGEST, Job, problem, too_large, utc
from ..states import OPEN, JobState
from .bell import ring_jobs
from .call import DECODED, Call, Steps, find_one
from .counter import Block, raise_counter, take
from .hold import find_holder
from .reserve import Reserve
from .schema import JOBS

CHUNK = 2000
RENUMBERED_AT_MOST = 5
ROOM_BESIDE_ARGS = 16 * 1024
"""Bytes that a job's other fields may take."""
CENTURY = 100 * 365 * 86400
LAST_YEAR = 8999
"""Of a time to which a century can be added."""
_OPEN = sorted(state.value for state in OPEN)


@dataclass(frozen=True, slots=True)
class Wish:
    """What `submit` was asked for, beside the arguments."""

    task: str
    delay: float | None = None
    run_at: datetime | None = None
    priority: int = 0
    key: str | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    max_age: float | None = None
    unique_for: float | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether its number is all that a node needs to find it."""
        return self.delay is None and self.run_at is None and not self.priority

    def document(self, args: Mapping[str, Any] | None, at: datetime) -> dict[str, Any]:
        """The job's document but for `_id` and `seq`, in server time `at`."""
        document: dict[str, Any] = {
            "task": self.task,
            "args": {} if args is None else args,
            "state": JobState.QUEUED.value,
            "attempt": 0,
            "fails": 0,
            "lost": 0,
            "created_at": at,
        }
        if self.delay is not None:
            document["run_at"] = at + timedelta(seconds=self.delay)
        elif self.run_at is not None:
            document["run_at"] = utc(self.run_at)
        if self.priority:
            document["priority"] = self.priority
        for name in ("key", "max_attempts", "timeout", "unique_for"):
            if (value := getattr(self, name)) is not None:
                document[name] = value
        if self.max_age is not None:
            document["start_by"] = document.get("run_at", at) + timedelta(seconds=self.max_age)
        if self.unique_for is not None:
            document["held_key"] = self.key
        return document

    def check(self) -> None:
        """Refuse what a node would refuse later."""
        if self.delay is not None and self.run_at is not None:
            raise ConfigError("give `delay` or `run_at`, not both")
        if self.run_at is not None and not isinstance(self.run_at, datetime):
            raise ConfigError(f"`run_at` must be a datetime, not {type(self.run_at).__name__}")
        if self.delay is not None and not 0 <= self.delay <= CENTURY:
            raise ConfigError(f"a delay of {self.delay:g} s cannot be: from 0 to a century")
        if self.max_age is not None and not 0 < self.max_age <= CENTURY:
            raise ConfigError(f"a max_age of {self.max_age:g} s cannot be: above 0, and up to a century")
        if self.max_age is not None and self.run_at is not None and self.run_at.year > LAST_YEAR:
            raise ConfigError("a job with a `max_age` must be due before the year 9000")
        if self.unique_for is not None and self.key is None:
            raise ConfigError("`unique_for` goes with a `key`: give the key that shall be unique for so long")
        if self.unique_for is not None and not 0 < self.unique_for <= CENTURY:
            raise ConfigError(f"unique_for={self.unique_for:g} s cannot be: above 0, and up to a century")


def submit(wish: Wish, args: Mapping[str, Any] | None, reserve: Reserve | None = None) -> Steps[Job]:
    """Add one job; with a key that an unfinished job has, that job comes back instead, marked `existed`.

    With `unique_for` also one that is done, for so long after its end.
    """
    wish.check()
    _check(wish, [args])
    block = yield from take(1) if reserve is None else reserve.take_one()
    documents = _documents(wish, [args], block)
    if wish.is_fresh:
        # Before it is there: it will be when a node has heard of it, and waits for a majority meanwhile.
        yield from ring_jobs(block.first, block.last, fresh=True)
    try:
        refused = yield from _insert(documents)
    except StoreUnavailable as error:
        raise SubmitInterrupted(f"it is not known whether the job was inserted: {error}", 0, 1) from error
    if refused:
        return (yield from _holder_of(wish, documents[0]))
    is_renumbered = documents[0]["seq"] != block.first
    if is_renumbered and reserve is not None:
        reserve.forget()
    if not wish.is_fresh or is_renumbered:
        yield from ring_jobs(documents[0]["seq"], documents[0]["seq"], fresh=False)
    return Job.from_document(documents[0])


def submit_many(
    wish: Wish,
    many: Iterable[Mapping[str, Any] | None],
    *,
    progress: Callable[[int], None] | None = None,
) -> Steps[Batch]:
    """Add one job per arguments, a chunk at a time; `progress` hears how many are in."""
    wish.check()
    if wish.key is not None:
        raise ConfigError("a key belongs to one job: submit it alone")
    batch = Batch(wish.task)
    arguments = iter(many)
    while chunk := list(islice(arguments, CHUNK)):
        inserted = unknown = 0
        documents: list[dict[str, Any]] = []
        try:
            _check(wish, chunk)
            block = yield from take(len(chunk))
            documents = _documents(wish, chunk, block)
            yield from _insert(documents)
            seqs = [document["seq"] for document in documents]
            yield from ring_jobs(min(seqs), max(seqs), fresh=wish.is_fresh)
        except TontineError as error:
            if isinstance(error, StoreUnavailable):
                unknown = len(documents)
            elif documents:
                inserted = yield _count_of(documents)
            if not batch and not inserted and not unknown:
                raise
            total = len(batch) + inserted
            raise SubmitInterrupted(
                f"{total} jobs were inserted, {unknown} more may have been: {error}", total, unknown
            ) from error
        batch.add(documents)
        if progress:
            progress(len(batch))
    return batch


def _check(wish: Wish, chunk: Sequence[Mapping[str, Any] | None]) -> None:
    """Refuse what a node would refuse later, before anything is inserted."""
    now = datetime.now(UTC)  # any time will do: only kinds of values are looked at
    odd = next((args for args in chunk if args is not None and not isinstance(args, Mapping)), {})
    if reason := problem(wish.document(odd, now)):
        raise ConfigError(f"this cannot be a job: {reason}")
    for args in chunk:
        if args and not _is_small(args) and (size := len(_encoded(args))) > LARGEST - ROOM_BESIDE_ARGS:
            raise TooLarge(f"this cannot be a job: {too_large(size)}")


def _encoded(args: Mapping[str, Any]) -> bytes:
    try:
        return bson.encode(args, codec_options=DECODED)
    except (BSONError, OverflowError, UnicodeError):
        return b""  # inserting it will say why it cannot be


def _is_small(args: Mapping[str, Any]) -> bool:
    """Whether it need not be encoded to know that it is not too large."""
    return len(args) < 1000 and all(
        isinstance(value, int | float | None) or (isinstance(value, str) and len(value) < 1000)
        for value in args.values()
    )


def _documents(wish: Wish, chunk: Sequence[Mapping[str, Any] | None], block: Block) -> list[dict[str, Any]]:
    same = wish.document(None, block.at)
    return [
        {"_id": ObjectId(), "seq": seq, **same, "args": {} if args is None else args}
        for seq, args in zip(block, chunk, strict=True)
    ]


def _count_of(documents: list[dict[str, Any]]) -> Call:
    ids = [document["_id"] for document in documents]
    return Call(JOBS, "count_documents", ({"_id": {"$in": ids}},), repeats=True)


def _insert(documents: list[dict[str, Any]]) -> Steps[dict[int, tuple[str, ...]]]:
    """Insert, and again after an unknown outcome: an `_id` that is there already is ours (F1).

    Numbers that others have already show that the counter was set back: it is put right, and these get new ones.
    """
    for _ in range(RENUMBERED_AT_MOST):
        refused = yield from _insert_once(documents)
        taken = [documents[place] for place, key in refused.items() if key == ("seq",)]
        if not taken:
            return refused
        yield from raise_counter()
        block = yield from take(len(taken))
        for seq, document in zip(block, taken, strict=True):
            document["seq"] = seq
        documents = taken
    raise StoreError("numbers are taken as fast as they are given: does something else write the counter?")


def _insert_once(documents: list[dict[str, Any]]) -> Steps[dict[int, tuple[str, ...]]]:
    try:
        yield Call(JOBS, "insert_many", (documents,), {"ordered": False}, repeats=True, within=30)
    except BulkRefused as refusal:
        refused = {place: key for place, key in refusal.refused.items() if key != ("_id",)}
        if any(key not in (("key",), ("held_key",), ("seq",)) for key in refused.values()):
            raise
        return refused
    return {}


def _holder_of(wish: Wish, document: dict[str, Any]) -> Steps[Job]:
    for _ in range(5):
        holder = yield find_one(JOBS, {"key": wish.key, "state": {"$in": _OPEN}})
        if holder is None and wish.unique_for is not None:
            holder = yield from find_holder(str(wish.key))
        if holder is not None:
            return Job.from_document(holder, existed=holder["_id"] != document["_id"])
        refused = yield from _insert([document])  # it ended in between, or its time is over
        if not refused:
            return Job.from_document(document)
    raise ConfigError(f"key {wish.key!r} is taken and freed too quickly to add a job")
