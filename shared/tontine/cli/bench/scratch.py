"""The throw-away database of `tontine bench`: who may have it, what is read from it, and its
end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson.son import SON

from ...errors import ConfigError, DuplicateKey, NotPermitted
from ...records.states import JobState
from ...store.call import Operation, command, delete_many, find_one, insert_one, update_one
from ...store.names import CLUSTER, JOBS
from ...store.schema import COLLECTIONS

MARK = "bench"

_COUNTED = ("insert", "query", "update", "delete", "getmore", "command")


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that measures in a database."""

    host: str
    pid: int

    def document(self) -> dict[str, Any]:
        return {"host": self.host, "pid": self.pid}


@dataclass(frozen=True, slots=True)
class Throughput:
    """When jobs were settled: how many in all and by the first settlement, and the first and last
    server times."""

    settled: int
    at_first: int
    first: datetime | None
    last: datetime | None


def refuse_foreign(tasks: Sequence[str]) -> Operation[list[str]]:
    """Refuse a database with anything in it that is not ours, since it will be dropped; its
    collections."""
    answer = yield command(SON([("listCollections", 1), ("nameOnly", True)]))
    names = [str(one["name"]) for one in answer["cursor"]["firstBatch"]]
    if not names:
        return names
    if (yield find_one(CLUSTER, {"_id": MARK})) is None:
        raise ConfigError(
            "this database was not made by bench, which drops what it uses: choose another "
            "--database"
        )
    others = sorted(
        name for name in names if name not in COLLECTIONS and not name.startswith("system.")
    )
    if others:
        raise ConfigError(
            f"this database has other collections ({', '.join(others)}): choose another --database"
        )
    if (yield find_one(JOBS, {"task": {"$nin": list(tasks)}}, projection={"_id": 1})) is not None:
        raise ConfigError(
            "this database has jobs that bench did not make: choose another --database"
        )
    return names


def take_over(
    owner: Owner, names: Sequence[str], is_alive: Callable[[Mapping[str, Any]], bool]
) -> Operation[None]:
    """Mark the database as the owner's, and remove what an earlier bench has left there."""
    try:
        yield insert_one(CLUSTER, {"_id": MARK, **owner.document()})
    except DuplicateKey:
        before = yield find_one(CLUSTER, {"_id": MARK})
        taken = None
        if before is not None and not is_alive(before):
            taken = yield update_one(CLUSTER, before, {"$set": owner.document()})
        if taken is None or not taken.matched_count:
            other = (
                "another bench"
                if before is None
                else f"a bench with pid {before.get('pid')} on {before.get('host')}"
            )
            raise ConfigError(
                f"{other} measures in this database: wait, or choose another --database"
            ) from None
    for name in names:
        if name in COLLECTIONS and name != CLUSTER:
            yield command(SON([("drop", name)]))
    yield delete_many(CLUSTER, {"_id": {"$ne": MARK}}, repeats=True)


def leave() -> Operation[None]:
    """Keep the database, for the next bench to take over."""
    yield update_one(CLUSTER, {"_id": MARK}, {"$unset": {"host": "", "pid": ""}}, repeats=True)


def drop() -> Operation[None]:
    """The end of the whole database."""
    yield command(SON([("dropDatabase", 1), ("writeConcern", {"w": "majority"})]), within=60)


def is_held() -> Operation[bool]:
    """Whether any node holds any job."""
    where = {"state": JobState.WORKING.value, "node": {"$gt": ""}}
    return (yield find_one(JOBS, where, projection={"_id": 1}, hint="held")) is not None


def read_flow(first: int, last: int) -> Operation[Throughput]:
    """How the jobs numbered `first` to `last` were settled as done; one settlement writes one time
    into all of its."""
    answer = yield command(
        {
            "aggregate": JOBS,
            "pipeline": [
                {"$match": {"seq": {"$gte": first, "$lte": last}, "state": JobState.DONE.value}},
                {"$group": {"_id": "$finished_at", "jobs": {"$sum": 1}}},
                {"$sort": {"_id": 1}},
                {
                    "$group": {
                        "_id": None,
                        "settled": {"$sum": "$jobs"},
                        "at_first": {"$first": "$jobs"},
                        "first": {"$first": "$_id"},
                        "last": {"$last": "$_id"},
                    }
                },
            ],
            "cursor": {},
        },
        within=60,
    )
    found = answer["cursor"]["firstBatch"]
    if not found:
        return Throughput(0, 0, None, None)
    return Throughput(
        int(found[0]["settled"]), int(found[0]["at_first"]), found[0]["first"], found[0]["last"]
    )


def count_calls() -> Operation[int | None]:
    """How many operations the server has counted so far, of all its clients; None if we may not
    know."""
    try:
        status = yield command({"serverStatus": 1})
    except NotPermitted:
        return None
    counters = status.get("opcounters")
    return None if counters is None else sum(int(counters.get(name, 0)) for name in _COUNTED)
