"""The record to look back on: node moves and roster epochs, kept for a week. Nothing depends on
it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bson import ObjectId

from ..records.states import NodeState
from .call import Operation, find, update_one
from .names import EVENTS


def record(kind: str, **facts: Any) -> Operation[None]:
    """Note one change, at the server's time."""
    values = {name: {"$literal": value} for name, value in facts.items()}
    update = [{"$set": {"kind": kind, "at": "$$NOW", **values}}]
    yield update_one(EVENTS, {"_id": ObjectId()}, update, upsert=True)


def latest(limit: int) -> Operation[list[dict[str, Any]]]:
    """The newest events, oldest first."""
    found: list[dict[str, Any]] = yield find(EVENTS, {}, sort=[("at", -1)], limit=limit)
    return _in_order(found)


_ROUTINE = {"$in": [NodeState.WAITING.value, NodeState.WORKING.value]}


def since(first: datetime, limit: int) -> Operation[list[dict[str, Any]]]:
    """The newest events from `first` on, oldest first, without nodes that only found work or ran
    out of it."""
    found: list[dict[str, Any]] = yield find(
        EVENTS, _notable(first), sort=[("at", -1)], limit=limit, max_time_ms=5000
    )
    return _in_order(found)


def after(first: datetime, limit: int) -> Operation[list[dict[str, Any]]]:
    """The same, but of more than `limit` the oldest: who reads on misses none."""
    found: list[dict[str, Any]] = yield find(
        EVENTS, _notable(first), sort=[("at", 1)], limit=limit, max_time_ms=5000
    )
    return _in_order(found)


def _in_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Oldest first; what a node noted in one millisecond in the order in which it did."""
    return sorted(events, key=lambda event: (_moment(event.get("at")), str(event.get("_id"))))


def _moment(at: Any) -> float:
    return at.timestamp() if isinstance(at, datetime) else 0.0


def _notable(first: datetime) -> dict[str, Any]:
    return {"at": {"$gte": first}, "$nor": [{"kind": "node", "from": _ROUTINE, "to": _ROUTINE}]}
