"""The schema of the release before this one, and what its nodes do to a database that they share
with ours."""

from __future__ import annotations

from typing import Any

from pymongo.database import Database
from pymongo.errors import CollectionInvalid

_NUMBER = {"$type": "number"}
_ALIVE = ["initializing", "paused", "waiting", "working"]

VALIDATORS: dict[str, dict[str, Any]] = {
    "jobs": {
        "$or": [
            {"seq": None},
            {
                "seq": {"$type": ["long", "int"]},
                "state": {"$in": ["queued", "working", "done", "failed", "cancelled"]},
                "attempt": _NUMBER,
                "fails": _NUMBER,
                "lost": _NUMBER,
            },
        ]
    },
    "nodes": {
        "state": {"$in": ["initializing", "waiting", "working", "paused", "dead"]},
        "$or": [
            {"desired": {"$exists": False}},
            {"desired": {"$in": ["running", "paused", "stopped"]}},
        ],
    },
}

INDEXES: dict[str, list[dict[str, Any]]] = {
    "jobs": [
        {
            "name": "seq",
            "key": {"seq": 1},
            "unique": True,
            "partialFilterExpression": {"seq": {"$gte": 0}},
        },
        {
            "name": "fresh",
            "key": {"task": 1, "seq": 1},
            "partialFilterExpression": {"state": "queued", "run_at": None, "priority": None},
        },
        {
            "name": "ranked",
            "key": {"priority": -1, "seq": 1},
            "partialFilterExpression": {"state": "queued", "priority": {"$exists": True}},
        },
        {
            "name": "due",
            "key": {"run_at": 1},
            "partialFilterExpression": {"state": "queued", "run_at": {"$exists": True}},
        },
        {
            "name": "expire",
            "key": {"expire_at": 1},
            "expireAfterSeconds": 0,
            "partialFilterExpression": {"expire_at": {"$exists": True}},
        },
        {"name": "held", "key": {"node": 1}, "partialFilterExpression": {"state": "working"}},
        {"name": "raw", "key": {"seq": 1}, "partialFilterExpression": {"seq": None}},
        {
            "name": "key",
            "key": {"key": 1},
            "unique": True,
            "partialFilterExpression": {
                "key": {"$gt": ""},
                "state": {"$in": ["queued", "working"]},
            },
        },
    ],
    "nodes": [
        {
            "name": "name",
            "key": {"name": 1},
            "unique": True,
            "partialFilterExpression": {"name": {"$exists": True}, "state": {"$in": _ALIVE}},
        }
    ],
    "cluster": [],
    "events": [{"name": "at", "key": {"at": 1}, "expireAfterSeconds": 7 * 86400}],
    "logs": [
        {"name": "attempt", "key": {"seq": 1, "attempt": 1}, "unique": True},
        {"name": "at", "key": {"at": 1}, "expireAfterSeconds": 30 * 86400},
    ],
    "schedules": [{"name": "next", "key": {"next_at": 1}}],
}
_DEFINING = ("key", "unique", "partialFilterExpression", "expireAfterSeconds")


def init(database: Database[Any]) -> list[str]:
    """All that a node of that release does when it starts; the indexes that it dropped."""
    dropped: list[str] = []
    for name, indexes in INDEXES.items():
        _create(database, name)
        wanted = {index["name"]: index for index in indexes}
        for there in database[name].list_indexes():
            new = wanted.get(there["name"])
            if new is not None and any(
                _plain(there.get(part)) != _plain(new.get(part)) for part in _DEFINING
            ):
                database[name].drop_index(there["name"])
                dropped.append(f"{name}.{there['name']}")
        if indexes:
            database.command({"createIndexes": name, "indexes": indexes})
    return dropped


def _create(database: Database[Any], name: str) -> None:
    validator = VALIDATORS.get(name, {})
    found = next(iter(database.list_collections(filter={"name": name})), None)
    if found is None:
        try:
            database.create_collection(name, validator=validator)
        except CollectionInvalid:
            return
    elif (found.get("options", {}).get("validator") or {}) != validator:
        database.command("collMod", name, validator=validator)


def _plain(value: Any) -> Any:
    return (
        [(key, _plain(inner)) for key, inner in value.items()] if isinstance(value, dict) else value
    )
