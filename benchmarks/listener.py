"""The bare loop's other half: hear of a job, claim it, say when. `python -m benchmarks.listener URI DATABASE TRACES`.

Two calls with the synchronous driver and nothing else, no lease, no worker: what a job's start takes at least.
"""

from __future__ import annotations

import sys
from pathlib import Path

import bson
from pymongo.cursor import CursorType

from tontine.config import StoreConfig
from tontine.store import claim
from tontine.store.connect import open_store
from tontine.store.schema import BELL

from .peers import wire

READY = "listening"
TASK = "nap.ping"
_QUIET_MS = 5000


def listen(uri: str, database: str, traces: Path) -> None:
    """For ever."""
    store = open_store(StoreConfig(uri, database))
    bell = store.database[BELL]
    bell.insert_one({})  # an empty one cannot be listened at
    tail = bell.find({}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(_QUIET_MS)
    next(tail)
    print(READY, flush=True)
    while True:
        for news in tail:
            if "first" not in news:
                continue
            job = None
            while job is None:  # it rings before the job is there
                job = store.run(claim.claim_announced("bare", news["first"], [TASK]))
            wire.stamp(bson.decode(job.raw)["args"]["sent"], traces)


if __name__ == "__main__":
    listen(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
