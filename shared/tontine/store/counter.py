"""(2) The counter: whoever takes numbers gets a block that nobody else has (F1).

Where it was lost or set back, it goes on behind the highest number that any record has.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bson import Int64
from pymongo import ReturnDocument

from ..clock import Clock, SystemClock
from ..errors import DuplicateKey, StoreError, StoreUnavailable
from ..records.job import LAST_SEQ, is_whole
from .call import Operation, find_one, find_one_and_update
from .names import CLUSTER, COUNTER, JOBS, LOGS, PLANS
from .ranges import Noted

GOOD_FOR = 0.5
"""Seconds. A number used much later would arrive behind the nodes' cursors, and wait until they
look back."""
TAKEN_AT_MOST = 32
_TRIES = 5
# Somebody may write any number. One that is believed must leave room to count on, and one in use is
# believed less far than the counter itself: otherwise the last that is believed would be the last
# that is ever given.
_USED_BELOW, _GIVEN_BELOW = LAST_SEQ // 2, LAST_SEQ // 4 * 3
# A condition on a list is true if it is of any part of it.
_NO_LIST = {"$not": {"$type": "array"}}
_SOUND = {"$type": ["int", "long", "double"], "$gte": 0, "$lt": _GIVEN_BELOW, **_NO_LIST}


@dataclass(frozen=True, slots=True)
class Block:
    """Numbers that nobody else has, and the server's time when they were taken."""

    first: int
    count: int
    at: datetime

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def __iter__(self) -> Iterator[Int64]:
        return (Int64(seq) for seq in range(self.first, self.first + self.count))


def counted(document: Mapping[str, Any] | None) -> int:
    """The last number given, as the counter's document has it; 0 when it says nothing of the
    kind."""
    seq = (document or {}).get("seq")
    return int(seq) if is_whole(seq) and 0 <= seq < _GIVEN_BELOW else 0


def take(count: int) -> Operation[Block]:
    """A block of new numbers (F1). Taking one twice after an unknown outcome only leaves a hole."""
    statement = find_one_and_update(
        CLUSTER,
        {"_id": COUNTER, "seq": _SOUND},
        [{"$set": {"seq": {"$toLong": {"$add": ["$seq", count]}}, "at": "$$NOW"}}],
        return_document=ReturnDocument.AFTER,
        projection={"seq": 1, "at": 1},
        repeats=True,
    )
    for _ in range(_TRIES):
        counter = yield statement
        if counter is not None:
            return Block(int(counter["seq"]) - count + 1, count, counter["at"])
        yield from raise_counter()  # there is none yet, or it is no number any more
    raise StoreError("there is no counter to take numbers from, and none can be made")


def raise_counter(known: int = 0) -> Operation[int]:
    """Put the counter past every number in use, and past what the caller has seen; where it stands
    now.

    Lines of a job that is no longer kept count, too: they must not become another job's.
    """
    highest = known if known < _USED_BELOW else 0
    for collection, hint in ((JOBS, "seq"), (LOGS, "attempt"), (PLANS, "seq")):
        highest = max(highest, (yield from _highest(collection, hint)))
    is_sound = {
        "$and": [{"$isNumber": "$seq"}, {"$gte": ["$seq", 0]}, {"$lt": ["$seq", _GIVEN_BELOW]}]
    }
    stands = {"$cond": [is_sound, "$seq", 0]}
    update = [{"$set": {"seq": {"$toLong": {"$max": [stands, Int64(highest)]}}, "at": "$$NOW"}}]
    statement = find_one_and_update(
        CLUSTER,
        {"_id": COUNTER},
        update,
        upsert=True,
        return_document=ReturnDocument.AFTER,
        projection={"seq": 1},
        repeats=True,
    )
    try:
        counter = yield statement
    except DuplicateKey:  # two first producers at once: the document is there now
        counter = yield statement
    return int(counter["seq"])


def _highest(collection: str, hint: str) -> Operation[int]:
    options: dict[str, Any] = {"projection": {"_id": 0, "seq": 1}, "sort": [("seq", -1)]}
    used = {"seq": {"$gte": 0, "$lt": _USED_BELOW, **_NO_LIST}}
    found = None
    for how in (
        {"hint": hint},
        {},
    ):  # without the index it takes longer, and must be known all the same
        try:
            found = yield find_one(collection, used, **options, **how)
            break
        except StoreUnavailable:
            raise
        except StoreError:
            continue  # no such index; or no right to look there, and then others have to
    return int(found["seq"]) if found else 0


class Reserve:
    """Numbers that a producer of single jobs has taken ahead, so that it need not wait for the
    counter each time.

    It takes more at a time while they are used up quickly; those left over become holes.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.noted = Noted(self._clock)
        """Which ranges of versions it has noted."""
        self._lock = threading.Lock()
        self._block: Block | None = None
        self._used = 0
        self._taken_at = float("-inf")
        self._process = os.getpid()

    def take_one(self) -> Operation[Block]:
        """One number, and the server's time."""
        asked = self._clock.now()
        with self._lock:
            one = self._next(asked)
            if one is not None:
                return one
            count = self._how_many(asked)
        block = yield from take(count)
        with self._lock:
            self._block, self._used, self._taken_at, self._process = block, 1, asked, os.getpid()
        return Block(block.first, 1, block.at)

    def forget(self) -> None:
        """These numbers turned out to be others' already."""
        with self._lock:
            self._block = None

    def _next(self, now: float) -> Block | None:
        block = self._block
        if block is None or self._used == block.count or not self._is_good(now):
            return None
        self._used += 1
        return Block(
            block.first + self._used - 1, 1, block.at + timedelta(seconds=now - self._taken_at)
        )

    def _is_good(self, now: float) -> bool:
        """A process that was forked has its parent's numbers, which are the parent's."""
        return now - self._taken_at <= GOOD_FOR and os.getpid() == self._process

    def _how_many(self, now: float) -> int:
        if self._block is None or not self._is_good(now):
            return 1
        return min(2 * self._block.count, TAKEN_AT_MOST)
