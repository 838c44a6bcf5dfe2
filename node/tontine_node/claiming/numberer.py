"""(2) When to number: rank 0 at once, any other member what has been lying for longer than H."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tontine.clock import Clock
from tontine.config import Timing
from tontine.legible import legible
from tontine.lookalike import lookalikes, tell
from tontine.records.share import Share
from tontine.store import number
from tontine.store.call import AsyncStore
from tontine.store.raw import Raw

from ..duty import Duty, is_first
from ..loop import Loop, jittered
from ..lying import Lying, Stubborn, key_of
from ..telling.troubles import Troubles

log = logging.getLogger(__name__)

FIRST_EVERY, OTHERS_EVERY = 1.0, 5.0
"""Seconds between looks of the first member, and of a few that stand in for it. A producer may ring
the bell."""
SOON, SOON_FOR = 0.1, 60.0
"""Where one raw job came from, more come: for a minute the first member looks often."""


TRIES = 3
STUBBORN_AT_MOST = 500
TOLD_AT_MOST, LOOKED_AT = 100, 50


class Numberer:
    """Gives seqs to jobs that any driver inserted without one."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        share: Callable[[], Share | None],
        numbered: Callable[[], None],
        troubles: Troubles,
    ) -> None:
        self.wake = asyncio.Event()
        self._duty = Duty(FIRST_EVERY, OTHERS_EVERY)
        self._store = store
        self._timing = timing
        self._clock = clock
        self._share = share
        self._numbered = numbered
        self._troubles = troubles
        self._lying = Lying(clock)
        self._tried: dict[bytes, int] = {}
        self._stubborn = Stubborn(clock)
        """Jobs that a few tries could not number."""
        self._numbered_at = float("-inf")
        self._told: set[str] = set()

    async def run(self) -> None:
        """Number for ever."""
        loop = Loop(
            "numbering",
            self._look,
            lambda: jittered(self._every(), least=0.95),
            self._troubles,
            "numbering failed",
            "number-failed",
            wake=self.wake,
        )
        await loop.run()

    async def _look(self) -> float | None:
        share = self._share()
        has_more = share is not None and await self._round(is_first(share))
        return 0.0 if has_more else None

    def _every(self) -> float:
        share = self._share()
        if is_first(share) and self._clock.now() - self._numbered_at < SOON_FOR:
            return SOON
        if not is_first(share) and self._lying:
            return self._timing.help_after
        return self._duty.every(share)

    async def _round(self, at_once: bool) -> bool:
        raw = await self._store.run(number.find_raw(but=self._stubborn.now()))
        mine = list(raw) if at_once else self._lying.longer_than(self._timing.help_after, raw)
        if mine:
            self._note_tries(mine)
            self._numbered_at = self._clock.now()
            await self._store.run(number.give_numbers(mine, _tell_of_failure))
            self._numbered()
            self._tell_of_lookalikes(mine)
        return bool(mine) and (raw.is_cut or len(mine) == number.RAW_AT_ONCE)

    def _tell_of_lookalikes(self, jobs: Sequence[Raw]) -> None:
        """Once for each name: a producer that writes `delay` writes it into all of its jobs."""
        for job in jobs[:LOOKED_AT]:
            for name, field in lookalikes(map(str, job.get("names") or ())).items():
                if name not in self._told and len(self._told) < TOLD_AT_MOST:
                    self._told.add(name)
                    facts = {
                        "event": "odd-field",
                        "id": legible(job.get("_id"), 100),
                        "task": legible(job.get("task"), 100),
                    }
                    log.warning(
                        "a job came with a field that nobody knows",
                        extra=facts | {"why": tell(name, field)},
                    )

    def _note_tries(self, jobs: Sequence[Raw]) -> None:
        """A job that is still there after a few tries will be after the next: it must not stand
        before the others."""
        tried = {key_of(job): job for job in jobs}
        self._tried = {key: self._tried.get(key, 0) + 1 for key in tried}
        for key in [key for key, times in self._tried.items() if times > TRIES]:
            del self._tried[key]
            if len(self._stubborn) < STUBBORN_AT_MOST:
                self._stubborn.put_off(tried[key])
                log.warning(
                    "a job cannot be numbered",
                    extra={"event": "stubborn", "id": str(tried[key].get("_id"))},
                )


def _tell_of_failure(job: Raw, reason: str) -> None:
    """Nobody else's log has it: no attempt was made of it."""
    name = legible(job.get("_id"), 100)
    facts = {
        "event": "job-refused",
        "id": name,
        "task": legible(job.get("task", "-"), 100),
        "why": legible(reason, 1000),
    }
    sentence = f"the document with the _id {name} cannot be a job, and has failed: {facts['why']}"
    log.warning("a document cannot be a job", extra=facts | {"sentence": sentence})
