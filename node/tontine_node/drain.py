"""How a node leaves (N7): it claims nothing more, gives back what has not started, and finishes
what runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tontine.clock import Clock
from tontine.errors import StoreError, TontineError

from .claiming.claimer import Claimer
from .claims import Claims
from .loop import rest
from .membership.fence import Fence
from .membership.heartbeat import Heartbeat
from .membership.member import Member
from .running.closing import close_idle
from .running.contexts import Contexts
from .running.limits import Limits
from .settling.reporter import Reporter
from .settling.settler import Settler
from .telling.parting import tell_ending, tell_stopping

log = logging.getLogger(__name__)

LOOK_EVERY = 0.05
LAST_WRITES = 10.0


@dataclass(slots=True)
class Drain:
    """The way out of one node."""

    grace: float
    clock: Clock
    beat: Heartbeat
    claims: Claims
    claimer: Claimer
    contexts: Contexts
    limits: Limits
    member: Member
    fence: Fence
    settler: Settler
    reporter: Reporter
    changed: asyncio.Event
    """Set when there is something to look at."""
    stops_asked: int = 0

    def ask_to_stop(self) -> None:
        """Once: leave, finish what runs, stop. Twice: end what runs, too."""
        self.stops_asked += 1
        if self.stops_asked > 1:  # now, although a call to the store may be under way
            running = self._running_tasks()
            self.fence.is_over = True
            self.contexts.kill_for_good("the node stops")
            if self.stops_asked == 2:
                tell_ending(running, self.contexts.careful_tasks, "asked twice to stop")
        self.changed.set()

    async def join(self) -> None:
        """The way back in."""
        self.contexts.is_draining = False
        self.claimer.is_open = True
        await self.member.join()
        self.claimer.look_now()

    async def leave(self) -> None:
        """Leave the roster and give back what has not started; what runs goes on."""
        self.claimer.is_open = False
        self.contexts.is_draining = True
        if self.member.is_wanted:
            self.contexts.recall_all()
        await self.member.leave()
        self.contexts.release_held()

    async def stop(self, say_dead: Callable[[], Awaitable[None]]) -> None:
        """Leave, give back, finish, settle, and as the last write say so."""
        tell_stopping(len(self.contexts.running()), self.grace, self.stops_asked)
        await self._finish()
        if self.stops_asked < 2 and not self.beat.is_dead and (running := self._running_tasks()):
            tell_ending(
                running, self.contexts.careful_tasks, f"the grace of {self.grace:g} s is over"
            )
        if self.stops_asked < 2 and not self.beat.is_dead:
            await close_idle(self.contexts, "the node stops")
        self.fence.is_over = True
        stuck = await self.contexts.kill_all("the node stops")
        self.contexts.release_held()
        self.fence.release_killed()
        try:
            async with asyncio.timeout(LAST_WRITES):
                await self._write_last()
                if not stuck:
                    await say_dead()
        except (StoreError, TimeoutError) as error:
            raise TontineError(
                f"stopped, but MongoDB did not take the last {len(self.claims)} outcomes: other "
                "nodes rerun those jobs"
            ) from error
        # The record must not say that this node is dead while its jobs may run: its lease will run
        # out.
        if stuck:
            raise TontineError(
                f"stopped, but SIGKILL does not end the worker processes {stuck}: other nodes "
                "rerun their jobs when "
                f"this node's lease has run out"
            )

    async def _finish(self) -> None:
        """Until nothing is in hand any more, the grace is over, or there is none."""
        until = self.clock.now() + self.grace
        while True:
            try:
                await self.leave()
                self.limits.look()
            except StoreError as error:
                log.warning("leaving failed", extra={"event": "leave-failed", "error": str(error)})
            is_hurried = self.stops_asked > 1 or self.beat.is_dead or self.clock.now() > until
            if is_hurried or not len(self.claims):
                return
            await rest(self.changed, LOOK_EVERY)
            self.changed.clear()

    async def _write_last(self) -> None:
        await self.leave()
        await self.settler.drained()
        await self.reporter.keep_lines()
        await asyncio.to_thread(self.beat.stop)

    def _running_tasks(self) -> dict[int, str]:
        found = {seq: self.claims.get(seq) for seq in self.contexts.running()}
        return {seq: entry.task for seq, entry in found.items() if entry is not None}
