"""Members: register, heartbeat, move, leave, bury, and the roster. A dead record never becomes
anything else (S6)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bson import Int64
from pymongo import ReturnDocument

from ..errors import DuplicateKey, LeaseLost
from ..records.job import is_text, is_whole
from ..records.node import Pulse
from ..records.roster import Roster
from ..records.states import NODE_MOVES, Desired, NodeState, sources
from ..records.want import Want, read_wants
from .bell import ring
from .call import Operation, delete_many, find, find_one, find_one_and_update, update_one
from .names import CLUSTER, NODES, ROSTER

_ALIVE = {"$ne": NodeState.DEAD.value}
_LAST_COUNT = 2**53


def is_counting(field: str) -> dict[str, Any]:
    """Whether a field of a record can be a count, for the server: further than anybody counts,
    somebody wrote it."""
    return {"$and": [{"$isNumber": field}, {"$gte": [field, 0]}, {"$lt": [field, _LAST_COUNT]}]}


def register(node: str, record: Mapping[str, Any], lease_for: float) -> Operation[None]:
    """Insert a node's record (N1). `DuplicateKey` on `_id`: take another id; on `name`: the name is
    in use."""
    values = {
        **{name: {"$literal": value} for name, value in record.items()},
        "state": NodeState.INITIALIZING.value,
        "desired": Desired.RUNNING.value,
        "beat": 0,
        "tick": 0,
        "running": 0,
        "started_at": "$$NOW",
        "lease_until": {"$add": ["$$NOW", round(lease_for * 1000)]},
    }
    # Matches nothing that exists, so it inserts or is refused; an update can store the server's
    # time, an insert cannot.
    yield update_one(NODES, {"_id": node, "beat": None}, [{"$set": values}], upsert=True)


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat: what the operator wants, the number of the beat, its server time,
    its state."""

    desired: Desired
    number: int
    at: datetime
    state: NodeState | None
    """None when somebody has written something else there."""
    wants: tuple[Want, ...] | None = None
    """What it is to load; None when the record does not tell."""
    reload: int = 0
    """Raised by whoever asks for new workers."""
    told: int = 0
    """Which telling of its modules the record has."""


def heartbeat(
    node: str, values: Mapping[str, Any], lease_for: float, within: float
) -> Operation[Beat]:
    """Beat once (N3), with facts; None removes a field. `LeaseLost` when the record is dead or
    gone."""
    # Whatever somebody has written there, the beat must move: a sum that stays the same would bury
    # a live node.
    update = {
        **{
            name: "$$REMOVE" if value is None else {"$literal": value}
            for name, value in values.items()
        },
        "beat": {"$toLong": {"$add": [{"$cond": [is_counting("$beat"), "$beat", 0]}, 1]}},
        "lease_until": {"$add": ["$$NOW", round(lease_for * 1000)]},
    }
    record = yield find_one_and_update(
        NODES,
        {"_id": node, "state": _ALIVE},
        [{"$set": update}],
        projection=dict.fromkeys(_ASKED, 1),
        return_document=ReturnDocument.AFTER,
        raw=True,
        within=within,
    )
    if record is None:
        raise LeaseLost(f"node {node} was declared dead")
    at = record["lease_until"] - timedelta(seconds=lease_for)
    reload = record.get("reload")
    return Beat(
        _desired(record.get("desired")),
        int(record["beat"]),
        at,
        _state(record.get("state")),
        read_wants(record.get("wants")),
        int(reload) if isinstance(reload, int) and reload < _LAST_COUNT else 0,
        int(record["told"]) if is_whole(record.get("told")) else 0,
    )


_ASKED = ("desired", "beat", "lease_until", "state", "wants", "reload", "told")


def _desired(value: Any) -> Desired:
    return Desired(value) if value in list(Desired) else Desired.RUNNING


def _state(value: Any) -> NodeState | None:
    return NodeState(value) if value in list(NodeState) else None


def move(node: str, target: NodeState, **values: Any) -> Operation[bool]:
    """Move a node's own state along the table; False when the table or its death forbids it."""
    update: dict[str, Any] = {"state": target.value} | {
        name: {"$literal": value} for name, value in values.items()
    }
    if target is NodeState.DEAD:
        update |= {"died_at": "$$NOW", "share": "$$REMOVE", "running": 0}
    # What is no state at all was written by somebody else, and is no reason to stay with it.
    matching = {
        "_id": node,
        "state": {"$nin": sorted({*NodeState} - {*sources(NODE_MOVES, target)})},
    }
    answer = yield update_one(NODES, matching, [{"$set": update}], repeats=True)
    if answer.modified_count:
        return True
    # Made again after an unknown outcome, it finds itself there already.
    record = yield find_one(NODES, {"_id": node}, projection={"state": 1})
    return record is not None and record.get("state") == target


def describe(node: str, values: Mapping[str, Any]) -> Operation[None]:
    """Write facts about oneself (N2: never onto a dead record). None removes a field."""
    kept = {name: value for name, value in values.items() if value is not None}
    update: dict[str, Any] = {}
    if kept:
        update["$set"] = kept
    if len(kept) < len(values):
        update["$unset"] = dict.fromkeys(values.keys() - kept.keys(), "")
    yield update_one(NODES, {"_id": node, "state": _ALIVE}, update, repeats=True)


@dataclass(frozen=True, slots=True)
class Noted:
    """What became of a change of `careful`."""

    is_so: bool
    """Whether the record says it."""
    changes: int
    """How many there have been."""


def note_careful(node: str, keys: list[str], number: int) -> Operation[Noted]:
    """Change number so and so of the task keys that a node must not run twice (MO7).

    A change that lands late, after another one, changes nothing: it has its number in its filter.
    """
    before = {"careful_changes": number - 1 or None}
    change = {"$set": {"careful": keys, "careful_changes": number}}
    answer = yield update_one(NODES, {"_id": node, "state": _ALIVE, **before}, change, repeats=True)
    if answer.modified_count:
        return Noted(True, number)
    # Made again after an unknown outcome, it finds itself there already.
    record = yield find_one(NODES, {"_id": node}, projection={"careful": 1, "careful_changes": 1})
    changes = (record or {}).get("careful_changes")
    if not is_whole(changes):
        return Noted(False, 0)
    return Noted(changes == number and (record or {}).get("careful") == keys, int(changes))


def beats() -> Operation[dict[str, Pulse]]:
    """The pulse of every node that is not dead (D1)."""
    found = yield find(NODES, {"state": _ALIVE}, projection={"beat": 1, "lease": 1})
    return {node["_id"]: Pulse.from_document(node) for node in found if is_text(node["_id"])}


def presume_dead(node: str) -> Operation[NodeState]:
    """The state of a node that seemed to have no record: dead only once a record says so (D3)."""
    # What $setOnInsert would do, with the server's time: a record that is there stays as it is.
    is_new = {"$eq": [{"$type": "$state"}, "missing"]}
    dead = {
        "state": NodeState.DEAD.value,
        "death": "its record was gone",
        "beat": 0,
        "died_at": "$$NOW",
    }
    update = [
        {"$set": {name: {"$cond": [is_new, value, f"${name}"]} for name, value in dead.items()}}
    ]
    with contextlib.suppress(DuplicateKey):
        yield update_one(NODES, {"_id": node}, update, upsert=True, repeats=True)
    found = yield find_one(NODES, {"_id": node}, projection={"state": 1})
    return (_state(found.get("state")) if found else None) or NodeState.WAITING


def find_dead(nodes: list[str]) -> Operation[set[str]]:
    """Which of these members are dead. They registered before they joined, so one without a record
    lost it."""
    found = yield find(NODES, {"_id": {"$in": nodes}}, projection={"state": 1})
    states = {node["_id"]: node.get("state") for node in found}
    for node in nodes:
        if node not in states:
            states[node] = yield from presume_dead(node)
    return {node for node, state in states.items() if state == NodeState.DEAD}


def namesake(name: str) -> Operation[dict[str, Any] | None]:
    """The live node of that name."""
    found: dict[str, Any] | None = yield find_one(NODES, {"name": name, "state": _ALIVE})
    return found


def bury(node: Any, beat: Any) -> Operation[bool]:
    """Declare a node dead whose beat has not moved for a lease (D2); fails if it has beaten
    since."""
    update: dict[str, Any] = {
        "state": NodeState.DEAD.value,
        "died_at": "$$NOW",
        "death": "lease expired",
    }
    update |= {"share": "$$REMOVE", "running": 0}
    seen = {"_id": {"$eq": node}, "state": _ALIVE, "beat": {"$eq": beat}}
    answer = yield update_one(NODES, seen, [{"$set": update}])
    return bool(answer.modified_count)


def forget_old_dead(age: float) -> Operation[None]:
    """Remove the records of nodes that died long ago (D4)."""
    old = {"$lt": ["$died_at", {"$subtract": ["$$NOW", round(age * 1000)]}]}
    matching = {"state": NodeState.DEAD.value, "died_at": {"$type": "date"}, "$expr": old}
    yield delete_many(NODES, matching, repeats=True)


def read_roster() -> Operation[Roster]:
    """The roster as the majority has it; made, empty, when there is none."""
    return Roster.from_document((yield from _roster_document()))


def _roster_document() -> Operation[dict[str, Any] | None]:
    document: dict[str, Any] | None = yield find_one(CLUSTER, {"_id": ROSTER})
    if document is None:
        first = {"$setOnInsert": {"epoch": 0, "members": []}}
        with contextlib.suppress(DuplicateKey):
            yield update_one(CLUSTER, {"_id": ROSTER}, first, upsert=True, repeats=True)
        document = yield find_one(CLUSTER, {"_id": ROSTER})
    return document


def mend_roster(known: Roster) -> Operation[Roster | None]:
    """Where the document cannot be a roster, or was set back behind what this node knows: put one
    that follows (M6).

    The roster that is there now, or None when nothing was wrong. A read that was only old changes
    nothing: the epoch that it saw is the condition.
    """
    document = yield from _roster_document()
    said = Roster.from_document(document)
    if said.is_in(document) and (known.is_followed_by(said) or said == known):
        return None
    new, epoch = known.in_place_of(said), (document or {}).get("epoch")
    # Not by `$type`, which is also true of a list that has a number in it.
    is_no_number = {"$expr": {"$not": [{"$in": [{"$type": "$epoch"}, ["int", "long", "double"]]}]}}
    is_number = isinstance(epoch, int | float)
    seen = {"_id": ROSTER, **({"epoch": epoch} if is_number else is_no_number)}
    values = {**new.to_document(), "epoch": Int64(new.epoch)}
    answer = yield update_one(CLUSTER, seen, {"$set": values})
    if not answer.modified_count:
        return None
    yield from ring(CLUSTER)
    return new


def replace_roster(seen: Roster, new: Roster) -> Operation[bool]:
    """Put the next roster in the place of the one seen (M3); False when somebody was quicker."""
    answer = yield update_one(
        CLUSTER,
        {"_id": ROSTER, "epoch": seen.epoch},
        {"$set": new.to_document()},
    )
    if answer.modified_count:
        yield from ring(CLUSTER)
    return bool(answer.modified_count)
