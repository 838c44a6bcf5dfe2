"""Plans whose time is over are removed, one after the other (PL16)."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from tontine.errors import StoreError, StoreUnavailable
from tontine.records.plan import PlanRecord
from tontine.records.share import Share
from tontine.store.call import AsyncStore
from tontine.store.plans import remove

from ..duty import Duty
from ..loop import Loop, jittered
from ..telling.troubles import Troubles

log = logging.getLogger(__name__)

FIRST_EVERY, OTHERS_EVERY = 60.0, 300.0


class Remover:
    """Beside the looks, which do not wait for it: a wide plan has a million jobs to delete."""

    def __init__(
        self, store: AsyncStore, share: Callable[[], Share | None], troubles: Troubles
    ) -> None:
        self._store = store
        self._share = share
        self._troubles = troubles
        self._duty = Duty(FIRST_EVERY, OTHERS_EVERY)

    async def run(self) -> None:
        """Remove for ever."""
        loop = Loop(
            "removing plans",
            self._look,
            lambda: jittered(FIRST_EVERY),
            self._troubles,
            "removing plans failed",
            "plan-removal-failed",
        )
        await loop.run(rests_first=True)

    async def _look(self) -> None:
        """Others look in one of several rounds: who has just become the first does not rest on as
        they do."""
        share = self._share()
        is_due = random.random() * self._duty.every(share) < FIRST_EVERY  # noqa: S311
        if share is not None and is_due:
            await self._remove_all()

    async def _remove_all(self) -> None:
        """However many there are: more may expire in a minute than are found at once."""
        while True:
            found = await self._store.run(remove.find_expired())
            removed = [await self._remove(plan) for plan in found]
            if len(found) < remove.AT_ONCE or not any(removed):
                return

    async def _remove(self, plan: PlanRecord) -> bool:
        try:
            return await self._store.run(remove.remove(plan), causal=True)
        except StoreUnavailable:
            raise
        except StoreError as error:  # what is wrong with one must not stand before the others
            log.warning(
                "a plan cannot be removed",
                extra={"event": "plan-removal-failed", "plan": plan.seq, "error": str(error)},
            )
            return False
