"""Samples of what nodes tell with their heartbeats, kept for a day, so that an observer that starts
late has curves.

Nothing else reads them: a sample that is lost is a dent in a curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson.son import SON

from ..errors import StoreError
from ..records.share import Share
from .call import DECODED, Call, Operation
from .names import SAMPLES

WRITE_LIMIT = 2.0
READ_AT_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One node at one moment of the server's clock. Counters count since the node's start."""

    at: datetime
    node: str
    name: str
    state: str
    running: int = 0
    slots: int = 0
    held: int = 0
    done: int = 0
    failed: int = 0
    retried: int = 0
    cpu: float = 0.0
    """1.0 is one core."""
    memory: int = 0
    """Bytes, of the master and its workers."""
    seq: int = 0
    """The last number given out that the node knew of; 0 when it knew none."""
    share: Share | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Sample:
        """Tolerant of anything in it: other versions write here, too."""
        who = document.get("node")
        who = who if isinstance(who, Mapping) else {}
        return cls(
            at=document["at"],
            node=str(who.get("id")),
            name=str(who.get("name")),
            state=str(document.get("state")),
            cpu=_number(document.get("cpu")),
            share=Share.said_in(document.get("share")),
            **{name: int(_number(document.get(name))) for name in _COUNTS},
        )

    def to_document(self) -> dict[str, Any]:
        share = {"share": self.share.to_document()} if self.share else {}
        numbers = {name: getattr(self, name) for name in (*_COUNTS, "cpu")}
        return {
            "at": self.at,
            "node": {"id": self.node, "name": self.name},
            "state": self.state,
            **numbers,
            **share,
        }


_COUNTS = ("running", "slots", "held", "done", "failed", "retried", "memory", "seq")


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0


def write(sample: Sample) -> Operation[None]:
    """Keep one sample. Made once, whatever comes of it."""
    # w: 1, because nothing is built on samples: one that a failover takes back is not missed, and a
    # majority that is slow must not be waited for. As a command, because the driver does not repeat
    # those: writes to time series cannot be repeated safely.
    insert = SON(
        [("insert", SAMPLES), ("documents", [sample.to_document()]), ("writeConcern", {"w": 1})]
    )
    answer = yield Call("", "command", (insert,), within=WRITE_LIMIT)
    if refusals := answer.get("writeErrors"):
        raise StoreError(str(refusals[0].get("errmsg", "")))


def read(
    first: datetime, last: datetime, step: float, limit: int = READ_AT_MOST
) -> Operation[list[Sample]]:
    """The samples from `first` until before `last`, oldest first: of each node the newest of every
    `step` seconds.

    Of more than `limit` the oldest are left out.
    """
    # How far from `first`, in whole steps.
    bin_ = {"$floor": {"$divide": [{"$subtract": ["$at", first]}, max(1, round(step * 1000))]}}
    pipeline: list[dict[str, Any]] = [
        {"$match": {"at": {"$gte": first, "$lt": last}}},
        {
            "$group": {
                "_id": {"node": "$node.id", "bin": bin_},
                "newest": {"$top": {"sortBy": {"at": -1}, "output": "$$ROOT"}},
            }
        },
        {"$replaceRoot": {"newRoot": "$newest"}},
        {"$sort": {"at": -1, "node.id": 1}},
        {"$limit": limit},
    ]
    reading: dict[str, Any] = {
        "aggregate": SAMPLES,
        "pipeline": pipeline,
        "cursor": {"batchSize": limit},
        "allowDiskUse": True,
    }
    answer = yield Call(
        "", "command", (reading,), {"codec_options": DECODED}, repeats=True, within=30
    )
    return [Sample.from_document(one) for one in reversed(answer["cursor"]["firstBatch"])]
