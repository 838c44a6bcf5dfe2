"""Every change of jobs, nodes and roster as it happens, for an audit: in order, and none left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pymongo.errors import PyMongoError

from ..diagnose.audit.change import Change
from ..errors import StoreUnavailable
from .call import PLAIN, Store, translated
from .names import CLUSTER, JOBS, NODES

QUIET_MS = 500
_PIPELINE: list[dict[str, Any]] = [
    {
        "$match": {
            "ns.coll": {"$in": [JOBS, NODES, CLUSTER]},
            "operationType": {"$in": ["insert", "update", "replace", "delete"]},
        }
    }
]


def changes(store: Store) -> Iterator[Change | None]:
    """All changes from now on; None when the stream opened, and when it was quiet for a moment.

    Elections and outages only delay them. What cannot be caught up on (an oplog that has moved past) is an error.
    """
    database = store.database.with_options(codec_options=PLAIN)
    token: Mapping[str, Any] | None = None
    while True:
        try:
            with database.watch(_PIPELINE, resume_after=token, max_await_time_ms=QUIET_MS) as stream:
                token = token or stream.resume_token
                yield None
                while stream.alive:
                    change = stream.try_next()
                    token = stream.resume_token
                    yield None if change is None else _change(change)
        except PyMongoError as error:
            trouble = translated(error)
            if token is None or not isinstance(trouble, StoreUnavailable):
                raise trouble from error
            yield None


def _change(change: Mapping[str, Any]) -> Change:
    delta = change.get("updateDescription") or {}
    return Change(
        collection=change["ns"]["coll"],
        operation=change["operationType"],
        id=change["documentKey"]["_id"],
        fields=change.get("fullDocument") or delta.get("updatedFields") or {},
        removed=tuple(delta.get("removedFields") or ()),
        at=change.get("wallTime"),
        truncated=tuple(one["field"] for one in delta.get("truncatedArrays") or ()),
    )
