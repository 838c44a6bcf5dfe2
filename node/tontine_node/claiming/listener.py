"""An ear at the bell makes the node look sooner. What it hears is only a hint: polling alone finds
everything."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from tontine.errors import NotPermitted, StoreError
from tontine.store import bell
from tontine.store.bell import Hint
from tontine.store.call import AsyncStore
from tontine.store.names import CLUSTER, JOBS, PLANS

log = logging.getLogger(__name__)

BUSY_FOR = 0.3
"""A node with a backlog needs no hints, and hearing of every insert would cost it time."""
LOOK_EVERY = 0.5


class Listener:
    """Listens while the node has nothing to do. `busy_for` tells for how many seconds it has had, 0
    if it has not."""

    def __init__(
        self, store: AsyncStore, busy_for: Callable[[], float], tell: Callable[[Hint], None]
    ) -> None:
        self.is_open = False
        self._store = store
        self._busy_for = busy_for
        self._tell = tell

    async def run(self) -> None:
        """Listen for ever, as far as the server lets us."""
        pause = 0.0
        while True:
            while self._busy_for():  # noqa: ASYNC110 - the claim loop should not have to tell
                await asyncio.sleep(LOOK_EVERY)
            try:
                await self._listen()
                pause = 0.0
            except NotPermitted as error:
                log.info(
                    "may not listen, polling instead",
                    extra={"event": "polling", "error": str(error)},
                )
                return
            except StoreError as error:
                log.info("nothing to listen to", extra={"event": "deaf", "error": str(error)})
                self._store.refused(error)
                pause = min(max(0.5, pause * 2), 10.0)
            finally:
                self.is_open = False
            await asyncio.sleep(pause)

    async def _listen(self) -> None:
        """Until there is too much to do, or the bell is gone."""
        async with contextlib.aclosing(bell.hear(self._store)) as hints:
            async for hint in hints:
                if not self.is_open:
                    self.is_open = True
                    # What happened before was not heard.
                    self._tell(Hint(CLUSTER))
                    self._tell(Hint(JOBS))
                    self._tell(Hint(PLANS, is_fresh=True))
                if hint is not None:
                    self._tell(hint)
                if self._busy_for() > BUSY_FOR:
                    return
