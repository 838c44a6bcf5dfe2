"""(6) Every change of the queue as deltas, for whoever looks on.

`Stream` is for an observer: without payloads and results, and many changes at a time, as the server
sends them; taking them one by one from the driver costs as much again as reading them does. It goes
on from where it was for as long as the server remembers; when it no longer does, `StreamLost` says
so, and the reader must look at everything again.

`changes` is for an audit: jobs, nodes, cluster, plans and states, in order, and nothing left out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

import pymongo
from bson import Int64, Timestamp
from pymongo.errors import ConnectionFailure, CursorNotFound, OperationFailure, PyMongoError

from ..errors import NoStreams, StoreError, StoreUnavailable, StreamLost
from ..records.change import NEVER, Delta, DeltaKind
from .call import DECODED, PLAIN, AsyncStore, Store, translated
from .names import CLUSTER, EVENTS, JOBS, NODES, PLANS, ROSTER, STATES

QUIET_MS = 500
BATCH = 500
_LIMIT, _ANSWER_LIMIT = 10.0, 15.0
_CLOSE_WITHIN = 1.0

_LOST = {136, 222, 260, 280, 286}
_NO_STREAMS = {40324, 40573, 59}
_ROUTINE = ["waiting", "working"]
_ENDS = {"drop", "rename", "dropDatabase", "invalidate"}

_WANTED: list[dict[str, Any]] = [
    {"ns.coll": {"$in": [JOBS, NODES]}},
    {"ns.coll": CLUSTER, "documentKey._id": ROSTER},
    # A node that finds work or runs out of it writes an event, and changes its record: once is
    # enough.
    {
        "ns.coll": EVENTS,
        "operationType": "insert",
        "$nor": [{"fullDocument.from": {"$in": _ROUTINE}, "fullDocument.to": {"$in": _ROUTINE}}],
    },
    {"operationType": {"$in": sorted(_ENDS)}},
]
_LARGE = ("args", "result", "errors", "stages", "saved")
_FIELDS = "updateDescription.updatedFields"
# Flat, and nothing but what a delta is made of: every document within a document takes time to
# read.
_FLAT: dict[str, Any] = {
    "$project": {
        "operationType": 1,
        "clusterTime": 1,
        "wallTime": 1,
        "collection": "$ns.coll",
        "key": "$documentKey._id",
        "document": "$fullDocument",
        "set": f"${_FIELDS}",
        "removed": "$updateDescription.removedFields",
        "cut": "$updateDescription.truncatedArrays",
    }
}
_OBSERVED: list[dict[str, Any]] = [
    {"$match": {"$or": _WANTED}},
    {
        # Paths and nothing to compute: the server does this for every change and every observer.
        "$project": {
            **{
                f"{part}.{name}": 0
                for part in ("fullDocument", _FIELDS)
                for name in (*_LARGE, "error.traceback")
            },
        }
    },
    _FLAT,
]
_AUDITED: list[dict[str, Any]] = [
    {
        "$match": {
            "ns.coll": {"$in": [JOBS, NODES, CLUSTER, PLANS, STATES]},
            "operationType": {"$in": ["insert", "update", "replace", "delete"]},
        }
    },
    # The value of a named state may have 4 MB, and is nobody's business here.
    {"$project": {"fullDocument.data": 0, f"{_FIELDS}.data": 0}},
    _FLAT,
]
# Dates without a time zone are read ten times as fast; they are UTC.
_CODEC = DECODED.with_options(tz_aware=False)
_PLAIN_CODEC = PLAIN.with_options(tz_aware=False)


def changes(store: Store) -> Iterator[Delta | None]:
    """All changes from now on; None when the stream opened, and when it was quiet for a moment.

    Elections and outages only delay them. What cannot be caught up on (an oplog that has moved
    past) is an error.
    """
    database = store.database.with_options(codec_options=_PLAIN_CODEC)
    reader = _Reader()
    token: Mapping[str, Any] | None = None
    while True:
        try:
            with database.watch(_AUDITED, resume_after=token, max_await_time_ms=QUIET_MS) as stream:
                token = token or stream.resume_token
                yield None
                while stream.alive:
                    change = stream.try_next()
                    token = stream.resume_token
                    yield None if change is None else reader.read(change)
        except PyMongoError as error:
            trouble = translated(error)
            if token is None or not isinstance(trouble, StoreUnavailable):
                raise trouble from error
            yield None


class Stream:
    """An open stream. `token` is where to go on from after it breaks."""

    def __init__(
        self, store: AsyncStore, *, since: tuple[int, int] | None = None, token: Any = None
    ) -> None:
        """From an operation time on, or after the change that a token stands for."""
        self.token = token
        self._store = store
        self._since = since
        self._session: Any = None
        self._cursor = 0
        self._reader = _Reader()
        self._is_over = False

    async def __aenter__(self) -> Stream:
        try:
            # A cursor belongs to the session that opened it.
            self._session = self._store.database.client.start_session(causal_consistency=False)
            await self._open()
        except PyMongoError as error:
            problem = _translated(error)
            if (
                self.token is not None
                and isinstance(error, OperationFailure)
                and type(problem) is StoreError
            ):
                # Whatever the server has against this token, it will have against it again.
                problem = StreamLost(f"the stream cannot go on from where it was: {problem}")
            await self._close()
            raise problem from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    async def next(self) -> list[Delta]:
        """The next changes, as many as there are for one answer; none when there were none for a
        while."""
        if self._is_over:
            self.token = None
            raise StreamLost("the database was dropped")
        try:
            answer = await self._more()
        except PyMongoError as error:
            raise _translated(error) from error
        except TimeoutError as error:
            raise StoreUnavailable("MongoDB did not answer in time") from error
        deltas = self._deltas(answer["nextBatch"])
        self.token = answer.get("postBatchResumeToken", self.token)
        self._cursor = answer["id"]
        if not deltas:
            if self._is_over:
                return await self.next()
            if not self._cursor:
                raise StoreUnavailable("the stream was closed")
        return deltas

    async def _open(self) -> None:
        start: dict[str, Any] = {}
        if self.token is not None:
            start["startAfter"] = self.token
        elif self._since is not None:
            start["startAtOperationTime"] = Timestamp(*self._since)
        with pymongo.timeout(_LIMIT):
            answer = await self._command(
                {
                    "aggregate": 1,
                    "pipeline": [{"$changeStream": start}, *_OBSERVED],
                    "cursor": {"batchSize": 0},
                }
            )
        self._cursor = answer["id"]
        # Also a stream that breaks before its first change goes on from where it began.
        self.token = answer.get("postBatchResumeToken", self.token)

    async def _more(self) -> dict[str, Any]:
        """One answer; a stream that broke is opened again once, as drivers do it, before anybody
        hears of it."""
        try:
            return await self._get_more()
        except PyMongoError as error:
            if not _is_resumable(error):
                raise
        await self._open()
        return await self._get_more()

    async def _get_more(self) -> dict[str, Any]:
        more = {"getMore": Int64(self._cursor), "collection": "$cmd.aggregate", "batchSize": BATCH}
        # Not pymongo.timeout: it would write its own limit over the time that a quiet stream waits.
        # And later than the driver gives up finding and reaching a server: cancelled while it
        # connects, it would leave the socket open.
        async with asyncio.timeout(_ANSWER_LIMIT):
            return await self._command({**more, "maxTimeMS": QUIET_MS})

    async def _command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._store.database.command(
            command, codec_options=_CODEC, session=self._session
        )
        cursor: dict[str, Any] = answer["cursor"]
        return cursor

    async def _close(self) -> None:
        if self._session is None:
            return
        with (
            contextlib.suppress(PyMongoError),
            pymongo.timeout(_CLOSE_WITHIN),
        ):  # the server forgets it by itself, too
            if self._cursor:
                kill = {"killCursors": "$cmd.aggregate", "cursors": [Int64(self._cursor)]}
                await self._store.database.command(kill, session=self._session)
        await self._session.end_session()
        self._cursor, self._session = 0, None

    def _deltas(self, changes: Iterable[dict[str, Any]]) -> list[Delta]:
        deltas: list[Delta] = []
        for change in changes:
            if change["operationType"] in ("invalidate", "dropDatabase"):
                self._is_over = True
                break
            if fields := change.get("set"):
                change["set"] = _without_large(fields)
            deltas.append(self._reader.read(change))
        return deltas


class _Reader:
    """Makes deltas of changes, and gives each its place among those of one operation time."""

    def __init__(self) -> None:
        self._last = NEVER

    def read(self, change: Mapping[str, Any]) -> Delta:
        stamp = change["clusterTime"]
        seconds, counter, place = self._last
        place = place + 1 if (seconds, counter) == (stamp.time, stamp.inc) else 0
        self._last = version = (stamp.time, stamp.inc, place)
        wall = change.get("wallTime")
        fields = change.get("document")
        removed: tuple[str, ...] = ()
        if fields is None:
            fields = change.get("set") or {}
            removed = tuple(change.get("removed") or ())
            if cut := change.get("cut"):
                removed += tuple(f"{one['field']}.{one['newSize']}" for one in cut)
        return Delta(
            change["collection"],
            _KINDS.get(change["operationType"], DeltaKind.CHANGED),
            change.get("key"),
            (wall - _EPOCH).total_seconds() if isinstance(wall, datetime) else float(stamp.time),
            version,
            fields,
            removed,
        )


_EPOCH = datetime(1970, 1, 1)


def _without_large(fields: dict[str, Any]) -> dict[str, Any]:
    """A path into a payload or an array of errors is a field whose name has dots, which no
    projection can name."""
    if any("." in name for name in fields):
        return {name: value for name, value in fields.items() if not name.startswith(_LARGE_PATHS)}
    return fields


_LARGE_PATHS = (*(f"{name}." for name in _LARGE), "error.traceback")


_KINDS = {
    "insert": DeltaKind.INSERTED,
    "replace": DeltaKind.REPLACED,
    "update": DeltaKind.CHANGED,
    "delete": DeltaKind.GONE,
    "drop": DeltaKind.DROPPED,
    "rename": DeltaKind.DROPPED,
}


def _translated(error: PyMongoError) -> Exception:
    code = error.code if isinstance(error, OperationFailure) else None
    if code in _LOST:
        return StreamLost(f"MongoDB no longer has what happened in between (code {code})")
    if code in _NO_STREAMS:
        return NoStreams("this MongoDB has no change streams: it is no replica set")
    return translated(error)


def _is_resumable(error: PyMongoError) -> bool:
    return isinstance(error, ConnectionFailure | CursorNotFound) or error.has_error_label(
        "ResumableChangeStreamError"
    )
