"""(1) When to take jobs out of the inbox: rank 0 at once, any other member when nobody does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bson import ObjectId

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import NotPermitted
from tontine.legible import count
from tontine.records.share import Share
from tontine.store import inbox
from tontine.store.call import AsyncStore

from ..duty import Duty, is_first
from ..loop import Loop, jittered
from ..telling.troubles import Troubles

log = logging.getLogger(__name__)

FIRST_EVERY, OTHERS_EVERY = 1.0, 5.0
"""Seconds between looks of the first member, and of a few that stand in for it. Who may only insert
cannot ring."""
SOON, SOON_FOR = 0.1, 60.0
"""Where one job came from, more come: for a minute the first member looks often."""
RULES_EVERY = 30.0
ASIDE_FOR, ASIDE_AT_MOST = 300.0, 1000
"""Seconds until what the server refused in every form is tried again, and how many are left lying
so long."""


class Intake:
    """Makes jobs of what producers left in the inbox, in deployments that have one."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        share: Callable[[], Share | None],
        is_open: Callable[[], bool],
        taken: Callable[[], None],
        troubles: Troubles,
    ) -> None:
        self._duty = Duty(FIRST_EVERY, OTHERS_EVERY)
        self._store = store
        self._timing = timing
        self._clock = clock
        self._share = share
        self._is_open = is_open
        self._taken = taken
        self._troubles = troubles
        self._taken_at = float("-inf")
        self._first: ObjectId | None = None
        self._first_since = float("-inf")
        self._aside: set[ObjectId] = set()
        self._aside_at = float("-inf")
        self._ruled_at = float("-inf")

    async def run(self) -> None:
        """Take for ever."""
        loop = Loop(
            "intake",
            self._look,
            lambda: jittered(OTHERS_EVERY),
            self._troubles,
            "taking from the inbox failed",
            "intake-failed",
            is_well=lambda: not self._aside,
        )
        await loop.run()

    async def _look(self) -> float | None:
        share = self._share() if self._is_open() else None
        return None if share is None else jittered(await self._round(share))

    async def _round(self, share: Share) -> float:
        """Take what is there; how long until the next look is worth it."""
        self._look_again_at_refused()
        if not is_first(share) and not await self._lies_still():
            return self._timing.help_after if self._first else self._duty.every(share)
        await self._keep_rules(share)
        documents = await self._store.run(inbox.read(self._aside))
        if documents and self._share() is not None and await self._take(documents) == inbox.AT_ONCE:
            return 0.0
        if is_first(share) and self._clock.now() - self._taken_at < SOON_FOR:
            return SOON
        return self._duty.every(share)

    async def _keep_rules(self, share: Share) -> None:
        """Put the inbox back where it was dropped: the next insert would make one that takes
        anything."""
        if is_first(share) and self._clock.now() - self._ruled_at >= RULES_EVERY:
            self._ruled_at = self._clock.now()
            try:
                if await self._store.run(inbox.mend()):
                    log.warning("put the inbox right", extra={"event": "inbox-mended"})
            except NotPermitted as error:
                log.info(
                    "may not look after the inbox",
                    extra={"event": "inbox-rules", "error": str(error)},
                )

    async def _lies_still(self) -> bool:
        """Whether the first document is the one that this node saw there longer than H ago."""
        now, first = self._clock.now(), await self._store.run(inbox.read_first(self._aside))
        if first != self._first:
            self._first, self._first_since = first, now
        return first is not None and now - self._first_since >= self._timing.help_after

    async def _take(self, documents: Sequence[Mapping[str, Any]]) -> int:
        self._taken_at = self._clock.now()
        taken = await self._store.run(inbox.take(documents))
        if taken.count:
            self._taken()
        if taken.unfit:
            self._aside_at = self._clock.now()
            self._aside |= set(list(taken.unfit)[: ASIDE_AT_MOST - len(self._aside)])
            lying, some = (
                count(len(self._aside), "document"),
                ", ".join(sorted(map(str, taken.unfit))[:3]),
            )
            self._troubles.note("intake", f"{lying} of the inbox cannot even fail as jobs: {some}")
            log.warning(
                "set documents of the inbox aside",
                extra={"event": "intake-aside", "documents": some},
            )
        return taken.count

    def _look_again_at_refused(self) -> None:
        if self._aside and self._clock.now() - self._aside_at > ASIDE_FOR:
            self._aside.clear()
