"""(5) Outcomes -> settle: in batches that grow with the load, repeated until the store answers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from tontine.errors import TooLarge, Unstorable
from tontine.job import JobError
from tontine.store import settle
from tontine.store.call import AsyncStore
from tontine.store.retention import Retention
from tontine.store.settle import Outcome, Settled

from .table import Table
from .troubles import Troubles

log = logging.getLogger(__name__)

JOBS_AT_ONCE = 500
BYTES_AT_ONCE = 4 * 1024 * 1024


class Settler:
    """The settle loop of one node. What it has taken it keeps until the store has accepted or refused it (J3, J4)."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        table: Table,
        retention: Callable[[], Retention],
        back_in_queue: Callable[[float], None],
        keep_lines: Callable[[], Awaitable[None]],
        troubles: Troubles,
    ) -> None:
        self.node = node
        self.done = 0
        self.failed = 0
        self.retried = 0
        self.dropped = 0
        self._store = store
        self._table = table
        self._retention = retention
        self._back_in_queue = back_in_queue
        self._keep_lines = keep_lines
        self._troubles = troubles
        self._waiting: deque[Outcome] = deque()
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()

    def add(self, outcome: Outcome) -> None:
        self._waiting.append(outcome)
        self._none.clear()
        self._some.set()

    async def drained(self) -> None:
        """Wait until nothing is left to settle."""
        await self._none.wait()

    async def run(self) -> None:
        """Settle for ever; an outage only makes the batches larger."""
        pause = 0.1
        while True:
            await self._some.wait()
            batch = self._next_batch()
            try:
                await self._keep_lines()  # first: whoever sees that a job has ended can read all that it printed
                await self._settle(batch)
                self._troubles.over("settling")
                pause = 0.1
            except Exception as error:  # noqa: BLE001 - whatever it was, these outcomes are not settled yet
                self._troubles.note("settling", error)
                self._waiting.extendleft(reversed([one for one in batch if self._is_mine(one)]))
                log.warning("settling failed", extra={"event": "settle-failed", "error": f"{error}"})
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)
            if not self._waiting:
                self._troubles.over("settling")  # what failed may also have been taken away from this node
                self._some.clear()
                self._none.set()

    def _next_batch(self) -> list[Outcome]:
        """The next outcomes that can go together: plain successes of one attempt number, or any others."""
        first = self._waiting.popleft()
        batch, kind, size = [first], _group(first), len(first.result)
        others: list[Outcome] = []
        while self._waiting and len(batch) < JOBS_AT_ONCE and size < BYTES_AT_ONCE and len(others) < JOBS_AT_ONCE:
            one = self._waiting.popleft()
            if _group(one) == kind:
                batch.append(one)
                size += len(one.result)
            else:
                others.append(one)
        self._waiting.extendleft(reversed(others))
        return batch

    async def _settle(self, batch: Sequence[Outcome]) -> None:
        try:
            settled = await self._send(batch)
        except Unstorable as error:
            # One outcome that cannot be stored must not hold up the others: find it by sending each alone.
            if len(batch) > 1:
                for one in batch:
                    await self._settle([one])
                return
            batch = [_unstorable(batch[0], error)]
            settled = await self._send(batch)
        if settled.dropped:
            self.dropped += len(settled.dropped)
            log.warning("results were refused", extra={"event": "dropped", "seqs": sorted(settled.dropped)[:20]})
        for one in batch:
            if one.seq in settled.accepted:
                self._count(one)
            if one.seq in settled.accepted or one.seq in settled.dropped:
                self._table.drop(one.seq)
            else:
                self.add(one)

    async def _send(self, batch: Sequence[Outcome]) -> Settled:
        if _group(batch[0]) is not None:
            results = {one.seq: one.result for one in batch}
            return await self._store.run(settle.settle_done(self.node, batch[0].attempt, results, self._retention()))
        return await self._store.run(settle.settle_each(self.node, batch, self._retention()))

    def _is_mine(self, one: Outcome) -> bool:
        return self._table.licensed(one.seq, one.attempt)

    def _count(self, one: Outcome) -> None:
        self.done += one.kind == "done"
        self.failed += one.kind in ("failed", "refused")
        self.retried += one.kind == "retry"
        if one.kind in ("retry", "released", "lost"):
            self._back_in_queue(one.delay)


def _group(one: Outcome) -> int | None:
    """Clean successes of one attempt number can be settled by one update."""
    return one.attempt if one.kind == "done" and one.clean else None


def _unstorable(one: Outcome, error: Unstorable) -> Outcome:
    kind = "ResultTooLarge" if isinstance(error, TooLarge) else "UnstorableResult"
    text = f"the result cannot be stored beside the job's other fields: {error}"
    return Outcome("refused", one.seq, one.attempt, one.ran, error=JobError(kind, text))
