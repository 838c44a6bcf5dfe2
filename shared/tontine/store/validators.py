"""What MongoDB refuses: types and ranges that nodes rely on. Fields that are not named here are
free.

`moderate` lets a document that is wrong already be changed, so that it can be put right, settled or
removed. The release before this one must be able to write all that it writes.
"""

from __future__ import annotations

from typing import Any, get_args

from ..records.job import LONGEST_TIMEOUT
from ..records.schedule import LONGEST, Missed, Overlap
from ..records.states import FINAL, Desired, JobState, NodeState, PlanState
from .names import (
    CLUSTER,
    COUNTER,
    JOBS,
    MODULES,
    NODES,
    OUTPUTS,
    PLANS,
    ROSTER,
    SCHEDULES,
    SCHEMA,
    SETTINGS,
    STATES,
)

LEVEL, ACTION = "moderate", "error"
LONGEST_LEASE = 86400

# Not `number`: that is a Decimal128 too, with which nobody here can calculate. No comparison holds
# for NaN.
_INTEGER = ["int", "long"]
_REAL = ["int", "long", "double"]

_COUNT: dict[str, Any] = {"bsonType": _INTEGER, "minimum": 0}
_TEXT: dict[str, Any] = {"bsonType": "string"}
_TEXTS: dict[str, Any] = {"bsonType": "array", "items": _TEXT}
_DATE: dict[str, Any] = {"bsonType": ["date", "null"]}


def _among(*values: str) -> dict[str, Any]:
    return {"enum": list(values)}


# Jobs are judged with every claim and settlement: `$jsonSchema` made a claim 10 to 16 % slower,
# these operators do not. They look into arrays, so what is allowed is said as the types that are
# not: an array is one of these.
_TYPES = (
    *(
        "double",
        "string",
        "object",
        "array",
        "binData",
        "undefined",
        "objectId",
        "bool",
        "date",
        "null",
        "regex",
    ),
    *(
        "dbPointer",
        "javascript",
        "symbol",
        "javascriptWithScope",
        "int",
        "timestamp",
        "long",
        "decimal",
        "minKey",
    ),
    "maxKey",
)


def _but(*allowed: str) -> dict[str, Any]:
    """Of any type but these. What is absent has no type."""
    return {"$type": [kind for kind in _TYPES if kind not in allowed]}


def _perhaps(field: str, *allowed: str, **within: Any) -> dict[str, Any]:
    """Absent, null, or of these types and within these limits."""
    limits = {f"${name}": limit for name, limit in within.items()}
    null = {field: {"$not": _but("null")}}
    return {"$or": [null, {field: {**limits, "$not": _but(*allowed)}}]}


_OPTIONAL = {
    "run_at": _perhaps("run_at", "date"),
    "priority": _perhaps("priority", *_INTEGER),
    "key": _perhaps("key", "string"),
    "timeout": _perhaps("timeout", *_REAL, gt=0, lte=LONGEST_TIMEOUT),
    "max_attempts": _perhaps("max_attempts", *_INTEGER, gte=1),
    "start_by": _perhaps("start_by", "date"),
    "unique_for": _perhaps("unique_for", *_REAL, gt=0, lte=LONGEST),
    "held_key": _perhaps("held_key", "string"),
}
_WHOLE: dict[str, Any] = {
    "task": {"$type": "string"},
    "$nor": [{"task": _but("string")}, {"args": _but("object")}],
    "$or": [
        {"$nor": [{name: {"$exists": True}} for name in _OPTIONAL]},  # as most are
        {"$and": list(_OPTIONAL.values())},
    ],
}
# A job is judged whole until it is claimed for the first time. After that only what every claim and
# settlement relies on is: a node must be able to give back a job whose timeout somebody has spoilt
# meanwhile. What the numberer refuses becomes `failed` as it is.
_BELOW_2_31 = {"$bitsAllClear": list(range(31, 64))}
_COUNTERS = ("attempt", "fails", "lost")
# What clients insert when nothing but a task and arguments was given: judged first, because most
# are like this and each clause costs every insert. No field besides these is there, so that none
# can be odd. A count that is an array with a zero in it gets through: whoever claims judges counts.
_PLAIN: dict[str, Any] = {
    "state": JobState.QUEUED.value,
    "seq": {"$gte": 0},
    **dict.fromkeys(_COUNTERS, 0),
    "task": {"$type": "string"},
    "args": {"$type": "object"},
    "created_at": {"$exists": True},
    "$jsonSchema": {"maxProperties": len(("_id", "state", "seq", *_COUNTERS)) + 3},
    "$nor": [{"seq": _but(*_INTEGER)}, {"task": _but("string")}, {"args": _but("object")}],
}
_JOB: dict[str, Any] = {
    "$or": [
        _PLAIN,
        {
            "seq": {"$gte": 0},
            **dict.fromkeys(_COUNTERS, _BELOW_2_31),
            "$nor": [{name: _but(*_INTEGER)} for name in ("seq", *_COUNTERS)],
            "$or": [
                {
                    "state": JobState.WORKING.value,
                    "node": {"$type": "string", "$not": _but("string")},
                },
                {"state": {"$in": sorted(FINAL)}},
                {"state": JobState.QUEUED.value, "$or": [{"attempt": {"$gt": 0}}, _WHOLE]},
            ],
        },
        {"seq": {"$not": _but("null")}},  # it may arrive in any shape, and the numberer judges it
    ]
}

_NODE: dict[str, Any] = {
    "required": ["state"],
    "anyOf": [{"required": ["beat"]}, {"properties": {"state": _among(NodeState.DEAD.value)}}],
    "properties": {
        "state": _among(*(state.value for state in NodeState)),
        "desired": _among(*(desired.value for desired in Desired)),
        "name": _TEXT,
        "beat": _COUNT,
        "tick": _COUNT,
        "slots": _COUNT,
        "running": _COUNT,
        "lease": {
            "bsonType": _REAL,
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": LONGEST_LEASE,
        },
        "share": {
            "bsonType": "object",
            "required": ["epoch", "rank", "size"],
            "properties": {"epoch": _COUNT, "rank": _COUNT, "size": {**_COUNT, "minimum": 1}},
        },
        "modules": {"bsonType": "array", "items": {"bsonType": "object"}},
        "careful": _TEXTS,
        "metrics": {"bsonType": "object"},
        "troubles": {"bsonType": "array"},
        "started_at": _DATE,
        "lease_until": _DATE,
        "died_at": _DATE,
    },
}

_KEPT: dict[str, Any] = {"bsonType": [*_REAL, "null"], "minimum": 0}
_OF_CLUSTER: dict[str, dict[str, Any]] = {
    ROSTER: {"required": ["epoch", "members"], "properties": {"epoch": _COUNT, "members": _TEXTS}},
    COUNTER: {"required": ["seq"], "properties": {"seq": _COUNT}},
    SETTINGS: {"properties": {"keep_done": _KEPT, "keep_failed": _KEPT}},
    SCHEMA: {"properties": {"version": {**_COUNT, "minimum": 1}, "by": _TEXT, "wants": _TEXTS}},
}
_CLUSTER: dict[str, Any] = {
    "anyOf": [
        *(
            {**rule, "properties": {"_id": _among(name), **rule["properties"]}}
            for name, rule in _OF_CLUSTER.items()
        ),
        {"properties": {"_id": {"not": _among(*_OF_CLUSTER)}}},
    ]
}

_SCHEDULE: dict[str, Any] = {
    "properties": {
        "task": _TEXT,
        "plan": {"bsonType": ["object", "null"]},
        "args": {"bsonType": ["object", "null"]},
        "cron": {"bsonType": ["string", "null"]},
        "every": {"bsonType": [*_REAL, "null"], "minimum": 1, "maximum": LONGEST},
        "timezone": {"bsonType": ["string", "null"]},
        "missed": {"enum": [*get_args(Missed), None]},
        "overlap": {"enum": [*get_args(Overlap), None]},
        "max_age": {
            "bsonType": [*_REAL, "null"],
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": LONGEST,
        },
        "off": {"bsonType": ["bool", "null"]},
        "declared": {"bsonType": ["object", "null"]},
        "next_at": _DATE,
    },
    "allOf": [
        {"anyOf": [{"required": ["task"]}, {"required": ["plan"]}]},
        {"anyOf": [{"required": ["cron"]}, {"required": ["every"]}]},
    ],
}

# It may arrive in any shape, and whoever accepts plans judges it; what has a state, nodes rely on.
_PLAN: dict[str, Any] = {
    "anyOf": [
        {"properties": {"state": {"enum": [None]}}},
        {
            "required": ["seq"],
            "properties": {
                "seq": {**_COUNT, "minimum": 1},
                "state": _among(*(state.value for state in PlanState)),
                "try": _COUNT,
                "rev": _COUNT,
                "widths": {"bsonType": "object"},
                "marks": {"bsonType": "object"},
                "undo": _TEXTS,
                "added": _TEXTS,
                "expire_at": _DATE,
            },
        },
    ]
}
_OUTPUT: dict[str, Any] = {
    "required": ["data", "at"],
    "properties": {
        "_id": {
            "bsonType": "object",
            "required": ["seq", "stage", "attempt", "part"],
            "properties": {"seq": _COUNT, "stage": _TEXT, "attempt": _COUNT, "part": _COUNT},
        },
        "data": {"bsonType": "binData"},
        "at": {"bsonType": "date"},
    },
}
_MODULE: dict[str, Any] = {
    "required": ["module", "version"],
    "properties": {
        "_id": _TEXT,
        "module": _TEXT,
        "version": _TEXT,
        "authors": {"bsonType": "array"},
        "tasks": _TEXTS,
        "digest": _TEXT,
        "seen_at": {"bsonType": "date"},
    },
}
_STATE: dict[str, Any] = {
    "required": ["module", "name", "version"],
    "properties": {
        "_id": _TEXT,
        "module": _TEXT,
        "name": _TEXT,
        "version": {**_COUNT, "minimum": 1},
        "bytes": _COUNT,
        "sha256": _TEXT,
        "at": {"bsonType": "date"},
        "by": _TEXT,
    },
}

VALIDATORS: dict[str, dict[str, Any]] = {
    JOBS: _JOB,
    NODES: {"$jsonSchema": _NODE},
    CLUSTER: {"$jsonSchema": _CLUSTER},
    SCHEDULES: {"$jsonSchema": _SCHEDULE},
    PLANS: {"$jsonSchema": _PLAN},
    MODULES: {"$jsonSchema": _MODULE},
    OUTPUTS: {"$jsonSchema": _OUTPUT},
    STATES: {"$jsonSchema": _STATE},
}
