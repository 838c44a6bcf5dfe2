"""Results that tasks stream, the master's side: it reads them for its workers, a page at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tontine.clock import Clock
from tontine.errors import ClaimLost, StoreError, StoreUnavailable
from tontine.store.call import AsyncStore
from tontine.store.plans.values import read_page
from tontine.verdict import printable

from ..claims import Entry
from ..telling.troubles import Troubles
from .pipe import Orders, PageAnswer, PageWanted
from .workload import Workload

AT_ONCE = 4
"""Pages of all workers that are read at a time: that many are in memory here, whoever waits."""
REFUSED_FOR = 60.0
"""Seconds for which a read that the server refuses is tried again."""
_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class PageReader:
    """Of one node, over all of its workers."""

    def __init__(self, store: AsyncStore, clock: Clock, troubles: Troubles) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._store = store
        self._clock = clock
        self._troubles = troubles
        self._turn = asyncio.Semaphore(AT_ONCE)

    def take(self, workload: Workload, pages: Sequence[PageWanted]) -> None:
        """A worker's tasks want pages."""
        for wanted in pages:
            task = asyncio.create_task(self._serve(workload, wanted))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _serve(self, workload: Workload, wanted: PageWanted) -> None:
        """Read it, until the store has answered or the job is this worker's no more."""
        begun, pause = self._clock.now(), _PAUSE
        while (entry := _running(workload, wanted)) is not None:
            try:
                async with self._turn:
                    await self._read(workload, entry, wanted)
            except StoreError as error:
                is_refused = not isinstance(error, StoreUnavailable)
                if is_refused and self._clock.now() - begun > REFUSED_FOR:
                    _refuse(workload, wanted, error)
                    return
                self._troubles.note("streams", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._troubles.over("streams")
                return
        _refuse(workload, wanted, ClaimLost(wanted.seq, wanted.attempt))

    async def _read(self, workload: Workload, entry: Entry, wanted: PageWanted) -> None:
        plan = entry.place.seq if entry.place else 0
        reading = read_page(plan, wanted.step, wanted.first, wanted.at_most)
        # It was claimed after all of them had ended.
        jobs = await self._store.run(reading, causal=entry.seen or True)
        workload.child.send(Orders(pages=[PageAnswer(wanted.number, None, jobs)]))


def _running(workload: Workload, wanted: PageWanted) -> Entry | None:
    """The job that wants it, while that is this worker's."""
    entry = workload.sent.get(wanted.seq)
    return entry if entry is not None and entry.attempt == wanted.attempt else None


def _refuse(workload: Workload, wanted: PageWanted, error: Exception) -> None:
    why = (type(error).__name__, printable(str(error)))
    workload.child.send(Orders(pages=[PageAnswer(wanted.number, why, b"")]))
