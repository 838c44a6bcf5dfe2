"""Judges the MongoDB deployment: can it carry the protocol, and how well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...legible import count, duration, legible
from .verdict import Judgement, fail, ok, unknown, warn

OLDEST = (6, 0)
WINDOW_AT_LEAST = 3600.0
ROUND_TRIP_AT_MOST = 0.5
CLOCKS_APART_AT_MOST = 2.0

INBOX_COUNTED = 10_000

_CREATING = {"createCollection", "createIndex"}
_HEALTHY = {"PRIMARY", "SECONDARY", "ARBITER"}


def judge_topology(hello: Mapping[str, Any]) -> Judgement:
    """Replica set or sharded, and of how many members."""
    if hello.get("msg") == "isdbgrid":
        return ok("a sharded cluster")
    name = hello.get("setName")
    if not name:
        return fail(
            "a standalone server: majority writes and change streams need a replica set",
            "start mongod with --replSet and run rs.initiate()",
        )
    bearing = [*hello.get("hosts", ()), *hello.get("passives", ())]
    if len(bearing) == 1:
        return warn(
            f"replica set {name} has a single member: while it is away everything waits",
            "fine for trying things out; give a deployment three members",
        )
    if len(bearing) == 2:
        return warn(
            (
                f"replica set {name} has two members with data: when one is away, no majority "
                "takes writes"
            ),
            "add a third member with data",
        )
    return ok(f"replica set {name} of {len(bearing)} members")


def judge_members(members: Sequence[Mapping[str, Any]]) -> Judgement:
    """The members' health as the server sees it."""
    ill = [one for one in members if one.get("health") != 1 or one.get("stateStr") not in _HEALTHY]
    if not ill:
        return ok(f"{count(len(members), 'member')} healthy")
    told = ", ".join(f"{one.get('name')} is {one.get('stateStr')}" for one in ill)
    advice = "look into the log of that mongod"
    if 2 * (len(members) - len(ill)) <= len(members):
        return fail(f"no majority is healthy: {told}", advice)
    return warn(f"{len(ill)} of {count(len(members), 'member')} not healthy: {told}", advice)


def judge_version(version: str) -> Judgement:
    if numbers(version) < OLDEST:
        return fail(
            f"MongoDB {version} is older than 6.0, the oldest that Tontine runs on",
            "upgrade MongoDB",
        )
    return ok(f"MongoDB {version}")


def judge_compatibility(compatibility: str) -> Judgement:
    """The feature compatibility version: partial indexes with `$in` need 6.0."""
    if numbers(compatibility) < OLDEST:
        return fail(
            f"the feature compatibility version is {compatibility}: the indexes need 6.0",
            "db.adminCommand({setFeatureCompatibilityVersion: ...}) once all members are upgraded",
        )
    return ok(f"feature compatibility {compatibility}")


def numbers(version: str) -> tuple[int, int]:
    """The first two numbers of a version."""
    major, minor = [*(int(number) for number in re.findall(r"\d+", version)), 0, 0][:2]
    return major, minor


@dataclass(frozen=True, slots=True)
class Rights:
    """Which of the roles a user can be, what it lacks to be a node and to make what nodes need,
    what is too much."""

    roles: tuple[str, ...]
    lacks: Mapping[str, Sequence[str]]
    cannot_make: Mapping[str, Sequence[str]]
    excesses: tuple[str, ...]


def judge_rights(rights: Rights | None) -> Judgement:
    """What the user may do with the database; None when the server asks nobody who they are."""
    if rights is None:
        return ok("no access control: whoever reaches this server may do everything")
    if not rights.roles:
        return fail(
            f"this user can be nothing here; as a node it would lack {_actions(rights.lacks)}",
            "`tontine init --roles` makes roles that can be granted to it",
        )
    told = f"this user can be: {', '.join(rights.roles)}"
    if rights.excesses:
        return warn(
            f"{told}; but it may also {', '.join(rights.excesses)}",
            "run nodes and producers as users with a role of `tontine init --roles` each",
        )
    if rights.lacks:
        return ok(f"{told}; as a node it would lack {_actions(rights.lacks)}")
    if any(_CREATING.intersection(actions) for actions in rights.cannot_make.values()):
        return warn(
            f"{told}; it lacks {_actions(rights.cannot_make)}",
            "run `tontine init` once as a user who may, also to upgrade",
        )
    return ok(f"{told}; it lacks {_actions(rights.cannot_make)}" if rights.cannot_make else told)


def _actions(lacking: Mapping[str, Sequence[str]]) -> str:
    """Each action with its collections."""
    where: dict[str, list[str]] = {}
    for collection, actions in lacking.items():
        for action in actions:
            where.setdefault(action, []).append(collection or "the database")
    return ", ".join(f"{action} on {'/'.join(places)}" for action, places in sorted(where.items()))


@dataclass(frozen=True, slots=True)
class Inbox:
    """Whether there is one, nodes look into it and its rules are in force; what lies there, and
    what nobody takes."""

    is_there: bool = False
    is_open: bool = False
    is_strict: bool = False
    waiting: int = 0
    foreign: int = 0


def judge_inbox(inbox: Inbox | None) -> Judgement:
    if inbox is None:
        return ok("there is no inbox: every producer writes to `jobs`")
    if not inbox.is_there or not inbox.is_open:
        what = "no node looks into the inbox" if inbox.is_there else "the inbox is gone"
        return fail(f"{what}: jobs left there do not run", "`tontine init --inbox`")
    if not inbox.is_strict:
        return warn(
            "the inbox has other rules than it should: it takes what is no job",
            "`tontine init --inbox`",
        )
    if inbox.foreign:
        return warn(
            (
                f"{count(inbox.foreign, 'document')} in the inbox with an `_id` that is no "
                "ObjectId: no node takes them"
            ),
            "look at them and remove them: somebody went round the validator",
        )
    if inbox.waiting >= INBOX_COUNTED:
        return warn(
            f"{INBOX_COUNTED} jobs or more lie in the inbox",
            "look at the nodes' troubles, and at who fills it",
        )
    return ok(f"the inbox is in order, {count(inbox.waiting, 'job')} in it")


def judge_streams(opened: bool | None) -> Judgement:
    """None is a user who may not open one, and is no observer."""
    if opened is None:
        return ok("this user opens no change streams, and needs none: observers do")
    if opened:
        return ok("a change stream opens")
    return warn(
        "no change stream opens: observers poll, and see less",
        (
            "grant changeStream on the database: the role read has it, and tontineObserver of "
            "`tontine init --roles`"
        ),
    )


def judge_round_trip(seconds: float) -> Judgement:
    """How long a majority write takes: every claim and every settlement waits for one."""
    took = f"{seconds * 1000:.0f} ms"
    if seconds > ROUND_TRIP_AT_MOST:
        return warn(
            f"a majority write takes {took}: heartbeats and claims are slow",
            "look at the members' disks and lag",
        )
    return ok(f"a majority write takes {took}")


def judge_write_concern(default: Mapping[str, Any]) -> Judgement:
    """The cluster's default: nodes ask for majority themselves, other producers may not."""
    w = default.get("w", "majority")
    if w == "majority":
        return ok("writes wait for the majority by default")
    return warn(
        (
            f"the default write concern is w: {legible(w, 40)}: raw inserts that ask for no more "
            "can vanish in a failover"
        ),
        "insert jobs with writeConcern majority, or set the default to it",
    )


@dataclass(frozen=True, slots=True)
class Oplog:
    """How much of the past the oplog holds."""

    seconds: float
    used: int
    size: int


def judge_oplog(oplog: Oplog) -> Judgement:
    """A change stream can resume, and a member can catch up, only within the oplog's window."""
    if not oplog.size or not oplog.used:
        return unknown("the oplog does not tell its size")
    full = oplog.used / oplog.size
    window = oplog.seconds if full > 0.9 else oplog.seconds / full
    told = f"the oplog holds {duration(oplog.seconds)} and is {min(full, 1):.0%} full"
    if window < WINDOW_AT_LEAST:
        return warn(
            f"{told}: at this rate no more than {duration(window)}",
            "enlarge it: db.adminCommand({replSetResizeOplog: 1, size: MEGABYTES})",
        )
    return ok(told)


def judge_clock(ahead: float) -> Judgement:
    """This machine's clock against the server's, in seconds. Leases do not depend on it; `--at`
    times do."""
    apart = (
        f"this machine's clock is {duration(abs(ahead))} "
        f"{'ahead of' if ahead > 0 else 'behind'} the server's"
    )
    if abs(ahead) > CLOCKS_APART_AT_MOST:
        return warn(
            f"{apart}: jobs submitted for a time of day run by the server's",
            "let NTP set both clocks",
        )
    return ok("this machine's clock and the server's agree" if abs(ahead) < 0.1 else apart)
