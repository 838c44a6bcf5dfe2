"""The first use by anybody makes the database ready: what a client needs is there before its first job is.

A database whose schema is current costs one small read, once for each client. A user with fewer rights than that takes
goes on: it is stopped only where an index that its call relies on is not there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pymongo
from bson.son import SON

from ..errors import ConfigError, NotPermitted, StoreError, StoreUnavailable, TontineError
from . import indexes, schema
from .call import AsyncStore, Call, Steps, Store, answered, command, find_one
from .connect import check, refuse_standalone
from .names import CLUSTER, COUNTER, JOBS
from .schema import Mended

T = TypeVar("T")

_KEYS = ("key", "held_key")
_RELIED_ON = ("seq", *_KEYS)
"""Indexes of `jobs` without which a producer would do harm, or be answered with an error."""
_SINCE_THIS_RELEASE = ("held_key",)
"""Those that only a call needs which asks for something new."""
_LONG_RELIED_ON = tuple(name for name in _RELIED_ON if name not in _SINCE_THIS_RELEASE)
_BAD_VALUE = 2


@dataclass(frozen=True, slots=True)
class Prepared:
    """What preparing a database has made, and what it could not make, and why."""

    made: tuple[str, ...] = ()
    """The names of what was made."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why, by the name of what could not be made."""
    is_unsafe: bool = False
    """Whether an index that producers rely on may be missing: because it could not be made, or nobody has tried."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing that this user could have made."""
        return not self.failed


def prepare(*, is_looking: bool = False) -> Steps[Prepared]:
    """What a first call needs, and no more: an older schema that has it is for nodes and `init` to bring up to date.

    Whoever is only looking makes nothing where nobody has submitted anything: a collection `jobs` may be another's.
    """
    try:
        if (yield from schema.read_version()) >= schema.VERSION:
            return Prepared()
        if is_looking and not (yield from _is_ours()):
            return Prepared()
        yield from _check()
        missing = yield from _missing()
        if missing.isdisjoint(_LONG_RELIED_ON):
            return _of_earlier(missing)
        return (yield from prepare_all())
    except NotPermitted as error:
        return Prepared(failed={"the database": str(error)}, is_unsafe=True)


def look_within() -> Steps[Prepared]:
    """The same for whoever is in a transaction, without making anything.

    What is made waits for the transaction's own locks, and that would wait for this.
    """
    try:
        version = yield from schema.read_version()
        if version >= schema.VERSION:
            return Prepared()
        missing = (yield from _missing()) if version else {*_RELIED_ON}
    except NotPermitted as error:
        return Prepared(failed={"the database": str(error)}, is_unsafe=True)
    if not missing.isdisjoint(_LONG_RELIED_ON):
        raise ConfigError(
            "this database is not prepared, and that cannot be done inside of a transaction: call client.prepare() "
            "when your application starts, or run `tontine init` once"
        )
    return _of_earlier(missing)


def prepare_all() -> Steps[Prepared]:
    """All that `tontine init` makes, as far as this user may."""
    try:
        yield from _check()
        mended: Mended = yield from schema.mend()
    except NotPermitted as error:
        return Prepared(failed={"the database": str(error)}, is_unsafe=True)
    failed = {what: str(error) for what, error in {**mended.failed, **mended.lacking}.items()}
    return Prepared(tuple(mended.made), failed, any(f"{JOBS}.{name}" in failed for name in _RELIED_ON))


def _missing() -> Steps[set[str]]:
    return {str(index["name"]) for index in (yield from indexes.look(JOBS)).missing}


def _of_earlier(missing: set[str]) -> Prepared:
    """What an older schema lacks that has all that producers relied on before."""
    return Prepared(is_unsafe=not missing.isdisjoint(_SINCE_THIS_RELEASE))


def _check() -> Steps[None]:
    """Refuse a server that cannot carry a queue; one that does not answer may be asked again, as at any call."""
    try:
        yield from check()
    except ConfigError as error:
        raise error.__cause__ if isinstance(error.__cause__, StoreUnavailable) else error from None


def _is_ours() -> Steps[bool]:
    return (yield find_one(CLUSTER, {"_id": COUNTER}, projection={"_id": 1})) is not None


def _has_jobs() -> Steps[bool]:
    # Whoever may do something with a collection may list it like this.
    wanted = {"nameOnly": True, "authorizedCollections": True, "filter": {"name": JOBS}}
    answer = yield command(SON([("listCollections", 1), *wanted.items()]))
    return bool(answer["cursor"]["firstBatch"])


def guarded(steps: Steps[T], why: Collection[str]) -> Steps[T]:
    """An operation where an index may be missing: a key is only written if something keeps it unique.

    `why` is what kept it from being made. Without that it was left to others, and is made where a call needs it.
    """
    resume: Callable[[Any], Call] = steps.send
    value: Any = None
    try:
        while True:
            call = resume(value)
            try:
                for name in _keys_written(call):
                    yield from _require_unique(name, why)
                resume, value = steps.send, (yield call)
            except TontineError as error:
                resume, value = steps.throw, error
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _keys_written(call: Call) -> list[str]:
    if call.collection != JOBS or call.method not in ("insert_many", "insert_one"):
        return []
    return [name for name in _KEYS if any(one.get(name) for one in _documents(call.args[0]))]


def _documents(inserted: Any) -> list[Mapping[str, Any]]:
    return [inserted] if isinstance(inserted, Mapping) else list(inserted)


def _require_unique(name: str, why: Collection[str]) -> Steps[None]:
    if (yield from _has_index(name)):
        return
    if not why:
        prepared = yield from prepare_all()
        if not prepared.is_unsafe:
            return
        why = prepared.failed.values()
    raise ConfigError(
        f"a job with a key needs the index jobs.{name}, which is not there, and this user may not make it: run "
        f"`tontine init` once as a user who may, or start a node as one ({'; '.join(why)})"
    )


def _has_index(name: str) -> Steps[bool]:
    """Ask for the index in a way that every producer may. Of a collection that is not there, any may be asked for."""
    condition = next(index for index in schema.INDEXES[JOBS] if index["name"] == name)["partialFilterExpression"]
    try:
        yield find_one(JOBS, condition, projection={"_id": 1}, hint=name)
        return (yield from _has_jobs())
    except StoreError as error:
        if not _is_missing(error):
            raise
        return False


def _is_missing(error: StoreError) -> bool:
    """Whether an index that was asked for by name is not there."""
    # Such an answer begins with the query; where that is long, it is cut before it comes to the hint.
    return answered(error, _BAD_VALUE) and any(sign in str(error) for sign in ("hint", "error processing query"))


def _lost_index(database: str) -> StoreError:
    return StoreError(
        f"an index of the queue in `{database}` is missing: nodes and clients make it again if they may, so try again "
        "in a moment; otherwise run `tontine init` there as a user with the role readWrite"
    )


_DEEDS = {
    **dict.fromkeys(("find", "count", "aggregate", "distinct"), "read"),
    "insert": "insert into",
    "delete": "remove from",
}


def _unanswered(error: StoreUnavailable, call: Call, database: str) -> StoreUnavailable:
    """The same with what was being done and what to do now: an application has no more to show than this."""
    verb = next(
        (verb for method, verb in _DEEDS.items() if call.method.split("_and_")[-1].startswith(method)), "update"
    )
    deed = f"{verb} `{call.collection}`" if call.collection else f"run {next(iter(call.args[0]))}"
    return StoreUnavailable(
        f"MongoDB did not answer when it was to {deed} in `{database}` ({error}): is it running, and is the URI right? "
        "Try again when it answers"
    )


def _limit(client: Any) -> AbstractContextManager[None]:
    """The `timeoutMS` of a connection, for one call of a client and all that it takes; each has a limit of its own."""
    # The driver leaves it aside where a limit is set, as it is for each call of the store.
    seconds = vars(client).get("delegate", client).options.timeout  # Motor's wraps PyMongo's
    return nullcontext() if seconds is None else pymongo.timeout(seconds)


class PreparedStore(Store):
    """Runs store operations over a database that its first call prepares."""

    def __init__(self, database: Any, *, is_looking: bool = False) -> None:
        super().__init__(database)
        self.prepared: Prepared | None = None
        self._is_looking = is_looking
        self._is_doubtful = False
        """Whether an index was found missing although the schema is current."""
        self._preparing = threading.Lock()

    def run(self, steps: Steps[T], *, is_within: bool = False) -> T:
        """Drive an operation to its result; `is_within` says that it is part of a transaction that is open."""
        try:
            with _limit(self.database.client):
                prepared = self.prepared or (self._look_within() if is_within else self._prepare())
                return super().run(guarded(steps, prepared.failed.values()) if prepared.is_unsafe else steps)
        except StoreError as error:
            if _is_missing(error):
                self.prepared, self._is_doubtful = None, True
                raise _lost_index(self.database.name) from error
            raise

    def prepare_all(self) -> Prepared:
        """Make now whatever is missing."""
        with _limit(self.database.client):
            self.prepared = super().run(prepare_all())
        return self.prepared

    def _answer(self, call: Call) -> Any:
        try:
            return super()._answer(call)
        except StoreUnavailable as error:
            raise _unanswered(error, call, self.database.name) from error

    def _look_within(self) -> Prepared:
        # Without the lock: whoever has it may be waiting for this very transaction.
        self.prepared = super().run(look_within())
        return self.prepared

    def _prepare(self) -> Prepared:
        with self._preparing:
            if self.prepared is None:
                prepared = super().run(prepare_all() if self._is_doubtful else prepare(is_looking=self._is_looking))
                refuse_standalone(self.database.client)
                self.prepared, self._is_doubtful = prepared, False
            return self.prepared


class AsyncPreparedStore(AsyncStore):
    """The same over an async database."""

    def __init__(self, database: Any) -> None:
        super().__init__(database)
        self.prepared: Prepared | None = None
        self._is_doubtful = False
        self._preparing = asyncio.Lock()

    async def run(self, steps: Steps[T], *, is_within: bool = False) -> T:
        """Drive an operation to its result; `is_within` says that it is part of a transaction that is open."""
        try:
            with _limit(self.database.client):
                prepared = self.prepared or await (self._look_within() if is_within else self._prepare())
                return await super().run(guarded(steps, prepared.failed.values()) if prepared.is_unsafe else steps)
        except StoreError as error:
            if _is_missing(error):
                self.prepared, self._is_doubtful = None, True
                raise _lost_index(self.database.name) from error
            raise

    async def prepare_all(self) -> Prepared:
        """Make now whatever is missing."""
        with _limit(self.database.client):
            self.prepared = await super().run(prepare_all())
        return self.prepared

    async def _answer(self, call: Call) -> Any:
        try:
            return await super()._answer(call)
        except StoreUnavailable as error:
            raise _unanswered(error, call, self.database.name) from error

    async def _look_within(self) -> Prepared:
        self.prepared = await super().run(look_within())
        return self.prepared

    async def _prepare(self) -> Prepared:
        async with self._preparing:
            if self.prepared is None:
                prepared = await super().run(prepare_all() if self._is_doubtful else prepare())
                refuse_standalone(self.database.client)
                self.prepared, self._is_doubtful = prepared, False
            return self.prepared
