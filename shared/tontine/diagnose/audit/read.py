"""Reads for `tontine audit`: every numbered job and plan, a chunk at a time by index, and what
nodes and roster say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bson.son import SON

from ...errors import NotPermitted, StoreError
from ...records.node import Sighting
from ...records.plan import all_of
from ...records.roster import Roster
from ...records.states import OPEN
from ...store.call import Call, Operation, command, find, find_one
from ...store.counter import counted
from ...store.indexes import INDEXES, NUMBER
from ...store.names import CLUSTER, COUNTER, EVENTS, JOBS, NODES, PLANS, ROSTER
from ...store.plans.read import FACTS
from ...store.read import find_unnumbered, now
from .jobs import OpenJob
from .nodes import NodesRead
from .roster import roster_of

CHUNK = 5000
EVENTS_AT_MOST = 5000
RAW_AT_MOST = 1000
PLANS_AT_ONCE = 50
"""A plan may take a megabyte."""
PATIENT = 60.0
SCAN_LIMIT = 600.0

_JUDGED = dict.fromkeys(
    (
        "seq",
        "state",
        "attempt",
        "fails",
        "lost",
        "node",
        "task",
        "run_at",
        "created_at",
        "finished_at",
        "stages.name",
        "stages.state",
        "stages.attempt",
        "stages.version",
        "plan",
        "refused",
    ),
    1,
)
_OF_PLAN = {**FACTS, "started_at": 1, "finished_at": 1}
_UNFINISHED = {"state": {"$in": sorted(state.value for state in OPEN)}}
_SEQ = INDEXES[JOBS][0]


def _patiently(call: Call, within: float = PATIENT) -> Call:
    return replace(call, within=within)


@dataclass(frozen=True, slots=True)
class SeqIndex:
    """The index that makes seqs unique: what is wrong with it, and whether it leads to every
    numbered job."""

    fault: str = ""
    hint: str | None = None


def seq_index() -> Operation[SeqIndex | None]:
    """None when there is no collection of jobs at all."""
    try:
        answer = yield command(SON([("listIndexes", JOBS)]))
    except NotPermitted:
        raise
    except StoreError:
        return None
    for index in answer["cursor"]["firstBatch"]:
        partial = index.get("partialFilterExpression")
        if dict(index["key"]) == {"seq": 1} and partial in (None, _SEQ["partialFilterExpression"]):
            return SeqIndex("" if index.get("unique") else "its index is not unique", index["name"])
    return SeqIndex("its unique index is missing")


def counter() -> Operation[int]:
    """The last number given."""
    document = yield find_one(CLUSTER, {"_id": COUNTER})
    return counted(document)


def highest(hint: str | None) -> Operation[Any]:
    """The highest seq there is; -1 when there is none."""
    options: dict[str, Any] = {"sort": [("seq", -1)], "projection": {"seq": 1}} | (
        {"hint": hint} if hint else {}
    )
    found = yield _patiently(find_one(JOBS, {"seq": NUMBER}, **options))
    return found["seq"] if found else -1


def jobs(after: Any, beyond: bool, upto: Any, hint: str | None) -> Operation[list[dict[str, Any]]]:
    """The next jobs from seq `after` on, or `beyond` it, in their order."""
    where = {"seq": {**NUMBER, "$gt" if beyond else "$gte": after, "$lte": upto}}
    options: dict[str, Any] = {"sort": [("seq", 1)], "limit": CHUNK} | (
        {"hint": hint} if hint else {}
    )
    found: list[dict[str, Any]] = yield _patiently(find(JOBS, where, projection=_JUDGED, **options))
    return found


def plans(after: Any) -> Operation[list[dict[str, Any]]]:
    """The next plans with numbers above `after`, in their order."""
    where = {"seq": {**NUMBER, "$gt": after}}
    found: list[dict[str, Any]] = yield _patiently(
        find(PLANS, where, sort=[("seq", 1)], limit=PLANS_AT_ONCE)
    )
    return found


def plan(seq: int) -> Operation[dict[str, Any] | None]:
    found: dict[str, Any] | None = yield find_one(PLANS, {"seq": seq})
    return found


def jobs_of_plan(seq: int, after: str | None) -> Operation[list[dict[str, Any]]]:
    """The next jobs of a plan, in the order of their `_id`s."""
    ids = all_of(seq)
    if after is not None:
        ids = {"$gt": after, "$lt": ids["$lt"]}
    options: dict[str, Any] = {"sort": [("_id", 1)], "limit": CHUNK, "hint": "_id_"}
    found: list[dict[str, Any]] = yield _patiently(
        find(JOBS, {"_id": ids}, projection=_OF_PLAN, **options)
    )
    return found


def without_plan(seqs: Sequence[int]) -> Operation[set[int]]:
    """Those of these numbers that no plan has."""
    found = yield find(PLANS, {"seq": {"$in": list(seqs)}}, projection={"_id": 0, "seq": 1})
    return set(seqs) - {int(one["seq"]) for one in found}


def jobs_by_id(ids: Sequence[str]) -> Operation[list[dict[str, Any]]]:
    found: list[dict[str, Any]] = yield find(JOBS, {"_id": {"$in": list(ids)}}, projection=_OF_PLAN)
    return found


def oddly_numbered(limit: int) -> Operation[list[dict[str, Any]]]:
    """Jobs whose seq can be none: no number, below zero, or beyond all that are given. This reads
    the whole collection, on the server."""
    where = {"$nor": [{"seq": NUMBER}, {"seq": None}]}
    found: list[dict[str, Any]] = yield _patiently(
        find(JOBS, where, projection={"seq": 1}, limit=limit), SCAN_LIMIT
    )
    return found


def keyed(after: Any, beyond: bool) -> Operation[list[dict[str, Any]]]:
    """The next unfinished jobs with a key, in the order of keys."""
    where = {
        "$and": [{"key": {"$gt": ""}}, {"key": {"$gt" if beyond else "$gte": after}}],
        **_UNFINISHED,
    }
    options: dict[str, Any] = {
        "sort": [("key", 1)],
        "limit": CHUNK,
        "projection": {"key": 1, "seq": 1},
    }
    found: list[dict[str, Any]] = yield _patiently(find(JOBS, where, **options))
    return found


def node_records() -> Operation[list[dict[str, Any]]]:
    """Every record, with the server's `now`."""
    found = yield find(NODES, {}, projection={"now": "$$NOW", "record": "$$ROOT"})
    return [{**one["record"], "now": one["now"]} for one in found]


def roster_document() -> Operation[dict[str, Any] | None]:
    document: dict[str, Any] | None = yield find_one(CLUSTER, {"_id": ROSTER})
    return document


def cluster_documents() -> Operation[list[dict[str, Any]]]:
    """The roster and the counter, as far as they are there."""
    found: list[dict[str, Any]] = yield find(CLUSTER, {"_id": {"$in": [ROSTER, COUNTER]}})
    return found


def recorded_epochs() -> Operation[list[dict[str, Any]]]:
    """The newest events of the roster."""
    found: list[dict[str, Any]] = yield _patiently(
        find(
            EVENTS,
            {"kind": "roster"},
            sort=[("at", -1)],
            limit=EVENTS_AT_MOST,
            projection={"_id": 0, "epoch": 1, "members": 1},
        )
    )
    return found


def look(seqs: Sequence[Any] = (), keys: Sequence[str] = ()) -> Operation[NodesRead]:
    """Nodes and roster, jobs without a number, and these jobs and keys again."""
    raw = yield from find_unnumbered(RAW_AT_MOST)
    found = (yield find(JOBS, {"seq": {"$in": list(seqs)}}, projection=_JUDGED)) if seqs else []
    holders: dict[str, tuple[Any, ...]] = {}
    for key in keys:
        same = yield find(JOBS, {"key": key, **_UNFINISHED}, projection={"seq": 1}, limit=10)
        holders[key] = tuple(sorted((one.get("seq") for one in same), key=str))
    # Holders are looked up after the jobs they hold: a node born in between cannot be taken for a
    # missing one.
    nodes = yield from node_records()
    roster = roster_of((yield from roster_document())) or Roster()
    moment = yield from now()
    return NodesRead(
        moment,
        tuple(map(Sighting.from_document, nodes)),
        roster,
        tuple(map(OpenJob.from_document, found)),
        frozenset(map(repr, raw)),
        holders,
    )
