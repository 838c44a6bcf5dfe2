"""One call to MongoDB as data, and the two ways to make it.

A store operation is a generator: it yields a `Call`, gets its answer (or its error) back, and
returns a result. It knows nothing of sync or async; `Store` and `AsyncStore` drive it, give each
call its deadline, repeat what is safe to repeat, and translate pymongo's errors, once. A test can
drive an operation step by step and stop it between any two.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pymongo
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo import ReadPreference, WriteConcern, errors
from pymongo.read_concern import ReadConcern
from tenacity import (
    AsyncRetrying,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from ..errors import (
    BulkRefused,
    ConfigError,
    DuplicateKey,
    StoreError,
    StoreUnavailable,
    TontineError,
    TooLarge,
    Unstorable,
)
from .raw import Some, read, read_all
from .refusal import refusal

T = TypeVar("T")

CALL_LIMIT = 10.0
_ALL_AT_ONCE = 10_000
_LINE = 400

MAJORITY = WriteConcern(w="majority", j=True)
COMMITTED = ReadConcern("majority")
_UNHEARD = WriteConcern(w=0)

# Documents come from any driver: what cannot be decoded must not end a node (protocol P3).
_LENIENT: dict[str, Any] = {
    "tz_aware": True,
    "uuid_representation": 4,
    "unicode_decode_error_handler": "replace",
    "datetime_conversion": DatetimeConversion.DATETIME_AUTO,
}
DECODED: CodecOptions[Any] = CodecOptions(**_LENIENT)
# A UUID need not have the length of one, and then nothing of its document could be read.
PLAIN = DECODED.with_options(uuid_representation=0)
RAW: CodecOptions[Any] = PLAIN.with_options(document_class=RawBSONDocument)
# Making a date of every number is half the cost of reading a small job.
LEAN = PLAIN.with_options(datetime_conversion=DatetimeConversion.DATETIME_MS)


@dataclass(frozen=True, slots=True)
class Call:
    """One call: a method of a collection (or `command` of the database), with a deadline of its
    own.

    `repeats` says that making it again after an unknown outcome does no harm, `unheard` that nobody
    awaits the answer, `at_once` that one answer is enough, whatever else would come, `plain` that
    UUIDs stay what they are in BSON, `lean` that dates do, too, in documents that are read raw.
    """

    collection: str
    method: str
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    repeats: bool = False
    raw: bool = False
    unheard: bool = False
    at_once: bool = False
    plain: bool = False
    lean: bool = False
    within: float = CALL_LIMIT


Operation = Generator[Call, Any, T]


@dataclass(slots=True)
class Causal:
    """How far an operation has seen the store: one that is given it sees at least as much."""

    operation_time: Any = None
    cluster_time: Any = None

    def begin(self, session: Any) -> None:
        if self.cluster_time is not None:
            session.advance_cluster_time(self.cluster_time)
        if self.operation_time is not None:
            session.advance_operation_time(self.operation_time)

    def note(self, session: Any) -> None:
        """Where several go on from one, it is as far as the furthest."""
        time = session.operation_time
        if time is not None and (self.operation_time is None or time > self.operation_time):
            self.operation_time, self.cluster_time = time, session.cluster_time


def _within(call: Call, session: Any) -> Call:
    """The same call as part of a session; one that nobody awaits can be part of none."""
    if session is None or call.unheard:
        return call
    return replace(call, options={**call.options, "session": session})


def find(collection: str, filter: Mapping[str, Any], *, raw: bool = False, **options: Any) -> Call:
    """A read whose answer is a list of documents. All in one: servers send only 101 at first,
    unless asked for more."""
    return Call(
        collection,
        "find",
        (filter,),
        {"batch_size": _ALL_AT_ONCE, **options},
        repeats=True,
        raw=raw,
    )


def find_some(
    collection: str, filter: Mapping[str, Any], *, lean: bool = False, **options: Any
) -> Call:
    """A read of as many documents as one answer holds: whatever their size, no more than 16 MB and
    one of them."""
    options = {"batch_size": _ALL_AT_ONCE, **options}
    return Call(
        collection, "find", (filter,), options, repeats=True, raw=True, at_once=True, lean=lean
    )


def find_one(collection: str, filter: Mapping[str, Any], **options: Any) -> Call:
    return Call(collection, "find_one", (filter,), options, repeats=True)


def count_documents(
    collection: str, filter: Mapping[str, Any], *, within: float = CALL_LIMIT, **options: Any
) -> Call:
    return Call(collection, "count_documents", (filter,), options, repeats=True, within=within)


def distinct(collection: str, field: str, filter: Mapping[str, Any]) -> Call:
    return Call(collection, "distinct", (field, filter), repeats=True)


Filter = Mapping[str, Any]
Update = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""Operators, or the stages of a pipeline."""


def update_one(
    collection: str,
    filter: Filter,
    update: Update,
    *,
    repeats: bool = False,
    within: float = CALL_LIMIT,
    **options: Any,
) -> Call:
    return Call(collection, "update_one", (filter, update), options, repeats=repeats, within=within)


def update_many(
    collection: str,
    filter: Filter,
    update: Update,
    *,
    repeats: bool = False,
    within: float = CALL_LIMIT,
    **options: Any,
) -> Call:
    return Call(
        collection, "update_many", (filter, update), options, repeats=repeats, within=within
    )


def find_one_and_update(
    collection: str,
    filter: Filter,
    update: Update,
    *,
    repeats: bool = False,
    raw: bool = False,
    lean: bool = False,
    within: float = CALL_LIMIT,
    **options: Any,
) -> Call:
    return Call(
        collection,
        "find_one_and_update",
        (filter, update),
        options,
        repeats=repeats,
        raw=raw,
        lean=lean,
        within=within,
    )


def insert_one(
    collection: str,
    document: Mapping[str, Any],
    *,
    repeats: bool = False,
    unheard: bool = False,
    within: float = CALL_LIMIT,
) -> Call:
    return Call(
        collection, "insert_one", (document,), repeats=repeats, unheard=unheard, within=within
    )


def insert_many(
    collection: str,
    documents: Sequence[Mapping[str, Any]],
    *,
    repeats: bool = False,
    within: float = CALL_LIMIT,
    **options: Any,
) -> Call:
    """Those that are refused keep no others from being inserted."""
    options = {"ordered": False, **options}
    return Call(collection, "insert_many", (documents,), options, repeats=repeats, within=within)


def bulk_write(
    collection: str,
    updates: Sequence[Any],
    *,
    repeats: bool = False,
    within: float = CALL_LIMIT,
    **options: Any,
) -> Call:
    """Those that are refused keep no others from being made."""
    options = {"ordered": False, **options}
    return Call(collection, "bulk_write", (updates,), options, repeats=repeats, within=within)


def delete_one(collection: str, filter: Filter, *, repeats: bool = False) -> Call:
    return Call(collection, "delete_one", (filter,), repeats=repeats)


def delete_many(
    collection: str, filter: Filter, *, repeats: bool = False, within: float = CALL_LIMIT
) -> Call:
    return Call(collection, "delete_many", (filter,), repeats=repeats, within=within)


def command(document: Mapping[str, Any], *, within: float = CALL_LIMIT) -> Call:
    return Call("", "command", (document,), repeats=True, within=within)


class _Driver:
    """What both stores share: the collections with the protocol's concerns (G1)."""

    def __init__(self, database: Any) -> None:
        self.database = database
        self.refused: Callable[[TontineError], None] = lambda _: None
        """Hears of every call that ended with an error."""
        self._collections: dict[tuple[str, bool, bool, bool], Any] = {}

    def _method(self, call: Call) -> Callable[..., Any]:
        if not call.collection:
            return getattr(self.database, call.method)  # type: ignore[no-any-return]
        key = (call.collection, call.raw, call.unheard, call.plain)
        if key not in self._collections:
            self._collections[key] = self.database.get_collection(
                call.collection,
                codec_options=RAW if call.raw else PLAIN if call.plain else DECODED,
                read_preference=ReadPreference.PRIMARY,
                write_concern=_UNHEARD if call.unheard else MAJORITY,
                read_concern=COMMITTED,
            )
        method = "find_raw_batches" if call.raw and call.method == "find" else call.method
        return getattr(self._collections[key], method)  # type: ignore[no-any-return]


def _whole(call: Call, answer: Any) -> Any:
    """An answer in bytes as documents that remember them."""
    if not call.raw or answer is None:
        return answer
    codec = LEAN if call.lean else PLAIN
    if call.at_once:
        batch, is_cut = answer
        some = Some(read_all([batch] if batch else (), codec))
        some.is_cut = is_cut
        return some
    return read_all(answer, codec) if call.method == "find" else read(answer.raw, codec)


def _reads_again(call: Call, error: Exception) -> bool:
    """One document that cannot be decoded in full must not hide the others that were asked for."""
    return (
        isinstance(error, BSONError) and call.method in _READS and not call.plain and not call.raw
    )


def _is_for_the_owner(call: Call, error: Exception) -> bool:
    """Whoever began a transaction begins it again after this, and knows it by a label on the
    driver's own error."""
    return (
        "session" in call.options
        and isinstance(error, errors.PyMongoError)
        and error.has_error_label("TransientTransactionError")
    )


_READS = ("find", "find_one", "distinct")


class Store(_Driver):
    """Runs store operations over a PyMongo database."""

    def run(self, steps: Operation[T], *, causal: bool | Causal = False) -> T:
        """Drive an operation to its result; a `causal` one sees what it wrote and read, also on a
        new primary (PL0)."""
        if causal is False:
            return self._run(steps, None)
        seen = Causal() if causal is True else causal
        with self._session(seen) as session:
            return self._run(steps, session)

    @contextmanager
    def _session(self, seen: Causal) -> Iterator[Any]:
        with self.database.client.start_session(causal_consistency=True) as session:
            seen.begin(session)
            try:
                yield session
            finally:
                seen.note(session)

    def _run(self, steps: Operation[T], session: Any) -> T:
        resume: Callable[[Any], Call] = steps.send
        value: Any = None
        try:
            while True:
                call = _within(resume(value), session)
                try:
                    resume, value = steps.send, self._answer(call)
                except TontineError as error:
                    self.refused(error)
                    resume, value = steps.throw, error
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _answer(self, call: Call) -> Any:
        try:
            return self._once(call)
        except StoreUnavailable:
            if not call.repeats:
                raise
            return Retrying(**_again(call))(self._once, call)

    def _once(self, call: Call) -> Any:
        try:
            with pymongo.timeout(call.within):
                answer = self._method(call)(*call.args, **call.options)
                if call.at_once:
                    with answer:
                        return _whole(call, (next(answer, b""), answer.alive))
                return _whole(call, list(answer) if call.method == "find" else answer)
        except _REFUSALS as error:
            if _is_for_the_owner(call, error):
                raise
            if _reads_again(call, error):
                return self._once(replace(call, plain=True))
            raise translated(error) from error


class AsyncStore(_Driver):
    """Runs store operations over a PyMongo async or a Motor database."""

    async def run(self, steps: Operation[T], *, causal: bool | Causal = False) -> T:
        """Drive an operation to its result; a `causal` one sees what it wrote and read, also on a
        new primary (PL0)."""
        if causal is False:
            return await self._run(steps, None)
        seen = Causal() if causal is True else causal
        async with self._session(seen) as session:
            return await self._run(steps, session)

    @asynccontextmanager
    async def _session(self, seen: Causal) -> AsyncIterator[Any]:
        begun = self.database.client.start_session(causal_consistency=True)
        async with await begun if inspect.isawaitable(begun) else begun as session:  # Motor's is
            seen.begin(session)
            try:
                yield session
            finally:
                seen.note(session)

    async def _run(self, steps: Operation[T], session: Any) -> T:
        resume: Callable[[Any], Call] = steps.send
        value: Any = None
        try:
            while True:
                call = _within(resume(value), session)
                try:
                    resume, value = steps.send, await self._answer(call)
                except TontineError as error:
                    self.refused(error)
                    resume, value = steps.throw, error
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _answer(self, call: Call) -> Any:
        try:
            return await self._once(call)
        except StoreUnavailable:
            if not call.repeats:
                raise
            return await AsyncRetrying(**_again(call))(self._once, call)

    async def _once(self, call: Call) -> Any:
        try:
            with pymongo.timeout(call.within):
                answer = self._method(call)(*call.args, **call.options)
                if call.at_once:
                    async with answer:
                        return _whole(call, (await anext(answer, b""), answer.alive))
                work: Awaitable[Any] = answer.to_list(None) if call.method == "find" else answer
                return _whole(call, await work)
        except _REFUSALS as error:
            if _is_for_the_owner(call, error):
                raise
            if _reads_again(call, error):
                return await self._once(replace(call, plain=True))
            raise translated(error) from error


def _again(call: Call) -> dict[str, Any]:
    """Make a call again while that can end within its limit; each try has that limit itself."""
    return {
        "retry": retry_if_exception_type(StoreUnavailable),
        "wait": wait_random_exponential(multiplier=0.1, max=1),
        "stop": stop_after_attempt(3) | stop_after_delay(call.within / 2),
        "reraise": True,
    }


_REFUSALS = (errors.PyMongoError, BSONError, OverflowError, UnicodeError)
_FORBIDDEN = {13, 18, 8000, 33}
_TOO_LARGE = {10334, 17419, 17420, 17280}
_INVALID = {15, 121}
"""Nested too deep for a server, or refused by a validator."""
_UNSETTLED = {
    50,
    64,
    79,
    91,
    100,
    112,
    133,
    189,
    202,
    262,
    276,
    10107,
    11600,
    11601,
    11602,
    13435,
    13436,
}


def translated(error: Exception) -> TontineError:
    """pymongo's errors in Tontine's words. Anything that leaves the outcome open is
    `StoreUnavailable` (G2)."""
    if isinstance(error, errors.BulkWriteError):
        return _translated_bulk(error)
    if isinstance(error, errors.DuplicateKeyError):
        return DuplicateKey(_line(error), tuple((error.details or {}).get("keyPattern", ())))
    if isinstance(error, errors.DocumentTooLarge):
        return TooLarge(_line(error))
    if isinstance(error, errors.InvalidOperation):
        return StoreError(_line(error))
    if isinstance(error, errors.ConfigurationError | errors.InvalidURI | errors.InvalidName):
        return ConfigError(_line(error))
    if isinstance(error, errors.OperationFailure):
        return _translated_failure(error)
    if isinstance(error, errors.ConnectionFailure) or getattr(error, "timeout", False):
        # pymongo's words for a call whose server its monitor has stopped hearing.
        silent = _line(error).endswith("operation cancelled")
        return StoreUnavailable("the server does not answer" if silent else _line(error))
    if isinstance(error, BSONError | OverflowError | UnicodeError):
        return Unstorable(f"MongoDB cannot store this: {_line(error)}")
    return StoreError(_line(error))


def answered(error: BaseException, *codes: int) -> bool:
    """Whether it is MongoDB's answer with one of these codes."""
    return any(str(error).endswith(f"(code {code})") for code in codes)


def _translated_failure(error: errors.OperationFailure) -> TontineError:
    if error.code in _FORBIDDEN:
        return refusal(error)
    if error.code in _TOO_LARGE:
        return TooLarge(_line(error))
    if error.code in _INVALID:
        return Unstorable(f"MongoDB refused it: {_line(error)}")
    unsettled = isinstance(error, errors.WriteConcernError) or error.has_error_label(
        "RetryableWriteError"
    )
    if error.code in _UNSETTLED or error.timeout or unsettled:
        return StoreUnavailable(f"MongoDB could not finish it: {_line(error)}")
    return StoreError(f"MongoDB answered: {_line(error)} (code {error.code})")


def _translated_bulk(error: errors.BulkWriteError) -> TontineError:
    details = error.details or {}
    refused: dict[int, tuple[str, ...]] = {}
    for one in details.get("writeErrors", ()):
        if one.get("code") in _UNSETTLED:
            return StoreUnavailable(f"MongoDB could not finish it: {one.get('errmsg', '')}")
        if one.get("code") in _TOO_LARGE:
            return TooLarge(str(one.get("errmsg", ""))[:_LINE])
        refused[int(one["index"])] = tuple(one.get("keyPattern", ()))
    if refused and all(one.get("code") in _INVALID for one in details["writeErrors"]):
        return Unstorable(
            f"MongoDB refused it: {str(details['writeErrors'][0].get('errmsg', ''))[:_LINE]}"
        )
    if details.get("writeConcernErrors") or not refused:
        return StoreUnavailable(f"MongoDB could not confirm a write: {_line(error)}")
    return BulkRefused(str(details["writeErrors"][0].get("errmsg", ""))[:_LINE], refused)


def _line(error: Exception) -> str:
    # pymongo appends the whole topology, which helps nobody at a prompt.
    text = str(error)
    for noise in (
        ", full error:",
        ", Timeout:",
        ", Topology Description:",
        " (configured timeouts:",
    ):
        text = text.split(noise, maxsplit=1)[0]
    return " ".join(text.split())[:_LINE]
