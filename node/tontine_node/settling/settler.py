"""(5) Outcomes -> settle: in batches that grow with the load, repeated until the store answers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from tontine.errors import NotPermitted, StoreError, StoreUnavailable, TooLarge, Unstorable
from tontine.records.job import JobError
from tontine.records.plan import PlanPlace
from tontine.records.task_key import name_of
from tontine.store import settle
from tontine.store.call import AsyncStore, Causal
from tontine.store.plans.more import has_more
from tontine.store.retention import Retention
from tontine.store.settle import Outcome, Settled

from ..claims import Claims, Entry
from ..telling.journal import Journal
from ..telling.troubles import Troubles
from .tally import Tally

log = logging.getLogger(__name__)

JOBS_AT_ONCE = 500
BYTES_AT_ONCE = 4 * 1024 * 1024
PUT_OFF_AT_MOST = 60.0
TRIES = 3
REFUSED_AT_MOST = 3
"""Outcomes of one batch that may be at fault themselves; more of them are the server's."""


class Settler:
    """The settle loop of one node. What it has taken it keeps until the store has accepted or
    refused it (J3, J4)."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        claims: Claims,
        retention: Callable[[], Retention],
        troubles: Troubles,
    ) -> None:
        self.node = node
        self.journal: Journal | None = None
        self.keep_lines: Callable[[], Awaitable[None]] = _nothing
        """Stores what tasks have printed."""
        self.back_in_queue: Callable[[float], None] = lambda _: None
        """Hears that a job will run again, in so many seconds."""
        self.advance: Callable[[PlanPlace, Outcome], None] = lambda _, __: None
        """Hears of every settlement of a plan's job that was accepted (PL6)."""
        self.advanced: Callable[[], Awaitable[None]] = _nothing
        """Waits until what follows from these is done."""
        self.causal = Causal()
        """How far plans have to see the store (PL0)."""
        self.done = 0
        self.failed = 0
        self.retried = 0
        self.dropped = 0
        self.tally = Tally()
        self._store = store
        self._claims = claims
        self._retention = retention
        self._troubles = troubles
        self._waiting: deque[Outcome] = deque()
        self._accepted = 0
        self._tries: dict[int, tuple[int, int]] = {}
        """How often an outcome was put off, and how many others had been accepted before the first
        time."""
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()

    def add(self, outcome: Outcome) -> None:
        if outcome.kind == "done" and self._place_of(outcome) and has_more(outcome.result):
            outcome.more, outcome.clean = True, False  # steps do not go with plain results
        self._waiting.append(outcome)
        self._none.clear()
        self._some.set()

    def metrics(self) -> dict[str, Any]:
        """What the node's record says of its jobs since its start."""
        return {
            "done": self.done,
            "failed": self.failed,
            "retried": self.retried,
            "dropped": self.dropped,
            **self.tally.metrics(),
        }

    async def drained(self) -> None:
        """Wait until nothing is left to settle."""
        await self._none.wait()
        await self.advanced()

    async def run(self) -> None:
        """Settle for ever; an outage only makes the batches larger."""
        pause = 0.1
        while True:
            await self._some.wait()
            batch = self._next_batch()
            try:
                await (
                    self.keep_lines()
                )  # first: whoever sees that a job has ended can read all that it printed
                await self._settle(batch)
                self._is_well()
                pause = 0.1
            except Exception as error:  # noqa: BLE001 - whatever it was, these outcomes are not settled yet
                self._troubles.note("settling", error)
                mine = [one for one in batch if self._is_mine(one)]
                if isinstance(error, StoreUnavailable | NotPermitted):
                    self._waiting.extendleft(reversed(mine))
                else:  # what is wrong with one of these must not stand before all others
                    self._waiting.extend(mine)
                log.warning(
                    "settling failed", extra={"event": "settle-failed", "error": f"{error}"}
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)
            if not self._waiting:
                self._is_well()  # what failed may also have been taken away from this node
                self._some.clear()
                self._none.set()

    def _is_well(self) -> None:
        if not self._tries:
            self._troubles.over("settling")

    def _next_batch(self) -> list[Outcome]:
        """The next outcomes that can go together: plain successes of one attempt number, or any
        others."""
        first = self._waiting.popleft()
        batch, kind, size = [first], _group(first), len(first.result)
        others: list[Outcome] = []
        while (
            self._waiting
            and len(batch) < JOBS_AT_ONCE
            and size < BYTES_AT_ONCE
            and len(others) < JOBS_AT_ONCE
        ):
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
        except (StoreUnavailable, NotPermitted):
            raise
        except StoreError as error:
            await self._settle_apart(batch, error)
            return
        self._conclude(batch, settled)

    def _conclude(self, batch: Sequence[Outcome], settled: Settled) -> None:
        self._accepted += len(settled.accepted)
        if settled.dropped:
            self.dropped += len(settled.dropped)
            log.warning(
                "results were refused",
                extra={"event": "dropped", "seqs": sorted(settled.dropped)[:20]},
            )
        news: list[tuple[Outcome, Entry | None]] = []
        tells_all = self.journal is not None and self.journal.is_thorough
        for one in batch:
            if one.seq in settled.accepted:
                self._count(one)
                if one.kind != "done" or tells_all:
                    news.append((one, self._claims.get(one.seq)))
                if place := self._place_of(one):
                    self.advance(place, one)
            if one.seq in settled.accepted or one.seq in settled.dropped:
                self._claims.drop(one.seq)
                self._tries.pop(one.seq, None)
            else:
                self.add(one)
        self._tell(news)

    async def _settle_apart(self, batch: Sequence[Outcome], error: StoreError) -> None:
        """One of these is not taken, and would not be the next time: find it, and let the others go
        on."""
        if len(batch) == 1:
            await self._settle_otherwise(batch[0], error)
        elif isinstance(error, Unstorable):
            middle = len(batch) // 2
            await self._settle(batch[:middle])
            await self._settle(batch[middle:])
        else:
            await self._settle_each(batch)

    async def _settle_each(self, batch: Sequence[Outcome]) -> None:
        """The answer may be about one of them, or about the server, which may take them all a
        moment later."""
        refused = []
        for one in batch:
            try:
                self._conclude([one], await self._send([one]))
            except (StoreUnavailable, NotPermitted):
                raise
            except StoreError as error:
                refused.append((one, error))
                if len(refused) > REFUSED_AT_MOST:
                    raise
        for one, why in refused:
            await self._settle_otherwise(one, why)

    async def _settle_otherwise(self, one: Outcome, error: StoreError) -> None:
        """What cannot be stored is stored as a failure that can; what the server just does not take
        is put off."""
        is_about_it = isinstance(error, Unstorable) or self._is_alone_in_it(one)
        if is_about_it and (smaller := _smaller(one, error)) is not None:
            log.warning(
                "an outcome cannot be stored", extra={"event": "unstorable", "seq": one.seq}
            )
            await self._settle([smaller])
        else:
            self._put_off(one, error)

    def _is_alone_in_it(self, one: Outcome) -> bool:
        """Whether it was refused again and again while others were accepted."""
        tries, accepted = self._tries.get(one.seq, (0, 0))
        return tries >= TRIES and self._accepted > accepted

    def _put_off(self, one: Outcome, error: StoreError) -> None:
        """Whatever keeps it from being stored, others do not wait for it."""
        tries, accepted = self._tries.get(one.seq, (0, self._accepted))
        tries += 1
        self._tries[one.seq] = tries, accepted
        self._troubles.note("settling", f"job {one.seq}: {error}")
        log.warning(
            "an outcome is put off", extra={"event": "put-off", "seq": one.seq, "error": str(error)}
        )
        asyncio.get_running_loop().call_later(
            min(2.0**tries, PUT_OFF_AT_MOST), self._add_again, one
        )

    def _add_again(self, one: Outcome) -> None:
        if self._is_mine(one):
            self.add(one)
        else:
            self._tries.pop(one.seq, None)

    async def _send(self, batch: Sequence[Outcome]) -> Settled:
        if _group(batch[0]) is not None:
            results = {one.seq: one.result for one in batch}
            counted = any(one.noted is not None for one in batch)
            steps = settle.settle_done(
                self.node, batch[0].attempt, results, self._retention(), are_counted=counted
            )
        else:
            steps = settle.settle_each(self.node, batch, self._retention())
        is_planned = self._claims.planned and any(self._place_of(one) for one in batch)
        return await self._store.run(steps, causal=self.causal if is_planned else False)

    def _place_of(self, one: Outcome) -> PlanPlace | None:
        if not self._claims.planned or (entry := self._claims.get(one.seq)) is None:
            return None
        return entry.place

    def _is_mine(self, one: Outcome) -> bool:
        return self._claims.licensed(one.seq, one.attempt)

    def _tell(self, news: Sequence[tuple[Outcome, Entry | None]]) -> None:
        """Last: a line that cannot be written must not keep in the table what is settled, nor any
        other from it."""
        for one, entry in news:
            if self.journal is not None and entry is not None:
                self.journal.note(one, entry)

    def _count(self, one: Outcome) -> None:
        if one.kind == "done":
            self.done += 1
            if one.noted is not None and (entry := self._claims.get(one.seq)) is not None:
                self.tally.add(name_of(entry.task), one.noted)
            return
        self.failed += one.kind in ("failed", "refused")
        self.retried += one.kind == "retry"
        if one.kind in ("retry", *settle.GIVEN_BACK):
            self.back_in_queue(one.delay)


async def _nothing() -> None: ...


def _group(one: Outcome) -> int | None:
    """Clean successes of one attempt number can be settled by one update, unless they had said how
    far they are."""
    is_plain = one.kind == "done" and one.clean and one.progress is None and one.saved is None
    return one.attempt if is_plain else None


def _smaller(one: Outcome, error: StoreError) -> Outcome | None:
    """What to store instead: why its outcome is not there; then the same without what else the job
    has."""
    if one.bare:
        return None
    if one.kind == "refused":
        return replace(one, bare=True)
    kind = "ResultTooLarge" if isinstance(error, TooLarge) else "UnstorableResult"
    what = "the result" if one.kind == "done" else f"its outcome ({one.kind})"
    text = f"{what} cannot be stored beside the job's other fields: {error}"
    return Outcome("refused", one.seq, one.attempt, one.ran, error=JobError(kind, text))
