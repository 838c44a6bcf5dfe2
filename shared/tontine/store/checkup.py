"""Reads for `tontine doctor` about the server. Each may be refused for want of a right, which is an answer, too."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from bson import Timestamp
from bson.son import SON

from ..doctor.server import Oplog
from ..errors import NotPermitted
from .call import Call, Steps, command, find_one
from .look import now
from .schema import CLUSTER


def hello() -> Steps[dict[str, Any]]:
    answer: dict[str, Any] = yield command({"hello": 1})
    return answer


def member_health() -> Steps[list[dict[str, Any]]]:
    """The replica set's members; asked of `admin`."""
    answer = yield command({"replSetGetStatus": 1})
    return list(answer["members"])


def version() -> Steps[str]:
    answer = yield command({"buildInfo": 1})
    return str(answer["version"])


def compatibility() -> Steps[str]:
    """The feature compatibility version; asked of `admin`."""
    answer = yield command(SON([("getParameter", 1), ("featureCompatibilityVersion", 1)]))
    return str(answer["featureCompatibilityVersion"]["version"])


def default_write_concern() -> Steps[dict[str, Any]]:
    """What writes wait for that do not say; asked of `admin`."""
    answer = yield command({"getDefaultRWConcern": 1})
    return dict(answer.get("defaultWriteConcern") or {"w": 1})


def rights(database: str) -> Steps[frozenset[str] | None]:
    """The actions that this user may do with every collection of the database; None without access control."""
    answer = yield command(SON([("connectionStatus", 1), ("showPrivileges", True)]))
    info = answer["authInfo"]
    if not info["authenticatedUsers"]:
        return (yield from _rights_of_nobody())
    return frozenset(
        action
        for privilege in info.get("authenticatedUserPrivileges", ())
        if _covers(privilege["resource"], database)
        for action in privilege["actions"]
    )


def may_change(database: str, collection: str) -> Steps[bool]:
    """Whether this user may update a collection; True without access control."""
    answer = yield command(SON([("connectionStatus", 1), ("showPrivileges", True)]))
    info = answer["authInfo"]
    if not info["authenticatedUsers"]:
        return (yield from _rights_of_nobody()) is None
    return any(
        "update" in privilege["actions"]
        for privilege in info.get("authenticatedUserPrivileges", ())
        if _covers(privilege["resource"], database, collection)
    )


def _rights_of_nobody() -> Steps[frozenset[str] | None]:
    try:
        yield find_one(CLUSTER, {}, projection={"_id": 1})
    except NotPermitted:
        return frozenset()
    return None


def _covers(resource: Mapping[str, Any], database: str, collection: str = "") -> bool:
    if resource.get("anyResource"):
        return True
    return resource.get("db") in ("", database) and resource.get("collection") in ("", collection)


def open_stream() -> Steps[bool]:
    """Whether a change stream over the database opens; it is closed at once."""
    pipeline = [{"$changeStream": {}}, {"$match": {"operationType": "none"}}]
    try:
        answer = yield command(SON([("aggregate", 1), ("pipeline", pipeline), ("cursor", {})]))
    except NotPermitted:
        return False
    cursor = answer["cursor"]
    yield command(SON([("killCursors", cursor["ns"].partition(".")[2]), ("cursors", [cursor["id"]])]))
    return True


def round_trip() -> Steps[float]:
    """Seconds that a majority write takes; what it wrote is removed."""
    probe = {"_id": f"doctor-{uuid4().hex}"}
    began = time.monotonic()
    try:
        yield Call(CLUSTER, "insert_one", (dict(probe),))
        return time.monotonic() - began
    finally:
        yield Call(CLUSTER, "delete_one", (probe,), repeats=True)


def clock_ahead() -> Steps[float]:
    """How far this machine's clock is ahead of the server's, in seconds, to within half a round trip."""
    yield command({"hello": 1})  # the first call may have to connect
    before = time.time()
    server = yield from now()
    return (before + time.time()) / 2 - server.timestamp()


def oplog() -> Steps[Oplog]:
    """How far back the oplog reaches; asked of `local`."""
    ends: list[int] = []
    for direction in (1, -1):
        entry = yield find_one("oplog.rs", {}, sort=[("$natural", direction)], projection={"ts": 1})
        ends.append(entry["ts"].time if entry and isinstance(entry["ts"], Timestamp) else 0)
    stats = yield command({"collStats": "oplog.rs"})
    return Oplog(float(ends[1] - ends[0]), int(stats.get("size", 0)), int(stats.get("maxSize", 0)))
