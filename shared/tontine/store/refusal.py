"""What a user may not do, in words. The server quotes the refused command with all its documents;
we do not."""

from __future__ import annotations

import re

from pymongo.errors import OperationFailure

from ..errors import NotPermitted
from .roles import EVERY, NODE, OBSERVER, OPERATOR, PRODUCER

_WRONG_USER = (
    "MongoDB does not let this user in: the user name or the password is wrong, or it is a user "
    "of another database "
    "than the URI's authSource says"
)
_NO_USER = (
    "MongoDB requires authentication, and the URI has no user and password: "
    "mongodb://USER:PASSWORD@..."
)

_COMMAND = re.compile(
    r"not authorized on (?P<database>\S+) to execute command "
    r'\{ (?P<command>\w+): (?:"(?P<name>[^"]+)")?'
)
_GET_MORE = re.compile(r'\{ getMore: [^,]+, collection: "(?P<name>[^"]+)"')
_ATLAS = re.compile(
    r"not allowed to do action \[(?P<action>\w+)\] on \[(?P<database>[^.\]]+)\.?(?P<name>[^\]]*)\]"
)

# What it is called, the privilege, and the least of MongoDB's own roles that has it.
_READ = ("read", "find", "read")
_DEEDS = {
    "find": _READ,
    "aggregate": _READ,
    "getMore": _READ,
    "count": _READ,
    "distinct": _READ,
    "listCollections": ("list the collections", "listCollections", "read"),
    "listIndexes": ("see the indexes of", "listIndexes", "read"),
    "collStats": ("see the size of", "collStats", "read"),
    "insert": ("insert into", "insert", "readWrite"),
    "update": ("update", "update", "readWrite"),
    "findAndModify": ("update", "update", "readWrite"),
    "delete": ("remove from", "remove", "readWrite"),
    "create": ("create", "createCollection", "readWrite"),
    "createIndexes": ("create indexes of", "createIndex", "readWrite"),
    "dropIndexes": ("drop indexes of", "dropIndex", "readWrite"),
    "drop": ("drop", "dropCollection", "readWrite"),
    "collMod": ("change the settings of", "collMod", "dbAdmin"),
    "dropDatabase": ("drop the database", "dropDatabase", "dbAdmin"),
    "serverStatus": ("see the server's status", "serverStatus", "clusterMonitor"),
    "replSetGetStatus": ("see the replica set's status", "replSetGetStatus", "clusterMonitor"),
}
_STREAM = ("follow the changes of", "changeStream", "read")


def refusal(error: OperationFailure) -> NotPermitted:
    """A refusal that says what this user may not do, and what it needs."""
    text = str((error.details or {}).get("errmsg") or error)
    if error.code == 18 or "bad auth" in text:
        return NotPermitted(_WRONG_USER)
    if "requires authentication" in text:
        return NotPermitted(_NO_USER)
    if found := _COMMAND.search(text):
        name = (_GET_MORE.search(text) or found)["name"] or ""
        return _not_permitted(found["database"], name, *_deed(found["command"], text))
    if found := _ATLAS.search(text):
        action = found["action"]
        verb, role = next(
            ((verb, role) for verb, one, role in _DEEDS.values() if one == action),
            (f"{action} on", ""),
        )
        return _not_permitted(found["database"], found["name"], verb, action, role)
    return NotPermitted(
        f"MongoDB refused it: {text.partition('{')[0].strip()[:200]} (code {error.code})"
    )


def _deed(command: str, text: str) -> tuple[str, str, str]:
    if command == "aggregate" and "{ $changeStream:" in text:
        return _STREAM
    return _DEEDS.get(command, (f"run {command} on", command, ""))


def _own_role(collection: str, action: str) -> str | None:
    """Which of the queue's own roles lets its user do that, the least of them."""
    for role in (PRODUCER, OBSERVER, OPERATOR, NODE):
        if any(
            action in rights.get(place, ())
            for rights in (role.needs, role.making)
            for place in (collection, EVERY)
        ):
            return role.name
    return None


def _not_permitted(
    database: str, collection: str, verb: str, action: str, role: str
) -> NotPermitted:
    what = (
        f"{verb} `{collection}` in `{database}`"
        if collection
        else f"{verb.removesuffix(' on')} in `{database}`"
    )
    own = _own_role(collection, action)
    having = f", which the role {role} has" if role else ""
    having += f", and so has {own} of `tontine init --roles`" if having and own else ""
    return NotPermitted(
        f"this user may not {what}: it needs the right `{action}` there{having}",
        database=database,
        collection=collection,
        action=action,
    )
