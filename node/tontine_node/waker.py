"""A change stream that makes the node look sooner. It is only a hint: polling alone finds everything."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from tontine.clock import Clock
from tontine.errors import NotPermitted, StoreError
from tontine.store import watch
from tontine.store.call import AsyncStore
from tontine.store.schema import CLUSTER, JOBS
from tontine.store.watch import Hint

log = logging.getLogger(__name__)

BUSY_FOR = 2.0
"""A node with a backlog needs no hints, and reading every insert would cost it time: it closes the stream."""


class Waker:
    """Watches while the node has nothing to do."""

    def __init__(
        self, store: AsyncStore, clock: Clock, is_idle: Callable[[], bool], tell: Callable[[Hint], None]
    ) -> None:
        self.is_watching = False
        self._store = store
        self._clock = clock
        self._is_idle = is_idle
        self._tell = tell

    async def run(self) -> None:
        """Watch for ever, as far as the server lets us."""
        pause = 0.5
        while True:
            try:
                await self._watch()
                pause = 0.5
            except NotPermitted as error:
                log.info("no change streams here, polling instead", extra={"event": "polling", "error": str(error)})
                return
            except StoreError as error:
                log.info("the change stream ended", extra={"event": "stream-ended", "error": str(error)})
                pause = min(pause * 2, 10.0)
            finally:
                self.is_watching = False
            await asyncio.sleep(pause)

    async def _watch(self) -> None:
        while not self._is_idle():  # noqa: ASYNC110 - the claim loop should not have to tell
            await asyncio.sleep(0.2)
        idle_at = self._clock.now()
        async with contextlib.aclosing(watch.hints(self._store)) as hints:
            async for hint in hints:
                if not self.is_watching:
                    self.is_watching = True
                    # What happened before the stream was open was not seen by it.
                    self._tell(Hint(CLUSTER))
                    self._tell(Hint(JOBS))
                if hint is not None:
                    self._tell(hint)
                if self._is_idle():
                    idle_at = self._clock.now()
                elif self._clock.now() - idle_at > BUSY_FOR:
                    return
