"""What the loops of a node have in common: a round, a rest that can be cut short, and a word when a
round fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tontine.errors import StoreError, TontineError

from .telling.troubles import Troubles

log = logging.getLogger(__name__)

AGAIN_AFTER = 1.0
MENDED_AFTER = 60.0
"""Not every loop knows when it has succeeded: one that has run for so long since it failed has."""
CANCELS = 20


def jittered(seconds: float, least: float = 0.8) -> float:
    """Up to so many seconds: nodes that were started together do not come together for ever."""
    return seconds * random.uniform(least, 1.0)  # noqa: S311


async def rest(wake: asyncio.Event, at_most: float) -> None:
    """Until it is woken, or for so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(at_most):
            await wake.wait()


@dataclass(slots=True)
class Loop:
    """One round after another, for ever. One that fails is told, and tried again after the usual
    pause."""

    what: str
    """What fails, as the node's record has it."""
    round: Callable[[], Awaitable[float | None]]
    """May tell after how many seconds the next round is due."""
    pause: Callable[[], float]
    """How long to rest otherwise."""
    troubles: Troubles
    message: str
    event: str
    errors: type[TontineError] = StoreError
    """What a round may raise."""
    is_well: Callable[[], bool] = lambda: True
    """Whether nothing is wrong any more after a round that did not raise."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends a rest."""

    async def run(self, *, rests_first: bool = False) -> None:
        if rests_first:
            await rest(self.wake, self.pause())
        while True:
            self.wake.clear()
            due_in = await self._try()
            await rest(self.wake, self.pause() if due_in is None else due_in)

    async def _try(self) -> float | None:
        try:
            due_in = await self.round()
        except self.errors as error:
            self.troubles.note(self.what, error)
            log.warning(self.message, extra={"event": self.event, "error": str(error)})
            return None
        if self.is_well():
            self.troubles.over(self.what)
        return due_in


async def keep_going(what: str, run: Callable[[], Awaitable[None]], troubles: Troubles) -> None:
    """The top of a loop: whatever goes wrong in it, it starts again, and the node says so."""
    mended: asyncio.TimerHandle | None = None
    while True:
        try:
            return await run()
        except Exception as error:
            if mended is not None:
                mended.cancel()
            troubles.note(what, repr(error))
            log.exception(
                "a loop failed and starts again", extra={"event": "loop-failed", "loop": what}
            )
            await asyncio.sleep(AGAIN_AFTER)
            mended = asyncio.get_running_loop().call_later(MENDED_AFTER, troubles.over, what)


async def cancel(tasks: Callable[[], list[asyncio.Task[None]]]) -> None:
    """End these tasks. One cancel is not enough: a driver that is timing out may turn it into an
    error of its own."""
    for _ in range(CANCELS):
        running = [task for task in tasks() if not task.done()]
        if not running:
            return
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=0.5)
