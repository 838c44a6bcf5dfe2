"""The bare loop's other half: hear of a job, claim it, say when. `python -m benchmarks.hearing URI
DATABASE TRACES`.

Two calls with the synchronous driver and nothing else, no lease, no worker: what a job's start
takes at least.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import bson
from pymongo.cursor import CursorType

from tontine.config import StoreConfig
from tontine.store import claim
from tontine.store.connect import open_store
from tontine.store.names import BELL

from .peers import wire

READY = "listening"
TASK = "nap.ping"
_QUIET_MS = 5000
_AGAIN = 0.0005


def hear(uri: str, database: str, traces: Path) -> None:
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
            job = store.run(claim.claim_announced("bare", news["first"], [TASK]))
            while job is None:  # it rings before the job is there
                time.sleep(_AGAIN)
                job = store.run(claim.claim_announced("bare", news["first"], [TASK]))
            wire.stamp(bson.decode(job.raw)["args"]["sent"], traces)


if __name__ == "__main__":
    hear(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
