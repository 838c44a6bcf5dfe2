"""(1) The statements that add jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import bson
from bson import ObjectId

from .. import hooks
from ..errors import (
    BulkRefused,
    ConfigError,
    DuplicateKey,
    StoreError,
    StoreUnavailable,
    SubmitInterrupted,
    TontineError,
    TooLarge,
    Unstorable,
)
from ..options import given
from ..records.batch import Batch
from ..records.job import LARGEST, Job, nobodys_task, problem, too_large, utc
from ..records.states import OPEN, JobState
from ..storable import REFUSALS, unstorable
from . import on_demand, ranges
from .bell import ring_jobs
from .call import DECODED, Call, Operation, count_documents, find_one, insert_many, insert_one
from .counter import Block, Reserve, raise_counter, take
from .hold import find_holder
from .indexes import HELD_KEY, START_BY
from .names import JOBS
from .ranges import key_of

CHUNK = 2000
_NUMBERS_TAKEN = (
    "numbers are taken as fast as they are given: does something else write the counter?"
)
RENUMBERED_AT_MOST = 5
ROOM_BESIDE_ARGS = 16 * 1024
"""Bytes that a job's other fields may take."""
LARGEST_META = 4 * 1024
"""Bytes. It goes to the node with the job, and is shown beside it: a place for a trace, a tenant, a
request's id."""
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
    meta: Mapping[str, Any] | None = None
    max_age: float | None = None
    unique_for: float | None = None

    @classmethod
    def of(cls, task: str, options: Mapping[str, Any]) -> Wish:
        """What somebody asked for, with the keywords of `submit`."""
        said = given(options)
        return cls(key_of(task, said.pop("version", None)), **said)

    @property
    def is_fresh(self) -> bool:
        """Whether its number is all that a node needs to find it."""
        return self.delay is None and self.run_at is None and not self.priority

    @property
    def is_timed(self) -> bool:
        """Whether time alone ends something of it, which takes an index that other jobs do not
        need."""
        return self.max_age is not None or self.unique_for is not None

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
        if self.meta:
            document["meta"] = self.meta
        if self.max_age is not None:
            document["start_by"] = document.get("run_at", at) + timedelta(seconds=self.max_age)
        if self.unique_for is not None:
            document["held_key"] = self.key
        return document

    def check(self) -> None:
        """Refuse what a node would refuse later, and what no module can have."""
        _check_task(self.task)
        if self.delay is not None and self.run_at is not None:
            raise ConfigError("give `delay` or `run_at`, not both")
        if self.run_at is not None and not isinstance(self.run_at, datetime):
            raise ConfigError(f"`run_at` must be a datetime, not {type(self.run_at).__name__}")
        if self.delay is not None and not 0 <= self.delay <= CENTURY:
            raise ConfigError(f"a delay of {self.delay:g} s cannot be: from 0 to a century")
        if self.max_age is not None and not 0 < self.max_age <= CENTURY:
            raise ConfigError(
                f"a max_age of {self.max_age:g} s cannot be: above 0, and up to a century"
            )
        if self.max_age is not None and self.run_at is not None and self.run_at.year > LAST_YEAR:
            raise ConfigError("a job with a `max_age` must be due before the year 9000")
        if self.unique_for is not None and self.key is None:
            raise ConfigError(
                "`unique_for` goes with a `key`: give the key that shall be unique for so long"
            )
        if self.unique_for is not None and not 0 < self.unique_for <= CENTURY:
            raise ConfigError(
                f"unique_for={self.unique_for:g} s cannot be: above 0, and up to a century"
            )
        if self.meta is not None:
            _check_meta(self.meta)


_Rest = ParamSpec("_Rest")
_Added = TypeVar("_Added")


def _instrumented(
    operation: Callable[Concatenate[Wish, _Rest], Operation[_Added]],
) -> Callable[Concatenate[Wish, _Rest], Operation[_Added]]:
    """The same operation, with what instruments this process around it, if anything does."""

    @wraps(operation)
    def around(wish: Wish, /, *rest: _Rest.args, **more: _Rest.kwargs) -> Operation[_Added]:
        if hooks.around_submit is None:
            return operation(wish, *rest, **more)
        return within(wish, *rest, **more)

    def within(wish: Wish, /, *rest: _Rest.args, **more: _Rest.kwargs) -> Operation[_Added]:
        with hooks.submitting(wish.task, wish.meta) as meta:
            return (yield from operation(replace(wish, meta=meta), *rest, **more))

    return around


@_instrumented
def submit(
    wish: Wish,
    args: Mapping[str, Any] | None,
    reserve: Reserve | None = None,
    *,
    session: Any = None,
) -> Operation[Job]:
    """Add one job; with a key that an unfinished job has, that job comes back instead, marked
    `existed`.

    With `unique_for` also one that is done, for so long after its end. With a `session` it is added
    in the transaction that is open there.
    """
    wish.check()
    _check(wish, [args])
    if wish.is_timed:
        yield from see_to_indexes(wish, session)
    yield from ranges.expect(wish.task, None if reserve is None else reserve.noted)
    if session is not None:
        return (yield from _submit_within(session, wish, args, reserve))
    block = yield from take(1) if reserve is None else reserve.take_one()
    documents = make_documents(wish, [args], block)
    if wish.is_fresh:
        # Before it is there: it will be when a node has heard of it, and waits for a majority
        # meanwhile.
        yield from ring_jobs(block.first, block.last, fresh=True, task=wish.task)
    try:
        refused = yield from put_in(documents)
    except StoreUnavailable as error:
        raise SubmitInterrupted(
            f"it is not known whether the job was inserted: {error}", 0, 1
        ) from error
    if refused:
        return (yield from holder_of(wish, documents[0]))
    is_renumbered = documents[0]["seq"] != block.first
    if is_renumbered and reserve is not None:
        reserve.forget()
    if not wish.is_fresh or is_renumbered:
        seq = documents[0]["seq"]
        yield from ring_jobs(seq, seq, fresh=False, task=wish.task)
    return Job.from_document(documents[0])


@_instrumented
def submit_many(
    wish: Wish,
    many: Iterable[Mapping[str, Any] | None],
    *,
    progress: Callable[[int], None] | None = None,
    session: Any = None,
) -> Operation[Batch]:
    """Add one job per arguments, a chunk at a time; `progress` hears how many are in."""
    wish.check()
    if wish.key is not None:
        raise ConfigError("a key belongs to one job: submit it alone")
    batch = Batch(wish.task)
    arguments = iter(many)
    if wish.is_timed:
        yield from see_to_indexes(wish, session)
    yield from ranges.expect(wish.task)
    if session is not None:
        return (yield from _submit_many_within(session, wish, arguments, batch, progress))
    while chunk := list(islice(arguments, CHUNK)):
        inserted = unknown = 0
        documents: list[dict[str, Any]] = []
        try:
            _check(wish, chunk)
            block = yield from take(len(chunk))
            documents = make_documents(wish, chunk, block)
            yield from put_in(documents)
            seqs = [document["seq"] for document in documents]
            yield from ring_jobs(min(seqs), max(seqs), fresh=wish.is_fresh, task=wish.task)
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


def see_to_indexes(wish: Wish, session: Any = None) -> Operation[None]:
    """Have the indexes that a job which is timed needs."""
    see_to = on_demand.need if session is None else on_demand.require
    if wish.max_age is not None:
        yield from see_to(START_BY)
    if wish.unique_for is not None:
        yield from see_to(HELD_KEY)


def refuse_unfit(wish: Wish, many: Sequence[Mapping[str, Any] | None]) -> None:
    """Refuse a wish, or arguments, that no node would take."""
    wish.check()
    _check(wish, many)


def _check(wish: Wish, chunk: Sequence[Mapping[str, Any] | None]) -> None:
    """Refuse what a node would refuse later, before anything is inserted."""
    now = datetime.now(UTC)  # any time will do: only kinds of values are looked at
    odd = next((args for args in chunk if args is not None and not isinstance(args, Mapping)), {})
    if reason := problem(wish.document(odd, now)):
        raise ConfigError(f"this cannot be a job: {reason}")
    for args in chunk:
        if (
            args
            and not _is_small(args)
            and (size := len(_encoded(args, "args"))) > LARGEST - ROOM_BESIDE_ARGS
        ):
            raise TooLarge(f"this cannot be a job: {too_large(size)}")


def _check_task(task: object) -> None:
    if isinstance(task, str) and task and (reason := nobodys_task(task)):
        raise ConfigError(f"this cannot be a job: {reason}")


def _check_meta(meta: Mapping[str, Any]) -> None:
    if not isinstance(meta, Mapping):
        raise ConfigError(f"`meta` must be a dictionary, not {type(meta).__name__}")
    if (size := len(_encoded(meta, "meta"))) > LARGEST_META:
        raise TooLarge(
            f"`meta` has {size} bytes, and {LARGEST_META} are allowed: what the task needs "
            "belongs into its arguments"
        )


def _encoded(value: Mapping[str, Any], name: str) -> bytes:
    try:
        return bson.encode(value, codec_options=DECODED)
    except REFUSALS as error:
        raise Unstorable(f"this cannot be a job: {unstorable(value, name) or error}") from error


def _named(error: Unstorable, chunk: Sequence[Mapping[str, Any] | None]) -> Unstorable:
    """The same refusal with the argument that it is about: what is small was not encoded before."""
    reasons = (unstorable(args, "args") for args in chunk if args)
    reason = next(filter(None, reasons), None)
    return (
        error
        if reason is None or isinstance(error, TooLarge)
        else Unstorable(f"this cannot be a job: {reason}")
    )


def _is_small(args: Mapping[str, Any]) -> bool:
    """Whether it need not be encoded to know that it is not too large."""
    return len(args) < 1000 and all(
        isinstance(value, int | float | None) or (isinstance(value, str) and len(value) < 1000)
        for value in args.values()
    )


def make_documents(
    wish: Wish, chunk: Sequence[Mapping[str, Any] | None], block: Block
) -> list[dict[str, Any]]:
    same = wish.document(None, block.at)
    return [
        {"_id": ObjectId(), "seq": seq, **same, "args": {} if args is None else args}
        for seq, args in zip(block, chunk, strict=True)
    ]


def _count_of(documents: list[dict[str, Any]]) -> Call:
    ids = [document["_id"] for document in documents]
    return count_documents(JOBS, {"_id": {"$in": ids}})


def put_in(documents: list[dict[str, Any]]) -> Operation[dict[int, tuple[str, ...]]]:
    """Insert, and again after an unknown outcome: an `_id` that is there already is ours (F1).

    Numbers that others have already show that the counter was set back: it is put right, and these
    get new ones.
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
    raise StoreError(_NUMBERS_TAKEN)


def _insert_once(documents: list[dict[str, Any]]) -> Operation[dict[int, tuple[str, ...]]]:
    try:
        yield insert_many(JOBS, documents, repeats=True, within=30)
    except BulkRefused as refusal:
        refused = {place: key for place, key in refusal.refused.items() if key != ("_id",)}
        if any(key not in (("key",), ("held_key",), ("seq",)) for key in refused.values()):
            raise
        return refused
    except Unstorable as error:
        raise _named(error, [document["args"] for document in documents]) from error
    return {}


Put = Literal["inserted", "there", "key"]
"""What became of a job with a name of its own: put in; the name is taken; an unfinished job has its
key."""


def put_named(
    name: str, wish: Wish, args: Mapping[str, Any] | None, **marks: Any
) -> Operation[Put]:
    """Insert a job under this `_id`: once, whoever tries, how often, and after whatever outcome.

    It is the only way to release something exactly once. `marks` are fields that say whose it is.
    """
    yield from ranges.expect_all([wish.task])
    for _ in range(RENUMBERED_AT_MOST):
        block = yield from take(1)
        (document,) = make_documents(wish, [args], block)
        document |= {"_id": name, **marks}
        try:
            yield insert_one(JOBS, document, repeats=True)
        except DuplicateKey as error:
            if error.key == ("_id",):
                return "there"
            if error.key == ("key",):
                return "key"
            if error.key != ("seq",):
                raise
            yield from raise_counter()
            continue
        yield from ring_jobs(block.first, block.last, fresh=wish.is_fresh, task=wish.task)
        return "inserted"
    raise StoreError(_NUMBERS_TAKEN)


def _submit_within(
    session: Any, wish: Wish, args: Mapping[str, Any] | None, reserve: Reserve | None
) -> Operation[Job]:
    if wish.key is not None:
        # A key that is taken would end the whole transaction: so look before, with its eyes.
        looking = find_one(JOBS, {"key": wish.key, "state": {"$in": _OPEN}}, session=session)
        holder = yield replace(looking, repeats=False)
        if holder is None and wish.unique_for is not None:
            holder = yield from find_holder(wish.key)
        if holder is not None:
            return Job.from_document(holder, existed=True)
    block = yield from take(1) if reserve is None else reserve.take_one()
    documents = yield from _insert_within(session, wish, [args], block)
    return Job.from_document(documents[0])


def _submit_many_within(
    session: Any,
    wish: Wish,
    arguments: Iterator[Mapping[str, Any] | None],
    batch: Batch,
    progress: Callable[[int], None] | None,
) -> Operation[Batch]:
    while chunk := list(islice(arguments, CHUNK)):
        _check(wish, chunk)
        block = yield from take(len(chunk))
        batch.add((yield from _insert_within(session, wish, chunk, block)))
        if progress:
            progress(len(batch))
    return batch


def _insert_within(
    session: Any, wish: Wish, chunk: Sequence[Mapping[str, Any] | None], block: Block
) -> Operation[list[dict[str, Any]]]:
    """Insert in a transaction that is the application's: once, for only its owner may begin it
    again.

    Its numbers were taken outside, because a transaction that wrote the counter would stand in the
    way of all others. When it commits, nodes may be far past these numbers: with a `run_at` they
    are found by their time instead.
    """
    documents = [
        {"run_at": block.at, **document} for document in make_documents(wish, chunk, block)
    ]
    try:
        yield insert_many(JOBS, documents, session=session, within=30)
    except BulkRefused as error:
        raise StoreError(f"MongoDB has ended the transaction, begin it again: {error}") from error
    except Unstorable as error:
        raise _named(error, chunk) from error
    # Too early for certain, but an idle node looks again a moment later, and most transactions are
    # short.
    yield from ring_jobs(block.first, block.last, fresh=False, task=wish.task)
    return documents


def holder_of(wish: Wish, document: dict[str, Any]) -> Operation[Job]:
    for _ in range(5):
        holder = yield find_one(JOBS, {"key": wish.key, "state": {"$in": _OPEN}})
        if holder is None and wish.unique_for is not None:
            holder = yield from find_holder(str(wish.key))
        if holder is not None:
            return Job.from_document(holder, existed=holder["_id"] != document["_id"])
        refused = yield from put_in([document])  # it ended in between, or its time is over
        if not refused:
            return Job.from_document(document)
    raise ConfigError(f"key {wish.key!r} is taken and freed too quickly to add a job")
