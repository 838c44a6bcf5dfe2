"""(6) Every change of the queue as deltas, for whoever looks on: one stream, without payloads and results.

It goes on from where it was for as long as the server remembers; when it no longer does, `StreamLost` says so, and the
reader must look at everything again.
"""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Any

import pymongo
from bson import Timestamp
from pymongo.errors import OperationFailure, PyMongoError

from ..delta import Delta, DeltaKind
from ..errors import NoStreams, StoreError, StoreUnavailable, StreamLost
from .call import DECODED, AsyncStore, translated
from .schema import CLUSTER, EVENTS, JOBS, NODES, ROSTER

QUIET_MS = 500
_BATCH = 500
_LIMIT = 10.0

_LOST = {136, 222, 260, 280, 286}
_NO_STREAMS = {40324, 40573, 59}
_ROUTINE = ["waiting", "working"]
_ENDS = {"drop", "rename", "dropDatabase", "invalidate"}

_WANTED: list[dict[str, Any]] = [
    {"ns.coll": NODES},
    {"ns.coll": CLUSTER, "documentKey._id": ROSTER},
    # A node that finds work or runs out of it writes an event, and changes its record: once is enough.
    {
        "ns.coll": EVENTS,
        "operationType": "insert",
        "$nor": [{"fullDocument.from": {"$in": _ROUTINE}, "fullDocument.to": {"$in": _ROUTINE}}],
    },
    {"operationType": {"$in": sorted(_ENDS)}},
]
_FIELDS = "$updateDescription.updatedFields"
# A path into a payload or an array of errors is a field whose name has dots, which no projection can name.
_LARGE = {"$regexMatch": {"input": "$$this.k", "regex": r"^(args|result|errors|error\.traceback)(\.|$)"}}
_SLIM: list[dict[str, Any]] = [
    {
        "$set": {
            "updateDescription.updatedFields": {
                "$cond": [
                    {"$eq": [{"$type": _FIELDS}, "object"]},
                    {
                        "$arrayToObject": {
                            "$filter": {"input": {"$objectToArray": _FIELDS}, "cond": {"$not": [_LARGE]}},
                        }
                    },
                    "$$REMOVE",
                ]
            }
        }
    },
    {
        "$project": {
            **{f"fullDocument.{name}": 0 for name in ("args", "result", "errors", "error.traceback")},
            "updateDescription.updatedFields.error.traceback": 0,
            "lsid": 0,
            "txnNumber": 0,
        }
    },
]


class Stream:
    """An open stream. `token` is where to go on from after it breaks."""

    def __init__(
        self, store: AsyncStore, *, since: tuple[int, int] | None = None, token: Any = None, jobs: bool = True
    ) -> None:
        """From an operation time on, or after the change that a token stands for."""
        self.token = token
        self._store = store
        self._since = since
        wanted = [*_WANTED, {"ns.coll": JOBS}] if jobs else _WANTED
        self._pipeline = [{"$match": {"$or": wanted}}, *_SLIM]
        self._stream: Any = None
        self._last: tuple[int, int, int] = (0, 0, 0)

    async def __aenter__(self) -> Stream:
        start: dict[str, Any] = {"start_after": self.token} if self.token is not None else {}
        if self.token is None and self._since is not None:
            start["start_at_operation_time"] = Timestamp(*self._since)
        database = self._store.database.with_options(codec_options=DECODED)
        try:
            with pymongo.timeout(_LIMIT):
                opening = await database.watch(self._pipeline, batch_size=_BATCH, max_await_time_ms=QUIET_MS, **start)
                self._stream = await opening.__aenter__()
        except PyMongoError as error:
            problem = _translated(error)
            if self.token is not None and isinstance(error, OperationFailure) and type(problem) is StoreError:
                # Whatever the server has against this token, it will have against it again.
                problem = StreamLost(f"the stream cannot go on from where it was: {problem}")
            raise problem from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            with pymongo.timeout(1):
                await self._stream.close()

    async def next(self) -> Delta | None:
        """The next change; None when there was none for a while."""
        try:
            with pymongo.timeout(_LIMIT):
                change = await self._stream.try_next()
        except PyMongoError as error:
            raise _translated(error) from error
        self.token = self._stream.resume_token
        if change is not None:
            return self._delta(change)
        if not self._stream.alive:
            raise StoreUnavailable("the stream was closed")
        return None

    def _delta(self, change: dict[str, Any]) -> Delta:
        kind = change["operationType"]
        if kind in ("invalidate", "dropDatabase"):
            self.token = None
            raise StreamLost("the database was dropped")
        stamp = change["clusterTime"]
        place = self._last[2] + 1 if self._last[:2] == (stamp.time, stamp.inc) else 0
        self._last = version = (stamp.time, stamp.inc, place)
        wall = change.get("wallTime")
        described = change.get("updateDescription") or {}
        document = change.get("fullDocument")
        return Delta(
            change["ns"]["coll"],
            _KINDS.get(kind, DeltaKind.CHANGED),
            change.get("documentKey", {}).get("_id"),
            wall.timestamp() if isinstance(wall, datetime) else float(stamp.time),
            version,
            (document if document is not None else described.get("updatedFields")) or {},
            tuple(described.get("removedFields") or ()),
        )


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
