"""Reads for `tontine doctor` about the server. Each may be refused for want of a right, which is an answer, too."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from bson import Timestamp
from bson.son import SON

from ...errors import NotPermitted
from ...store.call import Call, Steps, command, find_one
from ...store.inbox import INBOX, is_open, is_strict, read_options
from ...store.read import now
from ...store.roles import EVERY, NODE, ROLES, covers, lacking
from ...store.schema import CLUSTER, SETTINGS
from .server import INBOX_COUNTED, Inbox, Oplog, Rights


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


def rights(database: str) -> Steps[Rights | None]:
    """What this user may be, and what it lacks or has too much; None without access control."""
    privileges = yield from _privileges()
    if privileges is None:
        return None
    lacks = {role.word: lacking(role.needs, privileges, database) for role in ROLES}
    return Rights(
        tuple(word for word, missing in lacks.items() if not missing),
        lacks[NODE.word],
        lacking(NODE.making, privileges, database),
        tuple(_excesses(privileges, database)),
    )


def may_change(database: str, collection: str) -> Steps[bool]:
    """Whether this user may update a collection; True without access control."""
    privileges = yield from _privileges()
    return privileges is None or not lacking({collection: ("update",)}, privileges, database)


def _privileges() -> Steps[list[dict[str, Any]] | None]:
    """This user's; None without access control."""
    answer = yield command(SON([("connectionStatus", 1), ("showPrivileges", True)]))
    info = answer["authInfo"]
    if info["authenticatedUsers"]:
        return list(info.get("authenticatedUserPrivileges", ()))
    try:
        yield find_one(CLUSTER, {}, projection={"_id": 1})
    except NotPermitted:
        return []
    return None


def _excesses(privileges: Sequence[Mapping[str, Any]], database: str) -> Iterator[str]:
    """What nobody needs for a queue, if this user has it."""
    here = {action for one in privileges if covers(one["resource"], database) for action in one["actions"]}
    everywhere = {action for one in privileges if covers(one["resource"], "") for action in one["actions"]}
    server = {action for one in privileges if one["resource"].get("cluster") for action in one["actions"]}
    if here & {"createUser", "createRole", "grantRole", "changePassword"}:
        yield "change users and roles"
    if "dropDatabase" in here:
        yield f"drop {database} whole"
    if everywhere & {"insert", "update", "remove"}:
        yield "write to every database"
    if server & {"shutdown", "replSetConfigure", "setParameter"}:
        yield "manage the server"


def open_stream(database: str) -> Steps[bool | None]:
    """Whether a change stream over the database opens; it is closed at once.

    None is a user who may not, and does not need to: only whoever may read the whole queue can observe it.
    """
    pipeline = [{"$changeStream": {}}, {"$match": {"operationType": "none"}}]
    try:
        answer = yield command(SON([("aggregate", 1), ("pipeline", pipeline), ("cursor", {})]))
    except NotPermitted:
        privileges = yield from _privileges()
        return False if privileges and not lacking({EVERY: ("find",)}, privileges, database) else None
    cursor = answer["cursor"]
    yield command(SON([("killCursors", cursor["ns"].partition(".")[2]), ("cursors", [cursor["id"]])]))
    return True


def round_trip() -> Steps[float]:
    """Seconds that a majority write takes; what it wrote is removed."""
    probe = {"_id": f"doctor-{uuid4().hex}"}
    yield Call(CLUSTER, "delete_one", (probe,), repeats=True)  # who may not remove it must not insert it
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


def inbox() -> Steps[Inbox | None]:
    """The state of the inbox; None in a deployment that has none."""
    settings = yield find_one(CLUSTER, {"_id": SETTINGS})
    options = yield from read_options()
    if options is None:
        return Inbox() if is_open(settings) else None
    plain = {"$type": "objectId"}
    waiting = yield _count_in_inbox({"_id": plain})
    foreign = yield _count_in_inbox({"_id": {"$not": plain}})
    return Inbox(True, is_open(settings), is_strict(options), int(waiting), int(foreign))


def _count_in_inbox(which: Mapping[str, Any]) -> Call:
    return Call(INBOX, "count_documents", (which,), {"limit": INBOX_COUNTED}, repeats=True)
