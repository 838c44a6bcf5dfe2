"""What must end when the lease does (N5), and what becomes of it when the lease is back."""

from __future__ import annotations

import asyncio
import logging

from tontine.clock import Clock
from tontine.store.settle import Outcome

from ..claims import Claims, Status
from ..loop import rest
from ..running.contexts import Contexts
from ..running.pool import FENCE
from .heartbeat import Heartbeat

log = logging.getLogger(__name__)

GUARD_EVERY, GUARD_IDLE_EVERY = 0.1, 5.0


class Fence:
    """Guards one node's lease. Nothing here may wait for the store."""

    def __init__(self, clock: Clock, beat: Heartbeat, claims: Claims, contexts: Contexts) -> None:
        self.is_over = False
        """The node ends and guards itself."""
        self.wake = asyncio.Event()
        self._clock = clock
        self._beat = beat
        self._claims = claims
        self._contexts = contexts
        self._is_up = self._was_starved = False

    async def run(self) -> None:
        """Fence when the lease has run out, go on when it is back."""
        while not self.is_over:
            await rest(self.wake, self._pause())
            self.wake.clear()
            if not self._beat.has_lease() and not self._is_up:
                self._is_up = True
                self._was_starved = not self._beat.failed_since_renewal
                log.warning(
                    "lease ran out: ended what ran",
                    extra={"event": "fenced", "starved": self._was_starved},
                )
                await self._contexts.kill_all(FENCE)
            elif self._beat.has_lease() and not self.is_over:
                # Also without a fence: a worker ends itself at the deadline, and the lease may be
                # back by now.
                self.release_killed()
                if self._is_up:
                    self._take_down()

    def _pause(self) -> float:
        """With nothing in hand there is nothing to fence before the lease could end, or before
        something comes in.

        Not for longer all the same: a suspended host hides time.
        """
        if self._is_up or len(self._claims):
            return GUARD_EVERY
        return min(max(GUARD_EVERY, self._contexts.deadline - self._clock.now()), GUARD_IDLE_EVERY)

    def _take_down(self) -> None:
        self._is_up = self._was_starved = False
        log.info("the lease is back", extra={"event": "unfenced"})
        self._contexts.hold_again()
        # Nobody waits for them here, where the lease is watched: what is held goes out when a
        # worker says hello.
        self._contexts.keep_workers()

    def release_killed(self) -> None:
        """Give back what a fence ended. If no call had failed, the work starved the heartbeat, and
        that counts (P1)."""
        for entry in self._claims.having(Status.KILLED):
            kind = "lost" if self._was_starved else "released"
            self._contexts.end(entry, Outcome(kind, entry.seq, entry.attempt, begun=True))  # type: ignore[arg-type]
