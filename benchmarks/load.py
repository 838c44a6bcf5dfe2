"""Changes at a steady rate on a real MongoDB: `python -m benchmarks.load URI DATABASE RATE
SECONDS`.

Three changes a job, as nodes make them: inserted, claimed, settled. With fifty nodes that beat
every two seconds.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Any

from bson import Int64
from pymongo import MongoClient, UpdateOne, WriteConcern

from tontine.store import schema
from tontine.store.call import Store

NODES = 50
STEP = 0.1
MOST = 1000
LEASE = 20.0


def prepare(store: Store) -> None:
    """The collections, a roster, and the records of its nodes."""
    store.run(schema.init())
    names = [f"node-{number:02}" for number in range(NODES)]
    now = datetime.now(UTC)
    store.database.nodes.insert_many([_record(name, rank, now) for rank, name in enumerate(names)])
    store.database.cluster.update_one(
        {"_id": "roster"}, {"$set": {"epoch": 1, "members": names}}, upsert=True
    )


def _record(name: str, rank: int, now: datetime) -> dict[str, Any]:
    return {
        "_id": name,
        "name": name,
        "state": "working",
        "desired": "running",
        "host": f"host-{rank % 7}",
        "pid": rank,
        "version": "0.1.0",
        "lease": LEASE,
        "slots": 4,
        "running": 2,
        "beat": 0,
        "tick": 0,
        "started_at": now,
        "share": {"epoch": 1, "rank": rank, "size": NODES},
        "modules": [{"name": "load", "version": "1", "tasks": ["load.job"]}],
        "metrics": {"done": 0, "failed": 0, "cpu": 0.5, "memory": 50_000_000},
    }


def run(store: Store, rate: float, seconds: float) -> int:
    """Make `rate` changes of jobs a second, catching up when it was slow; how many were made."""
    # Nothing waits for these writes to be safe: the load shall cost the server as little as it can.
    jobs = store.database.jobs.with_options(write_concern=WriteConcern(w=1, j=False))
    began, made, step = time.monotonic(), 0, 0
    seq = 1 + int((jobs.find_one(sort=[("seq", -1)]) or {"seq": 0})["seq"])
    while (passed := time.monotonic() - began) < seconds:
        count = min(MOST, round(rate * (passed + STEP) / 3) - made)
        if count > 0:
            _make(
                jobs,
                [Int64(number) for number in range(seq, seq + count)],
                f"node-{step % NODES:02}",
            )
        seq, made, step = seq + max(0, count), made + max(0, count), step + 1
        if step % 20 == 0:
            _beat(store, made)
        time.sleep(max(0.0, step * STEP - (time.monotonic() - began)))
    return 3 * made


def _make(jobs: Any, seqs: list[Int64], node: str) -> None:
    """Some jobs' whole lives: three changes each."""
    now = datetime.now(UTC)
    jobs.insert_many([_job(number, now) for number in seqs])
    jobs.update_many(
        {"seq": {"$in": seqs}}, {"$set": {"state": "working", "node": node, "attempt": 1}}
    )
    done = {"state": "done", "result": {"ok": True}, "finished_at": "$$NOW", "started_at": "$$NOW"}
    jobs.update_many({"seq": {"$in": seqs}}, [{"$set": done}])


def _job(seq: int, now: datetime) -> dict[str, Any]:
    job = {
        "seq": seq,
        "task": "load.job",
        "args": {"text": "x" * 300},
        "state": "queued",
        "created_at": now,
    }
    return {**job, "attempt": 0, "fails": 0, "lost": 0}


def _beat(store: Store, done: int) -> None:
    beat = {
        "beat": {"$add": ["$beat", 1]},
        "tick": {"$add": ["$tick", 7]},
        "metrics.done": done // NODES,
        "lease_until": {"$add": ["$$NOW", round(LEASE * 1000)]},
    }
    store.database.nodes.bulk_write(
        [UpdateOne({"_id": f"node-{n:02}"}, [{"$set": beat}]) for n in range(NODES)]
    )


def main() -> None:
    uri, database, rate, seconds = sys.argv[1:]
    with MongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        store = Store(client[database])
        if store.database.nodes.count_documents({}) == 0:
            prepare(store)
        print(run(store, float(rate), float(seconds)))


if __name__ == "__main__":
    main()
