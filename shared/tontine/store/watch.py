"""(6) A change stream for the one node that numbers raw jobs: other languages' drivers do not ring the bell.

It is only a hint to look sooner. The server wakes it for every write of the whole replica set, whatever it waits for,
so it ends by itself when there are many.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from .bell import Hint
from .call import AsyncStore, translated
from .schema import CLUSTER, JOBS, NODES, ROSTER

_QUIET_MS = 2500
_MANY_WRITES = 1000
"""Writes of the whole replica set within a second; each takes about 35 us from the server if a stream is open."""

_PIPELINE: list[dict[str, Any]] = [
    {
        "$match": {
            "$or": [
                {"ns.coll": JOBS, "operationType": "insert", "fullDocument.seq": None},
                {"ns.coll": CLUSTER, "documentKey._id": ROSTER},
                {"ns.coll": NODES, "updateDescription.updatedFields.desired": {"$exists": True}},
                {"ns.coll": JOBS, "updateDescription.updatedFields.cancel": True},
            ]
        }
    },
    {"$project": {"ns.coll": 1}},
]


async def follow(store: AsyncStore) -> AsyncGenerator[Hint | None, None]:
    """Hints from now on, until the server has much to do; None when it opened, and when it was quiet for a while."""
    try:
        async with store.database.client.start_session(causal_consistency=False) as session:
            with pymongo.timeout(_QUIET_MS / 250):
                opening = await store.database.watch(_PIPELINE, max_await_time_ms=_QUIET_MS, session=session)
            async with opening as stream:
                yield None
                while stream.alive and not _is_busy(session.operation_time):
                    with pymongo.timeout(_QUIET_MS / 250):
                        change = await stream.try_next()
                    yield None if change is None else Hint(change["ns"]["coll"])
    except PyMongoError as error:
        raise translated(error) from error


def _is_busy(time: Any) -> bool:
    """A server numbers its writes anew every second, and its answers tell the last number."""
    return time is not None and time.inc > _MANY_WRITES
