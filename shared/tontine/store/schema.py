"""The schema and its versions: collections, validators and indexes, made by whoever comes first,
and put back.

All of it is safe to repeat, and by many nodes at once, of this release and the one before. Anybody
may create; whoever has the turn may drop. A schema that is newer than this software is respected:
only what is missing is made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as installed
from typing import Any

from bson import ObjectId
from bson.son import SON

from ..errors import DuplicateKey, NotPermitted, StoreError, StoreUnavailable
from . import doubles, indexes
from .call import Call, Operation, command, find_one, update_one
from .indexes import INDEXES, IndexState
from .names import BELL, CLUSTER, JOBS, SAMPLES, SCHEMA
from .retention import keep_logs, read_retention
from .validators import ACTION, LEVEL, VALIDATORS

VERSION = 4
"""1 is the schema of the releases that wrote no version. A node of an older one leaves a newer
validator alone."""

SAMPLES_KEPT = 86400
BELL_SIZE = 256 * 1024
TURN_FOR = 60.0
"""Longer than a call to drop an index can take."""
PARTED_AT_MOST = 5

COLLECTIONS = (*INDEXES, SAMPLES, BELL)
"""All that there are. The last two have no indexes of ours, and no validator."""


@dataclass(slots=True)
class Mended:
    """What a look at the schema has made, and what it could not make and why."""

    version: int
    """The one that was found; 0 is none."""
    made: list[str] = field(default_factory=list)
    failed: dict[str, StoreError] = field(default_factory=dict)
    lacking: dict[str, StoreError] = field(default_factory=dict)
    """Nodes work without these: validators, samples, the bell."""

    @property
    def is_newer(self) -> bool:
        return self.version > VERSION

    @property
    def found_nothing(self) -> bool:
        return not (self.made or self.failed or self.lacking or self.is_newer)

    def tried(self, what: str, making: Operation[bool]) -> Operation[None]:
        """Try to make something that nodes can do without."""
        try:
            if (yield from making):
                self.made.append(what)
        except StoreUnavailable:
            raise
        except StoreError as error:
            self.lacking[what] = error


def mend() -> Operation[Mended]:
    """Make what is missing, put right what is not as it should be, and retire what is old."""
    mended = Mended((yield from read_version()))
    if mended.is_newer:
        for name in INDEXES:
            yield from _make_missing(name, (yield from indexes.look(name)), mended)
        return mended
    there = yield from _describe(COLLECTIONS)
    unsettled: list[str] = []
    for name in INDEXES:
        standing = yield from _mend_collection(name, there.get(name), mended)
        yield from _make_missing(name, standing, mended)
        if standing.blocked or standing.outdated:
            unsettled.append(name)
    yield from mended.tried(SAMPLES, _mend_samples(there.get(SAMPLES)))
    yield from mended.tried(BELL, _mend_bell(there.get(BELL)))
    is_settled = (yield from _rearrange(unsettled, mended)) if unsettled else True
    if mended.version < VERSION and is_settled and not mended.failed:
        yield from _migrate()
    return mended


def init() -> Operation[None]:
    """Make the collections, validators and indexes that are missing; the first refusal ends it."""
    mended = yield from mend()
    for error in (*mended.failed.values(), *mended.lacking.values()):
        raise error


def retire() -> Operation[list[str]]:
    """Drop the indexes that only the release before asks for, where what supersedes them is there;
    no node of that release may be left. What was dropped, as collection.index."""
    dropped = yield from indexes.drop_superseded()
    return [f"{JOBS}.{name}" for name in dropped]


def ensure() -> Operation[None]:
    """`init`, as far as this user may: without the right to, what is needed must be there already.

    What the data forbids, like a unique index over doubles, is for the nodes to live with and to
    say.
    """
    try:
        mended = yield from mend()
        refusal = next(
            (error for error in mended.failed.values() if isinstance(error, NotPermitted)), None
        )
    except NotPermitted as error:
        refusal = error
    if refusal is not None and (missing := (yield from missing_indexes())):
        raise NotPermitted(
            f"this database user may not create {', '.join(missing)}: run `tontine init` once as "
            "a user who may"
        ) from refusal


def read_version() -> Operation[int]:
    """The schema's version; 0 when there is none, or one that is no number."""
    document = yield find_one(CLUSTER, {"_id": SCHEMA})
    number = (document or {}).get("version")
    return int(number) if isinstance(number, int) and not isinstance(number, bool) else 0


def _migrate() -> Operation[None]:
    """Say that this version is reached; whoever says it first also brings the documents along."""
    yield from keep_logs((yield from read_retention()))
    older = {"_id": SCHEMA, "version": {"$not": {"$gte": VERSION}}}
    update = {"$set": {"version": VERSION, "by": installed("tontine")}}
    with contextlib.suppress(DuplicateKey):  # it was reached meanwhile
        yield update_one(CLUSTER, older, update, upsert=True, repeats=True)


def _mend_collection(
    name: str, found: Mapping[str, Any] | None, mended: Mended
) -> Operation[IndexState]:
    """A collection with its validator; how its indexes stand."""
    rules = {
        "validator": VALIDATORS.get(name, {}),
        "validationLevel": LEVEL,
        "validationAction": ACTION,
    }
    if found is None:
        if (yield from _make(SON([("create", name), *rules.items()]))):
            mended.made.append(name)
        return (yield from indexes.look(name))
    if not _has_rules(name, found):
        yield from mended.tried(
            _validator_of(name), _done(command(SON([("collMod", name), *rules.items()])))
        )
    return (yield from indexes.look(name))


def _has_rules(name: str, found: Mapping[str, Any]) -> bool:
    options = found.get("options", {})
    if name not in VALIDATORS:
        return not options.get("validator")
    rules = (
        options.get("validator"),
        options.get("validationLevel"),
        options.get("validationAction"),
    )
    return rules == (VALIDATORS[name], LEVEL, ACTION)


def _validator_of(name: str) -> str:
    return f"the validator of {name}"


def _done(call: Call) -> Operation[bool]:
    yield call
    return True


def mend_indexes(name: str) -> Operation[Mended]:
    """Make the indexes of one collection that are missing, and nothing else."""
    mended = Mended((yield from read_version()))
    yield from _make_missing(name, (yield from indexes.look(name)), mended)
    return mended


def _make_missing(name: str, standing: IndexState, mended: Mended) -> Operation[None]:
    """Make the indexes that are missing, and note those that are there as wanted."""
    if standing.unnoted:
        with contextlib.suppress(NotPermitted):
            yield from indexes.want(*standing.unnoted)
    if standing.missing:
        try:
            failed = yield from indexes.create(name, standing.missing)
            if name == JOBS:
                failed = yield from _part(failed, mended)
        except NotPermitted as error:
            failed = {str(index["name"]): error for index in standing.missing}
        _note(name, (str(index["name"]) for index in standing.missing), failed, mended)


def _part(failed: dict[str, StoreError], mended: Mended) -> Operation[dict[str, StoreError]]:
    """Make the unique indexes of `jobs` that doubles kept from being made; what still fails."""
    for index in indexes.all_of(JOBS):
        name = str(index["name"])
        for _ in range(PARTED_AT_MOST):  # others may go on inserting until it is there
            if not isinstance(failed.get(name), DuplicateKey):
                break
            if parted := (yield from doubles.resolve(name)):
                mended.made.append(f"{JOBS} without {parted} that had the {name} of an older one")
            del failed[name]
            failed |= yield from indexes.create(JOBS, [index])
    return failed


def _note(
    name: str, tried: Iterable[str], failed: Mapping[str, StoreError], mended: Mended
) -> None:
    mended.failed |= {f"{name}.{index}": error for index, error in failed.items()}
    mended.made += [f"{name}.{index}" for index in tried if index not in failed]


def _rearrange(names: Iterable[str], mended: Mended) -> Operation[bool]:
    """Replace what is in the place of our indexes and drop what is outdated; False when somebody
    else is at it.

    Nothing that was seen before the turn was taken counts: another may just have put it right.
    """
    me = ObjectId()

    def is_my_turn() -> Operation[bool]:
        return _take_turn(me)

    if not (yield from is_my_turn()):
        return False
    for name in names:
        try:
            yield from _replace(name, is_my_turn, mended)
        except NotPermitted as error:
            mended.failed[f"{name}: its old indexes"] = error
    yield update_one(
        CLUSTER, {"_id": SCHEMA, "turn": me}, {"$unset": {"turn": "", "turn_until": ""}}
    )
    return True


def _replace(
    name: str, is_my_turn: Callable[[], Operation[bool]], mended: Mended
) -> Operation[None]:
    for index, in_place in (yield from indexes.look(name)).blocked:
        failed = yield from indexes.replace(name, index, in_place, is_my_turn)
        _note(name, [str(index["name"])], failed, mended)
    standing = yield from indexes.look(name)
    if standing.missing or standing.blocked:
        return  # the old one is still needed
    for old in standing.outdated:
        if (yield from is_my_turn()):
            yield from indexes.drop(name, old)
            mended.made.append(f"{name} without {old}")


def _take_turn(me: ObjectId) -> Operation[bool]:
    """Be the only one who drops indexes, for a minute from now; False when another is."""
    with contextlib.suppress(DuplicateKey):
        yield update_one(CLUSTER, {"_id": SCHEMA}, {"$setOnInsert": {"turn": None}}, upsert=True)
    is_over = {"$expr": {"$lt": ["$turn_until", "$$NOW"]}}
    free = {"_id": SCHEMA, "$or": [{"turn": None}, {"turn": me}, is_over]}
    taken = [{"$set": {"turn": me, "turn_until": {"$add": ["$$NOW", round(TURN_FOR * 1000)]}}}]
    answer = yield update_one(CLUSTER, free, taken, repeats=True)
    return bool(answer.matched_count)


def _mend_bell(found: Mapping[str, Any] | None) -> Operation[bool]:
    """Whoever rings where there is no bell makes an ordinary collection, which grows and at which
    nobody can listen."""
    if found is None:
        if (yield from _make(SON([("create", BELL), ("capped", True), ("size", BELL_SIZE)]))):
            return True
        found = (yield from _describe([BELL])).get(BELL)
    if found is None or _is_bell(found):
        return False
    yield command(SON([("convertToCapped", BELL), ("size", BELL_SIZE)]))
    return True


def _is_bell(found: Mapping[str, Any]) -> bool:
    return bool(found.get("options", {}).get("capped"))


def _make(creation: SON[str, Any]) -> Operation[bool]:
    """Create a collection; False when somebody was quicker."""
    try:
        yield Call("", "command", (creation,))
    except StoreError as error:
        if "already exists" not in str(error):
            raise
        return False
    return True


def _mend_samples(found: Mapping[str, Any] | None) -> Operation[bool]:
    """A collection of that name that is no time series is somebody else's, and stays as it is.

    Unless it has samples only: then the time series was dropped, and the next sample made an
    ordinary collection.
    """
    if found is not None and found["type"] == "collection":
        if not (yield from _has_samples_only()):
            return False
        yield command(SON([("drop", SAMPLES)]))
        found = None
    if found is None:
        series = {"timeField": "at", "metaField": "node", "granularity": "seconds"}
        creation = SON(
            [("create", SAMPLES), ("timeseries", series), ("expireAfterSeconds", SAMPLES_KEPT)]
        )
        return (yield from _make(creation))
    if found["options"].get("expireAfterSeconds") != SAMPLES_KEPT:
        yield command(SON([("collMod", SAMPLES), ("expireAfterSeconds", SAMPLES_KEPT)]))
        return True
    return False


def _has_samples_only() -> Operation[bool]:
    some = yield find_one(SAMPLES, {})
    other = yield find_one(
        SAMPLES, {"$nor": [{"at": {"$type": "date"}, "node.id": {"$type": "string"}}]}
    )
    return some is not None and other is None


def _describe(names: Iterable[str]) -> Operation[dict[str, dict[str, Any]]]:
    answer = yield command(
        SON([("listCollections", 1), ("filter", {"name": {"$in": list(names)}})])
    )
    return {str(one["name"]): one for one in answer["cursor"]["firstBatch"]}


def keeps_samples() -> Operation[bool]:
    """Whether samples have a place. An insert into none would make an ordinary collection, which
    nothing expires."""
    found = (yield from _describe([SAMPLES])).get(SAMPLES)
    return found is not None and found["type"] == "timeseries"


def missing_indexes() -> Operation[list[str]]:
    """What no node works without, as collection.index; of those on demand it lives without any."""
    missing: list[str] = []
    for name, always in INDEXES.items():
        standing = yield from indexes.look(name)
        missing += [
            f"{name}.{index['name']}"
            for index in standing.missing
            if index in always and index["name"] not in standing.superseded
        ]
    return missing


def index_faults(names: Iterable[str] = INDEXES) -> Operation[list[str]]:
    """Indexes that are missing, not as they should be, or no longer wanted."""
    faults: list[str] = []
    for name in names:
        standing = yield from indexes.look(name)
        faults += [f"{name}.{index['name']} is missing" for index in standing.missing]
        faults += [f"{name}.{index['name']} is different" for index, _ in standing.blocked]
        faults += [f"{name}.{old} is outdated" for old in standing.outdated]
    return faults


def collection_faults() -> Operation[list[str]]:
    """Collections that are missing, or have another validator, or are not of their kind. One
    call."""
    there = yield from _describe(COLLECTIONS)
    faults = [f"{name} is missing" for name in COLLECTIONS if name not in there]
    faults += [
        f"{name} has another validator"
        for name in INDEXES
        if name in there and not _has_rules(name, there[name])
    ]
    if SAMPLES in there and there[SAMPLES]["type"] != "timeseries":
        faults.append(f"{SAMPLES} is no time series")
    if BELL in there and not _is_bell(there[BELL]):
        faults.append(f"{BELL} is not capped")
    return faults


def faults() -> Operation[list[str]]:
    """All that `mend` would look after."""
    return [*(yield from collection_faults()), *(yield from index_faults())]
