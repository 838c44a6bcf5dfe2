"""Ears that make the node look sooner. What they hear is only a hint: polling alone finds everything."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable

from tontine.clock import Clock
from tontine.errors import NotPermitted, StoreError
from tontine.store.bell import Hint
from tontine.store.call import AsyncStore
from tontine.store.schema import CLUSTER, JOBS

log = logging.getLogger(__name__)

BUSY_FOR = 0.3
"""A node with a backlog needs no hints, and hearing of every insert would cost it time."""
LOOK_EVERY = 0.2
AGAIN_AFTER = 5.0
"""When a source has ended by itself."""

Source = Callable[[AsyncStore], AsyncGenerator[Hint | None, None]]


class Ear:
    """Listens to one source of hints while it is needed."""

    def __init__(
        self,
        source: Source,
        store: AsyncStore,
        clock: Clock,
        is_needed: Callable[[], bool],
        tell: Callable[[Hint], None],
        *,
        after: float = 0.0,
    ) -> None:
        """It opens when it has been needed for so many seconds."""
        self.is_open = False
        self._after = after
        self._source = source
        self._store = store
        self._clock = clock
        self._is_needed = is_needed
        self._tell = tell
        self._needed_at = clock.now()

    async def run(self) -> None:
        """Listen for ever, as far as the server lets us."""
        pause = 0.5
        while True:
            await self._until_needed()
            try:
                pause = AGAIN_AFTER if await self._listen() else 0.0
            except NotPermitted as error:
                log.info("may not listen, polling instead", extra={"event": "polling", "error": str(error)})
                return
            except StoreError as error:
                log.info("nothing to listen to", extra={"event": "deaf", "error": str(error)})
                pause = min(max(0.5, pause * 2), 10.0)
            finally:
                self.is_open = False
            await asyncio.sleep(pause)

    async def _until_needed(self) -> None:
        since = self._clock.now()
        while True:
            self._needed_at = self._clock.now()
            if not self._is_needed():
                since = self._needed_at + LOOK_EVERY
            elif self._needed_at - since >= self._after:
                return
            await asyncio.sleep(LOOK_EVERY)

    async def _listen(self) -> bool:
        """Whether the source ended, rather than the need for it."""
        async with contextlib.aclosing(self._source(self._store)) as hints:
            while True:
                coming = asyncio.ensure_future(anext(hints, _END))
                try:
                    if not await self._await(coming):
                        return False
                finally:
                    await _ended(coming)
                hint = coming.result()
                if isinstance(hint, _End):
                    return True
                if not self.is_open:
                    self.is_open = True
                    # What happened before was not heard.
                    self._tell(Hint(CLUSTER))
                    self._tell(Hint(JOBS))
                if hint is not None:
                    self._tell(hint)

    async def _await(self, coming: asyncio.Future[Hint | _End | None]) -> bool:
        """Wait for it as long as it is needed."""
        while True:
            now = self._clock.now()
            if self._is_needed():
                self._needed_at = now
            elif now - self._needed_at > BUSY_FOR:
                return False
            if coming.done():
                return True
            await asyncio.wait({coming}, timeout=LOOK_EVERY)


class _End:
    """What a source that has ended gives."""


_END = _End()


async def _ended(coming: asyncio.Future[Hint | _End | None]) -> None:
    """One cancel is not enough: a driver that was just timing out may turn it into an error of its own."""
    while not coming.done():
        coming.cancel()
        await asyncio.wait({coming}, timeout=0.5)
    if not coming.cancelled():
        coming.exception()  # heard of, or else asyncio complains
