"""Indexes: which there are, and how they are made, replaced and retired, by many at once.

A definition under a name never changes again: a new one gets a new name, is made first, and the old
name is retired. A retired index must be one that the release before does not ask for by name. Those
that only some jobs need are made with the first of these (`on_demand.py`), and looked after from
then on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson.son import SON

from ..errors import NotPermitted, StoreError, StoreUnavailable
from ..records.job import LAST_SEQ
from ..records.states import FINAL, OPEN, UNFINISHED_PLAN, JobState, NodeState
from .call import Operation, answered, command, find_one, update_one
from .names import (
    CLUSTER,
    EVENTS,
    JOBS,
    LOGS,
    MODULES,
    NODES,
    OUTPUTS,
    PLANS,
    SCHEDULES,
    SCHEMA,
    STATES,
)

EVENTS_KEPT = 7 * 86400
BUILT_WITHIN = 1800.0

START_BY, HELD_KEY = "start_by", "held_key"
DUE_INDEX, RANKED_INDEX = "due_by_task", "ranked_by_task"

Index = Mapping[str, Any]
Condition = dict[str, Any]

QUEUED, WORKING = JobState.QUEUED.value, JobState.WORKING.value

# Which jobs an index holds. A query that is to use it must say so in these words: the server
# compares them.
NUMBERED: Condition = {"seq": {"$gte": 0}}
NUMBER: Condition = {
    "$gte": 0,
    "$lt": LAST_SEQ,
    "$type": ["int", "long", "double"],
    "$not": {"$type": "array"},
}
"""A seq that can be one, for those who calculate with it."""
FRESH: Condition = {"state": QUEUED, "run_at": None, "priority": None}
RANKED: Condition = {"state": QUEUED, "priority": {"$exists": True}}
DUE: Condition = {"state": QUEUED, "run_at": {"$exists": True}}
HELD: Condition = {"state": WORKING}
UNNUMBERED: Condition = {"seq": None}
NEW_PLANS: Condition = {"state": None}
OPEN_PLANS: Condition = {"state": {"$in": sorted(state.value for state in UNFINISHED_PLAN)}}
UNSUCCESSFUL: Condition = {"state": {"$in": [JobState.CANCELLED.value, JobState.FAILED.value]}}

OPEN_JOBS: dict[str, Condition] = {
    "fresh": {**FRESH, **NUMBERED},
    RANKED_INDEX: {
        **RANKED,
        "run_at": None,
        "priority": {"$exists": True, "$ne": None},
        **NUMBERED,
    },
    DUE_INDEX: {**DUE, "run_at": {"$exists": True, "$ne": None}, **NUMBERED},
    "held": HELD,
    "raw": UNNUMBERED,
}
"""Every job that has not ended is counted by exactly one of these, by the name of its index."""

# Index maintenance is half the cost of a job: a fresh job's claim and settle touch `fresh` and
# `held`, nothing else.
INDEXES: dict[str, list[dict[str, Any]]] = {
    JOBS: [
        {
            "name": "seq",
            "key": SON([("seq", 1)]),
            "unique": True,
            "partialFilterExpression": NUMBERED,
        },
        {
            "name": "fresh",
            "key": SON([("task", 1), ("seq", 1)]),
            "partialFilterExpression": FRESH,
        },
        {
            "name": RANKED_INDEX,
            "key": SON([("task", 1), ("priority", -1), ("seq", 1)]),
            "partialFilterExpression": RANKED,
        },
        {
            "name": DUE_INDEX,
            "key": SON([("task", 1), ("run_at", 1), ("seq", 1)]),
            "partialFilterExpression": DUE,
        },
        # Finished jobs leave when their time has come; those without `expire_at` stay, and so does
        # all that is not numbered or has not ended, whatever a producer wrote there.
        {
            "name": "expiry",
            "key": SON([("expire_at", 1)]),
            "expireAfterSeconds": 0,
            "partialFilterExpression": {
                "expire_at": {"$exists": True},
                **NUMBERED,
                "state": {"$in": sorted(state.value for state in FINAL)},
            },
        },
        # Of all jobs that have ended these are the few that people ask for. A job that gets done is
        # never in it.
        {
            "name": "unsuccessful",
            "key": SON([("finished_at", 1)]),
            "partialFilterExpression": UNSUCCESSFUL,
        },
        {"name": "held", "key": SON([("node", 1)]), "partialFilterExpression": HELD},
        # Equal keys are kept in the order of arrival, which is the order in which raw jobs are
        # numbered.
        {"name": "raw", "key": SON([("seq", 1)]), "partialFilterExpression": UNNUMBERED},
        {
            "name": "key",
            "key": SON([("key", 1)]),
            "unique": True,
            "partialFilterExpression": {
                "key": {"$gt": ""},
                "state": {"$in": sorted(state.value for state in OPEN)},
            },
        },
    ],
    NODES: [
        {
            "name": "name",
            "key": SON([("name", 1)]),
            "unique": True,
            "partialFilterExpression": {
                "name": {"$exists": True},
                "state": {
                    "$in": sorted(state.value for state in NodeState if state is not NodeState.DEAD)
                },
            },
        },
    ],
    CLUSTER: [],
    EVENTS: [{"name": "at", "key": SON([("at", 1)]), "expireAfterSeconds": EVENTS_KEPT}],
    LOGS: [
        {"name": "attempt", "key": SON([("seq", 1), ("attempt", 1)]), "unique": True},
        {
            "name": "expiry",
            "key": SON([("expire_at", 1)]),
            "expireAfterSeconds": 0,
            "partialFilterExpression": {"expire_at": {"$exists": True}},
        },
    ],
    SCHEDULES: [{"name": "next", "key": SON([("next_at", 1)])}],
    PLANS: [
        {
            "name": "seq",
            "key": SON([("seq", 1)]),
            "unique": True,
            "partialFilterExpression": NUMBERED,
        },
        # Equal keys are kept in the order of arrival, which is the order in which they are
        # accepted.
        {"name": "new", "key": SON([("state", 1)]), "partialFilterExpression": NEW_PLANS},
        {
            "name": "open",
            "key": SON([("state", 1), ("seq", 1)]),
            "partialFilterExpression": OPEN_PLANS,
        },
        {
            "name": "key",
            "key": SON([("key", 1)]),
            "unique": True,
            "partialFilterExpression": {"key": {"$gt": ""}, **OPEN_PLANS},
        },
        # Not one that removes by itself: a plan's jobs must go before it does (PL16).
        {
            "name": "expiry",
            "key": SON([("expire_at", 1)]),
            "partialFilterExpression": {"expire_at": {"$exists": True}},
        },
    ],
    MODULES: [],
    OUTPUTS: [],
    STATES: [],
}
# Every index costs every job a little, also one that is not in it: most databases never need these.
ON_DEMAND: dict[str, list[dict[str, Any]]] = {
    JOBS: [
        {
            "name": START_BY,
            "key": SON([("start_by", 1)]),
            "partialFilterExpression": {"state": QUEUED, "start_by": {"$exists": True}},
        },
        {
            "name": HELD_KEY,
            "key": SON([("held_key", 1)]),
            "unique": True,
            "partialFilterExpression": {"held_key": {"$gt": ""}},
        },
    ],
}
RETIRED: dict[str, list[str]] = {JOBS: ["expire"], LOGS: ["at"]}
SUPERSEDED: dict[str, str] = {DUE_INDEX: "due", RANKED_INDEX: "ranked"}
"""Indexes of `jobs`, and those that the release before asks for in their stead. These serve until
the new ones are there, and only `tontine init` drops them: nodes of that release may be at work."""

_SAME = ("key", "unique", "sparse", "partialFilterExpression", "collation")
"""Of two indexes that agree in these the server makes only one, whatever their names."""
_DEFINING = (*_SAME, "expireAfterSeconds", "hidden")
_MEANWHILE = "_meanwhile"

_BAD_VALUE, NO_COLLECTION, NO_INDEX = 2, 26, 27


@dataclass(frozen=True, slots=True)
class IndexState:
    """How a collection's indexes stand."""

    missing: tuple[Index, ...] = ()
    blocked: tuple[tuple[Index, tuple[str, ...]], ...] = ()
    """Ours, and the indexes that are in their place: of another definition, or of the same under
    another name."""
    outdated: tuple[str, ...] = ()
    unnoted: tuple[str, ...] = ()
    """On demand, and there, although nobody has noted that they are wanted."""
    superseded: tuple[str, ...] = ()
    """Those of which the one that they supersede is there, and serves in their stead."""


def all_of(collection: str) -> list[dict[str, Any]]:
    """Our indexes of a collection, also those on demand."""
    return [*INDEXES[collection], *ON_DEMAND.get(collection, ())]


def judge(collection: str, there: Sequence[Index], wanted: Collection[str] = ()) -> IndexState:
    """Compare the indexes that are there with ours; one on demand that is neither there nor wanted
    is none of them."""
    names = {str(one["name"]) for one in there}
    on_demand = [
        index for index in ON_DEMAND.get(collection, ()) if index["name"] in {*names, *wanted}
    ]
    missing, blocked = [], []
    for index in (*INDEXES[collection], *on_demand):
        in_place = tuple(one["name"] for one in there if _is_in_place_of(one, index))
        if in_place:
            blocked.append((index, in_place))
        elif index["name"] not in names:
            missing.append(index)
    old = {
        *RETIRED.get(collection, ()),
        *(_meanwhile(index)["name"] for index in all_of(collection)),
    }
    outdated = tuple(one["name"] for one in there if one["name"] in old)
    unnoted = tuple(str(index["name"]) for index in on_demand if index["name"] not in wanted)
    in_use = tuple(new for new, old in SUPERSEDED.items() if collection == JOBS and old in names)
    return IndexState(tuple(missing), tuple(blocked), outdated, unnoted, in_use)


def _is_in_place_of(one: Index, index: Index) -> bool:
    if one["name"] == index["name"]:
        return not _agree(one, index, _DEFINING)
    return _agree(one, index, _SAME)


def _agree(one: Index, other: Index, parts: Sequence[str]) -> bool:
    return all(_plain(one.get(part)) == _plain(other.get(part)) for part in parts)


def _plain(value: Any) -> Any:
    """Comparable: the order of keys matters, their type does not, and an option that is off is as
    good as none."""
    if isinstance(value, Mapping):
        return [(key, _plain(inner)) for key, inner in value.items()]
    return None if value is False else value


def look(collection: str) -> Operation[IndexState]:
    """How a collection's indexes stand."""
    if not INDEXES[collection]:
        return IndexState()
    wanted = (yield from read_wanted()) if collection in ON_DEMAND else ()
    try:
        answer = yield command(SON([("listIndexes", collection)]))
    except StoreError as error:
        if not answered(error, NO_COLLECTION):
            raise
        return judge(collection, (), wanted)
    return judge(collection, answer["cursor"]["firstBatch"], wanted)


def read_wanted() -> Operation[list[str]]:
    """The names of the indexes on demand that somebody has needed so far."""
    document = yield find_one(CLUSTER, {"_id": SCHEMA}, projection={"wants": 1})
    wants = (document or {}).get("wants")
    return [name for name in wants if isinstance(name, str)] if isinstance(wants, list) else []


def want(*names: str) -> Operation[None]:
    """Note that indexes on demand are needed: whoever looks after the schema makes them from now
    on."""
    update = {"$addToSet": {"wants": {"$each": list(names)}}}
    yield update_one(CLUSTER, {"_id": SCHEMA}, update, upsert=True, repeats=True)


def is_there(name: str) -> Operation[bool]:
    """Whether `jobs` has an index, asked in a way that every producer may."""
    condition = next(index for index in all_of(JOBS) if index["name"] == name)[
        "partialFilterExpression"
    ]
    try:
        found = yield find_one(JOBS, condition, projection={"_id": 1}, hint=name)
    except StoreError as error:
        if not tells_of_missing(error):
            raise
        return False
    # Of a collection that is not there, any index may be asked for.
    return found is not None or (yield from _has_jobs())


def tells_of_missing(error: StoreError) -> bool:
    """Whether an index that was asked for by name is not there."""
    # Such an answer begins with the query; where that is long, it is cut before it comes to the
    # hint.
    return answered(error, _BAD_VALUE) and any(
        sign in str(error) for sign in ("hint", "error processing query")
    )


def on_index(name: str, call: Callable[[str], Any]) -> Operation[Any]:
    """Make a call that asks for an index by its name; as long as that is not there, for the one
    that it supersedes."""
    try:
        return (yield call(name))
    except StoreError as error:
        if name not in SUPERSEDED or not tells_of_missing(error):
            raise
    return (yield call(SUPERSEDED[name]))


def drop_superseded() -> Operation[list[str]]:
    """Drop what has been superseded, where all that supersedes it is there; what that was."""
    standing = yield from look(JOBS)
    if standing.missing or standing.blocked:
        return []
    dropped = [SUPERSEDED[new] for new in standing.superseded]
    for name in dropped:
        yield from drop(JOBS, name)
    return dropped


def _has_jobs() -> Operation[bool]:
    # Whoever may do something with a collection may list it like this.
    wanted = {"nameOnly": True, "authorizedCollections": True, "filter": {"name": JOBS}}
    answer = yield command(SON([("listCollections", 1), *wanted.items()]))
    return bool(answer["cursor"]["firstBatch"])


def create(collection: str, indexes: Sequence[Index]) -> Operation[dict[str, StoreError]]:
    """Make indexes that are missing; what the server has against those that it did not make."""
    try:
        yield _creation(collection, indexes)
    except (StoreUnavailable, NotPermitted):
        raise
    except StoreError as error:
        if len(indexes) == 1:
            return {str(indexes[0]["name"]): error}
        failed: dict[str, StoreError] = {}
        for index in indexes:
            failed |= yield from create(collection, [index])
        return failed
    return {}


def replace(
    collection: str,
    index: Index,
    in_place: Sequence[str],
    is_my_turn: Callable[[], Operation[bool]],
) -> Operation[dict[str, StoreError]]:
    """Make an index whose place is taken. A unique one has a stand-in meanwhile: numbers are never
    given twice.

    The stand-in is outdated as soon as the right one is there. Building it may take longer than a
    turn lasts.
    """
    if index.get("unique"):
        failed = yield from create(collection, [_meanwhile(index)])
        if failed:
            return {str(index["name"]): error for error in failed.values()}
    for name in in_place:
        if (yield from is_my_turn()):
            yield from drop(collection, name)
    return (yield from create(collection, [index]))


def drop(collection: str, name: str) -> Operation[None]:
    """Drop an index, if it is still there."""
    try:
        yield command(SON([("dropIndexes", collection), ("index", name)]))
    except StoreError as error:
        if not answered(error, NO_COLLECTION, NO_INDEX):
            raise


def _meanwhile(index: Index) -> dict[str, Any]:
    """The same index for the same documents, but another one to the server: every document has an
    `_id`."""
    condition = {**index.get("partialFilterExpression", {}), "_id": {"$exists": True}}
    return {**index, "name": f"{index['name']}{_MEANWHILE}", "partialFilterExpression": condition}


def _creation(collection: str, indexes: Sequence[Index]) -> Any:
    return command(
        SON([("createIndexes", collection), ("indexes", list(indexes))]), within=BUILT_WITHIN
    )
