"""(6) Change streams. For a node they are a hint to look sooner; losing one costs latency, never a job."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from .call import AsyncStore, translated
from .schema import CLUSTER, JOBS, NODES, ROSTER


@dataclass(frozen=True, slots=True)
class Hint:
    """Something changed: `seq` is a new job's number (None for a raw one)."""

    collection: str
    seq: int | None = None
    is_fresh: bool = False
    """A numbered job without priority or time of its own: looking up its number is enough to find it."""


_QUIET_MS = 5000

_PIPELINE: list[dict[str, Any]] = [
    {
        "$match": {
            "$or": [
                {"ns.coll": JOBS, "operationType": "insert"},
                {"ns.coll": CLUSTER, "documentKey._id": ROSTER},
                {"ns.coll": NODES, "updateDescription.updatedFields.desired": {"$exists": True}},
                {"ns.coll": JOBS, "updateDescription.updatedFields.cancel": True},
            ]
        }
    },
    {
        "$project": {
            "ns.coll": 1,
            "operationType": 1,
            "fullDocument.seq": 1,
            "fullDocument.run_at": 1,
            "fullDocument.priority": 1,
        }
    },
]


async def hints(store: AsyncStore) -> AsyncGenerator[Hint | None, None]:
    """Hints from now on, for as long as the stream lives; None when it opened, and when it was quiet for a while."""
    try:
        with pymongo.timeout(_QUIET_MS / 500):
            opening = await store.database.watch(_PIPELINE, max_await_time_ms=_QUIET_MS)
        async with opening as stream:
            yield None
            while stream.alive:
                with pymongo.timeout(_QUIET_MS / 500):
                    change = await stream.try_next()
                yield None if change is None else _hint(change)
    except PyMongoError as error:
        raise translated(error) from error


def _hint(change: dict[str, Any]) -> Hint:
    job = change.get("fullDocument") or {}
    seq = job.get("seq")
    if not isinstance(seq, int):
        return Hint(change["ns"]["coll"])
    return Hint(change["ns"]["coll"], int(seq), "run_at" not in job and "priority" not in job)
