"""The record to look back on: node moves and roster epochs, kept for a week. Nothing depends on it."""

from __future__ import annotations

from typing import Any

from bson import ObjectId

from .call import Call, Steps, find
from .schema import EVENTS


def record(kind: str, **facts: Any) -> Steps[None]:
    """Note one change, at the server's time."""
    values = {name: {"$literal": value} for name, value in facts.items()}
    update = [{"$set": {"kind": kind, "at": "$$NOW", **values}}]
    yield Call(EVENTS, "update_one", ({"_id": ObjectId()}, update), {"upsert": True})


def latest(limit: int) -> Steps[list[dict[str, Any]]]:
    """The newest events, oldest first."""
    found: list[dict[str, Any]] = yield find(EVENTS, {}, sort=[("at", -1)], limit=limit)
    return found[::-1]
