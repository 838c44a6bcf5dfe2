"""Collections, validators and indexes. `init` is safe to repeat, and by many nodes at once."""

from __future__ import annotations

import contextlib
from typing import Any

from bson.son import SON

from ..errors import NotPermitted, StoreError, StoreUnavailable
from ..states import OPEN, Desired, JobState, NodeState
from .call import Call, Steps, command

JOBS, NODES, CLUSTER, EVENTS = "jobs", "nodes", "cluster", "events"
LOGS, SCHEDULES, SAMPLES, BELL = "logs", "schedules", "samples", "bell"
ROSTER, COUNTER, SETTINGS = "roster", "counter", "settings"

EVENTS_KEPT = 7 * 86400
LOGS_KEPT = 30 * 86400
SAMPLES_KEPT = 86400
BELL_SIZE = 256 * 1024

_NUMBER = {"$type": "number"}

# A job may arrive in any shape, and the numberer judges it; once it has a seq, claims rely on these fields.
JOBS_VALIDATOR: dict[str, Any] = {
    "$or": [
        {"seq": None},
        {
            "seq": {"$type": ["long", "int"]},
            "state": {"$in": [state.value for state in JobState]},
            "attempt": _NUMBER,
            "fails": _NUMBER,
            "lost": _NUMBER,
        },
    ]
}
NODES_VALIDATOR: dict[str, Any] = {
    "state": {"$in": [state.value for state in NodeState]},
    "$or": [{"desired": {"$exists": False}}, {"desired": {"$in": [desired.value for desired in Desired]}}],
}

# Index maintenance is half the cost of a job: a fresh job's claim and settle touch `fresh` and `held`, nothing else.
INDEXES: dict[str, list[dict[str, Any]]] = {
    JOBS: [
        {
            "name": "seq",
            "key": SON([("seq", 1)]),
            "unique": True,
            "partialFilterExpression": {"seq": {"$gte": 0}},
        },
        {
            "name": "fresh",
            "key": SON([("task", 1), ("seq", 1)]),
            "partialFilterExpression": {"state": JobState.QUEUED.value, "run_at": None, "priority": None},
        },
        {
            "name": "ranked",
            "key": SON([("priority", -1), ("seq", 1)]),
            "partialFilterExpression": {"state": JobState.QUEUED.value, "priority": {"$exists": True}},
        },
        {
            "name": "due",
            "key": SON([("run_at", 1)]),
            "partialFilterExpression": {"state": JobState.QUEUED.value, "run_at": {"$exists": True}},
        },
        # Finished jobs leave when their time has come; those without `expire_at` stay.
        {
            "name": "expire",
            "key": SON([("expire_at", 1)]),
            "expireAfterSeconds": 0,
            "partialFilterExpression": {"expire_at": {"$exists": True}},
        },
        {"name": "held", "key": SON([("node", 1)]), "partialFilterExpression": {"state": JobState.WORKING.value}},
        # Equal keys are kept in the order of arrival, which is the order in which raw jobs are numbered.
        {"name": "raw", "key": SON([("seq", 1)]), "partialFilterExpression": {"seq": None}},
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
                "state": {"$in": sorted(state.value for state in NodeState if state is not NodeState.DEAD)},
            },
        },
    ],
    CLUSTER: [],
    EVENTS: [{"name": "at", "key": SON([("at", 1)]), "expireAfterSeconds": EVENTS_KEPT}],
    LOGS: [
        {"name": "attempt", "key": SON([("seq", 1), ("attempt", 1)]), "unique": True},
        {"name": "at", "key": SON([("at", 1)]), "expireAfterSeconds": LOGS_KEPT},
    ],
    SCHEDULES: [{"name": "next", "key": SON([("next_at", 1)])}],
}

COLLECTIONS = (*INDEXES, SAMPLES, BELL)
"""All that `init` makes. The last two have no indexes of ours, and no validator."""

_VALIDATORS = {JOBS: JOBS_VALIDATOR, NODES: NODES_VALIDATOR}


def init() -> Steps[None]:
    """Make the collections, validators and indexes that are missing."""
    yield from _init_needed()
    yield from _init_samples()
    yield from _init_bell()


def _init_needed() -> Steps[None]:
    """What nodes cannot do without."""
    for name, indexes in INDEXES.items():
        yield from _create(name)
        if indexes:
            yield from _drop_outdated(name, indexes)
            yield command(SON([("createIndexes", name), ("indexes", indexes)]), within=120)


def _drop_outdated(name: str, indexes: list[dict[str, Any]]) -> Steps[None]:
    """An index of ours that an earlier version defined otherwise is made anew."""
    wanted = {index["name"]: index for index in indexes}
    answer = yield command(SON([("listIndexes", name)]))
    for there in answer["cursor"]["firstBatch"]:
        new = wanted.get(there["name"])
        if new is not None and any(_plain(there.get(part)) != _plain(new.get(part)) for part in _DEFINING):
            yield command(SON([("dropIndexes", name), ("index", there["name"])]))


_DEFINING = ("key", "unique", "partialFilterExpression", "expireAfterSeconds")


def _plain(value: Any) -> Any:
    return [(key, _plain(inner)) for key, inner in value.items()] if isinstance(value, dict) else value


def _create(name: str) -> Steps[None]:
    validator = _VALIDATORS.get(name, {})
    found = yield from _describe(name)
    if found is None:
        yield from _make(SON([("create", name), ("validator", validator)]))
    elif (found.get("options", {}).get("validator") or {}) != validator:
        yield command(SON([("collMod", name), ("validator", validator)]))


def _init_bell() -> Steps[None]:
    """A producer that rang before there was a bell has made an ordinary collection, at which nobody can listen."""
    found = yield from _describe(BELL)
    if found is not None and not found["options"].get("capped"):
        yield command(SON([("drop", BELL)]))
        found = None
    if found is None:
        yield from _make(SON([("create", BELL), ("capped", True), ("size", BELL_SIZE)]))


def _make(creation: SON[str, Any]) -> Steps[None]:
    try:
        yield Call("", "command", (creation,))
    except StoreError as error:
        if "already exists" not in str(error):
            raise


def _init_samples() -> Steps[None]:
    """A collection of that name that is no time series is somebody else's, and stays as it is."""
    found = yield from _describe(SAMPLES)
    if found is None:
        series = {"timeField": "at", "metaField": "node", "granularity": "seconds"}
        yield from _make(SON([("create", SAMPLES), ("timeseries", series), ("expireAfterSeconds", SAMPLES_KEPT)]))
    elif found["type"] == "timeseries" and found["options"].get("expireAfterSeconds") != SAMPLES_KEPT:
        yield command(SON([("collMod", SAMPLES), ("expireAfterSeconds", SAMPLES_KEPT)]))


def _describe(name: str) -> Steps[dict[str, Any] | None]:
    answer = yield command(SON([("listCollections", 1), ("filter", {"name": name})]))
    return next(iter(answer["cursor"]["firstBatch"]), None)


def keeps_samples() -> Steps[bool]:
    """Whether samples have a place. An insert into none would make an ordinary collection, which nothing expires."""
    found = yield from _describe(SAMPLES)
    return found is not None and found["type"] == "timeseries"


def ensure() -> Steps[None]:
    """`init`, as far as this user may: without the right to, what is needed must be there already."""
    for wanted in (_init_samples, _init_bell):
        with contextlib.suppress(StoreError):  # only curves are missing without them, or a node looks later
            yield from wanted()
    try:
        yield from _init_needed()
    except NotPermitted as refusal:
        missing = yield from missing_indexes()
        if missing:
            raise NotPermitted(
                f"this database user may not create {', '.join(missing)}: run `tontine init` once as a user who may"
            ) from refusal


def missing_indexes() -> Steps[list[str]]:
    """What `init` would have to create, as collection.index."""
    missing: list[str] = []
    for name, indexes in INDEXES.items():
        try:
            answer = yield command(SON([("listIndexes", name)]))
        except (NotPermitted, StoreUnavailable):
            raise
        except StoreError:
            missing += [f"{name}.{index['name']}" for index in indexes]
            continue
        there = {index["name"] for index in answer["cursor"]["firstBatch"]}
        missing += [f"{name}.{index['name']}" for index in indexes if index["name"] not in there]
    return missing
