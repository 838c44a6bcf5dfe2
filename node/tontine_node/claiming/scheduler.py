"""When to fire schedules: rank 0 at their time, any other member what is still due after H. No
scheduler process.

A schedule that cannot fire is tried again after a growing pause, and costs the others nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import NotPermitted, StoreUnavailable, TontineError
from tontine.records.schedule import Schedule
from tontine.records.share import Share, crowd
from tontine.store import declare, read, schedules
from tontine.store.call import AsyncStore

from ..duty import Duty, is_first
from ..loop import Loop, jittered
from ..telling.troubles import Troubles

log = logging.getLogger(__name__)

LOOK_EVERY, OTHERS_EVERY = 5.0, 10.0
"""Seconds between looks of the first member, and of a few that stand in for it."""
MEND_EVERY = 30.0
"""Seconds between two checks of all `next_at`; less than the minute in which times still count as
due."""
DECLARE_EVERY = 60.0
"""Seconds between two looks at what this node's modules declare; nodes without any never look."""
PAUSE, LONGEST_PAUSE = 4.0, 300.0
AT_LEAST = 0.02
"""Seconds between two looks, however many schedules are due."""


@dataclass(frozen=True, slots=True)
class Pause:
    """How long a schedule that could not fire is left alone, and until when."""

    length: float
    until: float


class Scheduler:
    """One node's part in firing schedules; a due time is fired once, whoever tries."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        share: Callable[[], Share | None],
        fired: Callable[[], None],
        troubles: Troubles,
        declared: Callable[[], Sequence[Schedule]] = tuple,
    ) -> None:
        self._duty = Duty(LOOK_EVERY, OTHERS_EVERY)
        self._store = store
        self._timing = timing
        self._clock = clock
        self._share = share
        self._fired = fired
        self._troubles = troubles
        self._declared = declared
        self._declared_at: datetime | None = None
        """The server's time when this node first made its schedules known: whoever started later is
        newer."""
        self._declare_at = float("-inf")
        self._paused: dict[tuple[str, datetime], Pause] = {}
        self._mend_at = float("-inf")
        self._checked = 0

    async def run(self) -> None:
        """Fire for ever."""
        loop = Loop(
            "schedules",
            self._look,
            lambda: jittered(self._duty.every(self._share())),
            self._troubles,
            "schedules did not fire",
            "schedules-failed",
            errors=TontineError,
            is_well=lambda: not self._paused or self._share() is None,
        )
        await loop.run()

    async def _look(self) -> float | None:
        share = self._share()
        if share is None:
            return None
        await self._declare(crowd(share.size))
        every = self._duty.every(share)
        patience = 0.0 if is_first(share) else self._timing.help_after
        due_in = await self._round(every, patience)
        if is_first(share):
            await self._mend_some()
        return max(AT_LEAST, min(due_in, jittered(every)))

    async def _declare(self, rarer: float) -> None:
        """Make the schedules of this node's modules known, and now and then see whether they still
        are."""
        wanted = self._declared()
        if not wanted or self._clock.now() < self._declare_at:
            return
        self._declare_at = self._clock.now() + jittered(DECLARE_EVERY * rarer)
        try:
            if self._declared_at is None:
                self._declared_at = await self._store.run(read.now())
            for name in await self._store.run(declare.declare(wanted, self._declared_at)):
                log.info("declared a schedule", extra={"event": "declared", "schedule": name})
            self._troubles.over("declaring")
        except TontineError as error:
            self._troubles.note("declaring", error)
            log.warning(
                "schedules were not declared",
                extra={"event": "declare-failed", "error": str(error)},
            )

    async def _round(self, every: float, patience: float) -> float:
        """Fire what has been due for `patience` seconds; how long until the next look is worth
        it."""
        wait = every
        met: list[tuple[str, datetime]] = []
        while True:
            # Beyond all that were met: however many of them stand where they stood, the others have
            # their turn.
            page = await self._store.run(schedules.find_due(every * 1.5, len(met)))
            for due in page:
                left = (due.next_at + timedelta(seconds=patience) - due.now).total_seconds()
                if left > 0:  # so it is for all that follow
                    return self._rest(met, min(wait, left))
                met.append((due.name, due.next_at))
                if await self._fire_alone(due):
                    wait = 0.0
            if len(page) < schedules.DUE_AT_ONCE:
                return self._rest(met, wait)

    def _rest(self, met: Collection[tuple[str, datetime]], wait: float) -> float:
        """Forget the pauses of schedules that are no longer due."""
        if self._paused:
            due = set(met)
            self._paused = {one: pause for one, pause in self._paused.items() if one in due}
        return wait

    async def _fire_alone(self, due: schedules.Due) -> bool:
        """Whether it moved on. One that cannot fire is left alone for a while, and for longer each
        time."""
        key = (due.name, due.next_at)
        pause = self._paused.get(key)
        if self._share() is None or (pause is not None and self._clock.now() < pause.until):
            return False
        try:
            fired = await self._store.run(schedules.fire(due))
        except TontineError as error:
            of_all = isinstance(error, StoreUnavailable | NotPermitted)
            length = PAUSE if pause is None or of_all else min(2 * pause.length, LONGEST_PAUSE)
            self._paused[key] = Pause(length, self._clock.now() + length)
            if of_all:  # no fault of its own, but the next look begins with another one
                raise
            self._failed(due.name, error)
            return False
        self._paused.pop(key, None)
        if fired:
            log.info("fired a schedule", extra={"event": "fired", "schedule": due.name})
            self._fired()
        return fired is not None

    async def _mend_some(self) -> None:
        """Put right the `next_at` of some schedules: of all in turn, and then all is well for a
        while."""
        if self._clock.now() < self._mend_at:
            return
        looked_at, wrong = await self._store.run(schedules.find_wrong(self._checked))
        for one in wrong:
            try:
                if await self._store.run(schedules.mend(one)):
                    facts = {
                        "event": "schedule-mended",
                        "schedule": one.name,
                        "next_at": one.right.isoformat(),
                    }
                    log.warning("put the next time of a schedule right", extra=facts)
            except (StoreUnavailable, NotPermitted):
                raise
            except TontineError as error:
                self._failed(one.name, error)
        if looked_at == schedules.CHECKED_AT_ONCE:
            self._checked += looked_at
        else:
            self._checked, self._mend_at = 0, self._clock.now() + MEND_EVERY

    def _failed(self, name: str, error: TontineError) -> None:
        self._troubles.note("schedules", f"{name}: {error}")
        log.warning(
            "a schedule did not fire",
            extra={"event": "schedule-failed", "schedule": name, "error": str(error)},
        )
