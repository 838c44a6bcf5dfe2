"""The first use by anybody makes the database ready: what a client needs is there before its first
job is.

A database whose schema is current costs one small read, once for each client. A user with fewer
rights than that takes goes on: it is stopped only where an index that its call relies on is not
there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pymongo

from ..errors import ConfigError, NotPermitted, StoreError, StoreUnavailable, TontineError
from . import indexes, on_demand, schema
from .call import AsyncStore, Call, Causal, Operation, Store, find_one
from .connect import check, refuse_standalone
from .names import CLUSTER, COUNTER, JOBS
from .schema import Mended

T = TypeVar("T")

_RELIED_ON = ("seq", "key")
"""Indexes of `jobs` without which a producer would do harm, or be answered with an error."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What preparing a database has made, and what it could not make, and why."""

    made: tuple[str, ...] = ()
    """The names of what was made."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why, by the name of what could not be made."""
    is_unsafe: bool = False
    """Whether an index that producers rely on may be missing: it could not be made."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing that this user could have made."""
        return not self.failed


def prepare(*, is_looking: bool = False) -> Operation[Prepared]:
    """What a first call needs, and no more: an older schema that has it is for nodes and `init` to
    bring up to date.

    Whoever is only looking makes nothing where nobody has submitted anything: a collection `jobs`
    may be another's.
    """
    try:
        if (yield from schema.read_version()) >= schema.VERSION:
            return Prepared()
        if is_looking and not (yield from _is_ours()):
            return Prepared()
        yield from _check()
        if (yield from _missing()).isdisjoint(_RELIED_ON):
            return Prepared()
        return (yield from prepare_now())
    except NotPermitted as error:
        return Prepared(failed={"the database": str(error)}, is_unsafe=True)


def look_within() -> Operation[Prepared]:
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
    if not missing.isdisjoint(_RELIED_ON):
        raise ConfigError(
            "this database is not prepared, and that cannot be done inside of a transaction: "
            "call client.prepare() "
            "when your application starts, or run `tontine init` once"
        )
    return Prepared()


def prepare_now(*, everything: bool = False) -> Operation[Prepared]:
    """All that `tontine init` makes, as far as this user may; with `everything`, that of `tontine
    init --all`."""
    try:
        yield from _check()
        if everything:
            yield from on_demand.want_all()
        mended: Mended = yield from schema.mend()
    except NotPermitted as error:
        return Prepared(failed={"the database": str(error)}, is_unsafe=True)
    failed = {what: str(error) for what, error in {**mended.failed, **mended.lacking}.items()}
    return Prepared(
        tuple(mended.made), failed, any(f"{JOBS}.{name}" in failed for name in _RELIED_ON)
    )


def _missing() -> Operation[set[str]]:
    return {str(index["name"]) for index in (yield from indexes.look(JOBS)).missing}


def _check() -> Operation[None]:
    """Refuse a server that cannot carry a queue; one that does not answer may be asked again, as at
    any call."""
    try:
        yield from check()
    except ConfigError as error:
        raise error.__cause__ if isinstance(error.__cause__, StoreUnavailable) else error from None


def _is_ours() -> Operation[bool]:
    return (yield find_one(CLUSTER, {"_id": COUNTER}, projection={"_id": 1})) is not None


def guarded(steps: Operation[T], why: Collection[str]) -> Operation[T]:
    """An operation where an index could not be made, and `why`: a key is only written if something
    keeps it unique."""
    resume: Callable[[Any], Call] = steps.send
    value: Any = None
    try:
        while True:
            call = resume(value)
            try:
                if _writes_key(call):
                    yield from _require_unique(why)
                resume, value = steps.send, (yield call)
            except TontineError as error:
                resume, value = steps.throw, error
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _writes_key(call: Call) -> bool:
    if call.collection != JOBS or call.method not in ("insert_many", "insert_one"):
        return False
    return any(one.get("key") for one in _documents(call.args[0]))


def _documents(inserted: Any) -> list[Mapping[str, Any]]:
    return [inserted] if isinstance(inserted, Mapping) else list(inserted)


def _require_unique(why: Collection[str]) -> Operation[None]:
    if not (yield from indexes.is_there("key")):
        raise ConfigError(
            "a job with a key needs the index jobs.key, which is not there, and this user may "
            "not make it: run "
            f"`tontine init` once as a user who may, or start a node as one ({'; '.join(why)})"
        )


def _lost_index(database: str) -> StoreError:
    return StoreError(
        f"an index of the queue in `{database}` is missing: nodes and clients make it again if "
        "they may, so try again "
        "in a moment; otherwise run `tontine init` there as a user with the role readWrite"
    )


_DEEDS = {
    **dict.fromkeys(("find", "count", "aggregate", "distinct"), "read"),
    "insert": "insert into",
    "delete": "remove from",
}


def _unanswered(error: StoreUnavailable, call: Call, database: str) -> StoreUnavailable:
    """The same with what was being done and what to do now: an application has no more to show than
    this."""
    verb = next(
        (
            verb
            for method, verb in _DEEDS.items()
            if call.method.split("_and_")[-1].startswith(method)
        ),
        "update",
    )
    deed = f"{verb} `{call.collection}`" if call.collection else f"run {next(iter(call.args[0]))}"
    return StoreUnavailable(
        f"MongoDB did not answer when it was to {deed} in `{database}` ({error}): is it running, "
        "and is the URI right? "
        "Try again when it answers"
    )


def _limit(client: Any) -> AbstractContextManager[None]:
    """The `timeoutMS` of a connection, for one call of a client and all that it takes; each has a
    limit of its own."""
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

    def run(
        self, steps: Operation[T], *, causal: bool | Causal = False, is_within: bool = False
    ) -> T:
        """Drive an operation to its result; `is_within` says that it is part of a transaction that
        is open."""
        try:
            with _limit(self.database.client):
                prepared = self.prepared or (self._look_within() if is_within else self._prepare())
                return super().run(
                    guarded(steps, prepared.failed.values()) if prepared.is_unsafe else steps,
                    causal=causal,
                )
        except StoreError as error:
            if indexes.tells_of_missing(error):
                self.prepared, self._is_doubtful = None, True
                raise _lost_index(self.database.name) from error
            raise

    def prepare_now(self, *, everything: bool) -> Prepared:
        """Make now whatever is missing; with `everything`, also the indexes on demand."""
        with _limit(self.database.client):
            self.prepared = super().run(prepare_now(everything=everything))
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
                prepared = super().run(
                    prepare_now() if self._is_doubtful else prepare(is_looking=self._is_looking)
                )
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

    async def run(
        self, steps: Operation[T], *, causal: bool | Causal = False, is_within: bool = False
    ) -> T:
        """Drive an operation to its result; `is_within` says that it is part of a transaction that
        is open."""
        try:
            with _limit(self.database.client):
                prepared = self.prepared or await (
                    self._look_within() if is_within else self._prepare()
                )
                return await super().run(
                    guarded(steps, prepared.failed.values()) if prepared.is_unsafe else steps,
                    causal=causal,
                )
        except StoreError as error:
            if indexes.tells_of_missing(error):
                self.prepared, self._is_doubtful = None, True
                raise _lost_index(self.database.name) from error
            raise

    async def prepare_now(self, *, everything: bool) -> Prepared:
        """Make now whatever is missing; with `everything`, also the indexes on demand."""
        with _limit(self.database.client):
            self.prepared = await super().run(prepare_now(everything=everything))
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
                prepared = await super().run(prepare_now() if self._is_doubtful else prepare())
                refuse_standalone(self.database.client)
                self.prepared, self._is_doubtful = prepared, False
            return self.prepared
