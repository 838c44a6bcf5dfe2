"""Who may do what, as data: five roles of the queue's database, each with what it needs and nothing
else.

MongoDB gives rights on collections, not on documents: docs/security.md says what that means for
each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .names import (
    BELL,
    CLUSTER,
    EVENTS,
    INBOX,
    JOBS,
    LOGS,
    MODULES,
    NODES,
    OUTPUTS,
    PLANS,
    SAMPLES,
    SCHEDULES,
    STATES,
)

EVERY = ""
"""Stands for every collection of the database, and for the database itself."""

Rights = Mapping[str, Iterable[str]]
"""Actions by collection."""

_MAKING = ("createCollection", "collMod", "listIndexes")
_INDEXING = (*_MAKING, "createIndex", "dropIndex")


@dataclass(frozen=True, slots=True)
class Role:
    """What one kind of user needs; `making` is only for making and mending collections, indexes and
    validators."""

    name: str
    word: str
    needs: Rights
    making: Rights = field(default_factory=dict)

    def privileges(self, database: str) -> list[dict[str, Any]]:
        """As `createRole` takes them."""
        actions: dict[str, set[str]] = {}
        for rights in (self.needs, self.making):
            for collection, some in rights.items():
                actions.setdefault(collection, set()).update(some)
        return [
            {
                "resource": {"db": database, "collection": collection},
                "actions": sorted(actions[collection]),
            }
            for collection in sorted(actions)
        ]


_LOOKING = {EVERY: ("find", "changeStream", "listCollections", "listIndexes")}

NODE = Role(
    "tontineNode",
    "node",
    {
        JOBS: ("find", "insert", "update", "remove"),
        NODES: ("find", "insert", "update", "remove"),
        CLUSTER: ("find", "insert", "update"),
        EVENTS: ("insert", "update"),
        LOGS: ("find", "insert", "update"),
        SCHEDULES: ("find", "insert", "update"),
        MODULES: ("find", "insert", "update"),
        SAMPLES: ("insert",),
        BELL: ("find", "insert"),
        INBOX: ("find", "remove"),
        PLANS: ("find", "insert", "update", "remove"),
        OUTPUTS: ("find", "insert", "update", "remove"),
        STATES: ("find",),
    },
    {
        EVERY: ("listCollections",),
        **dict.fromkeys((JOBS, PLANS, NODES, EVENTS, LOGS, SCHEDULES), _INDEXING),
        CLUSTER: _MAKING,
        MODULES: _MAKING,
        OUTPUTS: _MAKING,
        STATES: _MAKING,
        SAMPLES: ("createCollection", "collMod", "find", "dropCollection"),
        INBOX: _MAKING,
        BELL: ("createCollection", "convertToCapped", "dropCollection"),
    },
)
PRODUCER = Role(
    "tontineProducer",
    "producer",
    {
        JOBS: ("find", "insert"),
        PLANS: ("find", "insert"),
        CLUSTER: ("find", "insert", "update"),
        NODES: ("find",),
        BELL: ("insert",),
    },
)
INTAKE = Role("tontineIntake", "intake", {INBOX: ("insert",)})
OBSERVER = Role("tontineObserver", "observer", _LOOKING)
OPERATOR = Role(
    "tontineOperator",
    "operator",
    {
        **_LOOKING,
        JOBS: ("update", "remove"),
        PLANS: ("update",),
        LOGS: ("remove",),
        OUTPUTS: ("remove",),
        STATES: ("insert", "update", "remove"),
        NODES: ("update",),
        SCHEDULES: ("insert", "update", "remove"),
        BELL: ("insert",),
    },
)
ROLES = (NODE, PRODUCER, INTAKE, OBSERVER, OPERATOR)


def lacking(
    wanted: Rights, privileges: Iterable[Mapping[str, Any]], database: str
) -> dict[str, list[str]]:
    """Which of the wanted actions a user does not have, by collection."""
    had = list(privileges)
    missing = {
        collection: [action for action in actions if not _may(had, database, collection, action)]
        for collection, actions in wanted.items()
    }
    return {collection: actions for collection, actions in missing.items() if actions}


def _may(
    privileges: Iterable[Mapping[str, Any]], database: str, collection: str, action: str
) -> bool:
    return any(
        action in one["actions"] and covers(one["resource"], database, collection)
        for one in privileges
    )


def covers(resource: Mapping[str, Any], database: str, collection: str = EVERY) -> bool:
    """Whether rights on a resource are rights on that collection, or on every one."""
    if resource.get("anyResource"):
        return True
    return resource.get("db") in ("", database) and resource.get("collection") in ("", collection)
