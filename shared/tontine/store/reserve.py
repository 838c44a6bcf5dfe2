"""(1) Numbers that a producer has taken ahead: a producer of single jobs need not wait for the counter each time."""

from __future__ import annotations

import os
import threading
from datetime import timedelta

from ..clock import Clock, SystemClock
from .call import Steps
from .counter import Block, take

GOOD_FOR = 0.5
"""Seconds. A number used much later would arrive behind the nodes' cursors, and wait until they look back."""
AT_MOST = 32


class Reserve:
    """One producer's numbers. It takes more at a time while they are used up quickly; those left over become holes."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._block: Block | None = None
        self._used = 0
        self._taken_at = float("-inf")
        self._process = os.getpid()

    def take_one(self) -> Steps[Block]:
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
        return Block(block.first + self._used - 1, 1, block.at + timedelta(seconds=now - self._taken_at))

    def _is_good(self, now: float) -> bool:
        """A process that was forked has its parent's numbers, which are the parent's."""
        return now - self._taken_at <= GOOD_FOR and os.getpid() == self._process

    def _how_many(self, now: float) -> int:
        if self._block is None or not self._is_good(now):
            return 1
        return min(2 * self._block.count, AT_MOST)
