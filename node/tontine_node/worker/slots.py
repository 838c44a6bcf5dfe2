"""The slots of a worker: threads that each run one job at a time, in the order in which the orders
came."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from tontine import verdict
from tontine.clock import Clock

from ..running.board import Board
from ..running.pipe import AttemptEnded, CountedDone, Report, Returned
from .counted import CountedEnd
from .lifeline import Lifeline
from .run import Runner


class Slots:
    """One worker's orders, and who carries them out."""

    def __init__(
        self,
        index: int,
        board: Board,
        clock: Clock,
        lifeline: Lifeline,
        runner: Runner,
        post: Callable[[Report], None],
    ) -> None:
        self.inbox: deque[tuple[int, bytes]] = deque()
        self._index = index
        self._board = board
        self._clock = clock
        self._lifeline = lifeline
        self._runner = runner
        self._post = post
        self._ordering = threading.Lock()
        """Held to change the inbox: orders are begun, or given back, in the order in which they
        came."""
        self._ordered = threading.Condition(self._ordering)

    def take(self, orders: Sequence[tuple[int, bytes]]) -> None:
        with self._ordering:
            self.inbox.extend(orders)
            self._ordered.notify(len(orders))

    def give_back(self) -> None:
        """Return the orders that no slot has begun."""
        with self._ordering:
            returned = [seq for seq, _ in self.inbox]
            self.inbox.clear()
        self._runner.desk.give_back(returned)
        self._post(Returned(returned))

    def serve(self, slot: int) -> None:
        """Run jobs for ever; the thread of one slot."""
        while True:
            seq, raw, begun = self.begin_next(slot)
            end = self._runner.run(seq, raw, begun)
            self._board.ended(self._index, slot)
            ran = self._clock.now() - begun
            if isinstance(end, bytes):
                self._post((seq, ran, verdict.with_time(end, ran)))
            elif isinstance(end, CountedEnd):
                body = verdict.with_time(end.result, ran)
                self._post(CountedDone(seq, ran, end.noted, body))
            else:
                self._post(AttemptEnded(seq, ran, end))

    def begin_next(self, slot: int) -> tuple[int, bytes, float]:
        """Take the next order and count it as begun, at once: so the begun ones are always the
        first that came."""
        with self._ordering:
            while not self.inbox:
                self._ordered.wait()
            seq, raw = self.inbox.popleft()
            begun = self._clock.now()
            self._lifeline.check_lease(begun)
            self._board.started(self._index, slot, seq, begun)
        return seq, raw, begun
