"""An ear at the bell makes the node look sooner. What it hears is only a hint: polling alone finds everything."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from tontine.clock import Clock
from tontine.errors import NotPermitted, StoreError
from tontine.store import bell
from tontine.store.bell import Hint
from tontine.store.call import AsyncStore
from tontine.store.schema import CLUSTER, JOBS

log = logging.getLogger(__name__)

BUSY_FOR = 0.3
"""A node with a backlog needs no hints, and hearing of every insert would cost it time."""
LOOK_EVERY, LOOK_IDLE_EVERY = 0.5, 2.5


class Ear:
    """Listens while the node has nothing to do."""

    def __init__(
        self, store: AsyncStore, clock: Clock, is_idle: Callable[[], bool], tell: Callable[[Hint], None]
    ) -> None:
        self.is_open = False
        self._store = store
        self._clock = clock
        self._is_idle = is_idle
        self._tell = tell
        self._idle_at = clock.now()

    async def run(self) -> None:
        """Listen for ever, as far as the server lets us."""
        pause = 0.0
        while True:
            while not self._is_idle():  # noqa: ASYNC110 - the claim loop should not have to tell
                await asyncio.sleep(LOOK_EVERY)
            self._idle_at = self._clock.now()
            try:
                await self._listen()
                pause = 0.0
            except NotPermitted as error:
                log.info("may not listen, polling instead", extra={"event": "polling", "error": str(error)})
                return
            except StoreError as error:
                log.info("nothing to listen to", extra={"event": "deaf", "error": str(error)})
                pause = min(max(0.5, pause * 2), 10.0)
            finally:
                self.is_open = False
            await asyncio.sleep(pause)

    async def _listen(self) -> None:
        """Until there is too much to do, or the bell is gone."""
        async with contextlib.aclosing(bell.hear(self._store)) as hints:
            while True:
                coming = asyncio.ensure_future(anext(hints, _END))
                try:
                    if not await self._await(coming):
                        return
                finally:
                    await _ended(coming)
                hint = coming.result()
                if isinstance(hint, _End):
                    return
                if not self.is_open:
                    self.is_open = True
                    # What happened before was not heard.
                    self._tell(Hint(CLUSTER))
                    self._tell(Hint(JOBS))
                if hint is not None:
                    self._tell(hint)

    async def _await(self, coming: asyncio.Future[Hint | _End | None]) -> bool:
        """Wait for it as long as there is nothing else to do."""
        while True:
            now, is_idle = self._clock.now(), self._is_idle()
            if is_idle:
                self._idle_at = now
            elif now - self._idle_at > BUSY_FOR:
                return False
            if coming.done():
                return True
            await asyncio.wait({coming}, timeout=LOOK_IDLE_EVERY if is_idle else LOOK_EVERY)


class _End:
    """What comes after the last hint."""


_END = _End()


async def _ended(coming: asyncio.Future[Hint | _End | None]) -> None:
    """One cancel is not enough: a driver that was just timing out may turn it into an error of its own."""
    while not coming.done():
        coming.cancel()
        await asyncio.wait({coming}, timeout=0.5)
    if not coming.cancelled():
        coming.exception()  # heard of, or else asyncio complains
