"""The only loop that moves a node's state; it wires the parts together. The master runs no user code.

One `Node` is one incarnation: a node that was declared dead never comes back, its process starts a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from tontine.clock import Clock
from tontine.errors import ConfigError, StoreError, StoreUnavailable, TontineError
from tontine.records.share import Share
from tontine.records.states import Desired, NodeState
from tontine.store import members
from tontine.store.bell import HELP, Hint
from tontine.store.call import AsyncStore, Store
from tontine.store.schema import CLUSTER, JOBS, NODES
from tontine.uri import shown

from .claiming.claimer import Claimer
from .claiming.intake import Intake
from .claiming.lane import Lane
from .claiming.listener import Listener
from .claiming.numberer import Numberer
from .claiming.scheduler import Scheduler
from .claims import Claims
from .config import NodeConfig
from .healer import Healer
from .membership.fence import GUARD_EVERY, Fence
from .membership.heartbeat import Heartbeat
from .membership.member import Member
from .membership.registration import Registration, wait_for_store
from .membership.sampler import Sampler, Standing
from .running.board import Board
from .running.dispatch import Dispatcher
from .running.limits import Limits
from .running.offspring import Offspring
from .settling.repairer import Repairer
from .settling.reporter import Reporter
from .settling.settler import Settler
from .settling.timer import Timer
from .telling.journal import Journal
from .telling.live_file import LiveFile, Vital
from .telling.parting import tell_ending, tell_stopped, tell_stopping
from .telling.troubles import Troubles

log = logging.getLogger(__name__)

CONTROL_EVERY, CONTROL_IDLE_EVERY = 0.2, 2.5
STATE_EVERY = 1.0
CANCELS_EVERY = 0.5
HOLD_AT_MOST = 1.0
HOLD_WITHOUT_WORKERS = 10.0
LAST_WRITES = 10.0
CANCELS = 20
MENDED_AFTER = 60.0
"""Not every loop knows when it has succeeded: one that has run for so long since it failed has."""


class Node:
    """One incarnation of a node, from its registration to its death."""

    def __init__(self, config: NodeConfig, store: AsyncStore, beat_store: Store, clock: Clock) -> None:
        self.id = f"{config.name}-{uuid4().hex[:8]}"
        self.config = config
        self.state = NodeState.INITIALIZING
        self._store = store
        self._clock = clock
        self._timing = timing = config.timing
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._stops_asked = 0
        self._born_at = clock.now()
        self._moved_at = self._cancels_at = float("-inf")
        self._share: Share | None = None
        self._looks_soon = False
        self._tasks: list[asyncio.Task[None]] = []
        self.is_ready: Callable[[Node], None] = lambda _: None
        """Called when it has loaded its modules and joined."""
        self.troubles = Troubles()

        self.board = Board.create(config.processes, config.slots)
        self.claims = Claims(self._look_soon, config.max_held, self._more_room)
        self.journal = Journal(self.id, lambda entry: self.dispatcher.attempts_of(entry))  # noqa: PLW0108 - it is made below
        self.settler = Settler(
            self.id,
            store,
            self.claims,
            lambda: self.lane.retention,
            self._back_in_queue,
            self._keep_lines,
            self.troubles,
            self.journal,
        )
        self.dispatcher = Dispatcher(
            config, clock, self.board, self.claims, self.settler.add, self._more_room, self.troubles
        )
        self.offspring = Offspring(store, clock)
        self.dispatcher.take_requests = self.offspring.take
        self.limits = Limits(self.dispatcher, clock)
        self.reporter = Reporter(
            self.id, store, clock, self.claims, self.dispatcher, self.settler, lambda: self.lane.retention
        )
        self.beat = Heartbeat(self.id, beat_store, timing, clock, self.board, self._facts, self._wake_control)
        self.beat.where = shown(config.store.uri or "")
        self.dispatcher.server_now = self.beat.server_now
        self.fence = Fence(clock, self.beat, self.board, self.claims, self.dispatcher)
        self.sampler = Sampler(config.name, store, timing, clock, self.beat, self._standing)
        self.member = Member(self.id, config.name, store, timing, clock, self.beat)
        self.healer = Healer(store, clock, self.member, self.troubles)
        store.refused = self.healer.suspect
        self.listener = Listener(store, self._busy_for, self._take_hint)
        self.lane = Lane(
            self.id, store, timing, clock, self.member, self.claims, self.dispatcher, lambda: self.listener.is_open
        )
        self.claimer = Claimer(self.id, store, clock, self.beat, self.claims, self.dispatcher, self.lane, self.troubles)
        self.numberer = Numberer(store, timing, clock, self._own_share, self.claimer.hint, self.troubles)
        self.intake = Intake(
            store,
            timing,
            clock,
            self._own_share,
            lambda: self.lane.has_inbox,
            self.claimer.hint,
            self.troubles,
        )
        self.scheduler = Scheduler(
            store,
            timing,
            clock,
            self._own_share,
            self.claimer.hint,
            self.troubles,
            lambda: self.dispatcher.schedules,
        )
        self.timer = Timer(store, self._own_share, lambda: self.lane.retention, self._note_late, self.troubles)
        self.repairer = Repairer(
            store,
            timing,
            clock,
            self.beat,
            self.member,
            self.claims,
            self.dispatcher,
            lambda: self.lane.retention,
            self.troubles,
        )

        path = config.live_file
        self.live_file = None if path is None else LiveFile(path, self.id, self._vital, self.troubles)

    def ask_to_stop(self) -> None:
        """Once: leave, finish what runs, stop. Twice: end what runs, too."""
        self._stops_asked += 1
        if self._stops_asked > 1:  # now, although a call to the store may be under way
            running = self._running_tasks()
            self.fence.is_over = True
            self.dispatcher.pool.kill_for_good("the node stops")
            if self._stops_asked == 2:
                tell_ending(running, self.dispatcher.careful_tasks, "asked twice to stop")
        self._changed.set()

    def _running_tasks(self) -> dict[int, str]:
        found = {seq: self.claims.get(seq) for seq in self.dispatcher.running()}
        return {seq: entry.task for seq, entry in found.items() if entry is not None}

    async def run(self) -> bool:
        """Live this life to its end; True when it ended because it was declared dead, so that a new one may start."""
        if self.live_file is not None:
            self.live_file.start()
        try:
            registration = Registration(self.id, self.config, self._store, self._clock)
            while not await registration.attempt():
                if self._stops_asked:
                    return False
            await asyncio.to_thread(self.beat.start)
            await self._initialize()
            self._start_loops()
            return await self._control()
        finally:
            if self.live_file is not None:
                await asyncio.to_thread(self.live_file.stop)
            await self._end_loops()

    async def _initialize(self) -> None:
        await self.member.note("node", node=self.id, name=self.config.name, to=self.state.value)
        try:
            await self.dispatcher.pool.start(is_over=self._is_over)
        except ConfigError as error:
            await self._move(NodeState.DEAD, death=str(error)[:500])
            raise
        while not self._is_over():
            try:
                facts = {"modules": self.dispatcher.modules, "careful": self.dispatcher.careful_tasks}
                await self._store.run(members.describe(self.id, facts))
                await self._move(NodeState.WAITING)
                await self._join()
                self.is_ready(self)
                break
            except StoreUnavailable as error:
                await wait_for_store(error)

    def _is_over(self) -> bool:
        return self._stops_asked > 0 or self.beat.is_dead or self.beat.desired is Desired.STOPPED

    def _start_loops(self) -> None:
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "claiming": self.claimer.run,
            "settling": self.settler.run,
            "numbering": self.numberer.run,
            "intake": self.intake.run,
            "schedules": self.scheduler.run,
            "times": self.timer.run,
            "watching": self._watch_others,
            "upkeep": self.repairer.run,
            "fence": self.fence.run,
            "samples": self.sampler.run,
            "healing": self.healer.run,
        }
        if self.config.streams:
            loops["listening"] = self.listener.run
        self._tasks = [asyncio.create_task(self._forever(what, loop)) for what, loop in loops.items()]

    async def _end_loops(self) -> None:
        self.fence.is_over = True
        # One cancel is not enough: a driver that was just timing out may turn it into an error of its own.
        for _ in range(CANCELS):
            if not (running := [task for task in (*self._tasks, *self.offspring.tasks) if not task.done()]):
                break
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=0.5)
        stuck = await self.dispatcher.pool.kill_all("the node ends")
        await asyncio.to_thread(self.beat.stop)
        if not stuck:  # those have it open, and so does who waits for their end
            self.board.close()

    async def _forever(self, what: str, loop: Callable[[], Awaitable[None]]) -> None:
        """The top of each loop: whatever goes wrong in one, the node lives on and says so."""
        mended: asyncio.TimerHandle | None = None
        while True:
            try:
                return await loop()
            except Exception as error:
                if mended is not None:
                    mended.cancel()
                self.troubles.note(what, repr(error))
                log.exception("a loop failed and starts again", extra={"event": "loop-failed", "loop": what})
                await asyncio.sleep(1)
                mended = self._loop.call_later(MENDED_AFTER, self.troubles.over, what)

    async def _watch_others(self) -> None:
        while True:
            await asyncio.sleep(self.member.watch_every * random.uniform(0.8, 1.0))  # noqa: S311
            try:
                buried = await self.member.watch_others()
                # Otherwise the claim loop has just read it.
                if buried or not self.claimer.is_open or self.member.is_doubtful:
                    await self.member.refresh()
                if dead := await self.member.find_dead():
                    # First their jobs: a new roster makes everybody look for what is due.
                    await self.repairer.repair()
                    await self.member.remove(dead)
                    self.claimer.due_in(0.0)
                await self._keep_place()
                self.troubles.over("watching")
            except StoreError as error:
                self.troubles.note("watching", error)
                log.warning("watching failed", extra={"event": "watch-failed", "error": str(error)})

    async def _control(self) -> bool:
        """Follow the lease and what is desired until this life ends; True when it was ended by others."""
        while True:
            is_idle = not len(self.claims) and self.state is not NodeState.WORKING
            await self._wait(CONTROL_IDLE_EVERY if is_idle else CONTROL_EVERY)
            if self.beat.is_dead:
                log.warning("declared dead by others; starting again", extra={"event": "dead", "node": self.id})
                return True
            try:
                if self._stops_asked or self.beat.desired is Desired.STOPPED:
                    await self._stop()
                    return False
                await self._follow_desired()
                await self._mend_state()
                await self._look_after_jobs()
                self.troubles.over("control")
            except StoreError as error:
                self.troubles.note("control", error)
                log.warning("following what is asked failed", extra={"event": "control-failed", "error": str(error)})
            except TontineError:
                raise
            except Exception as error:
                # The top of this loop: without it one odd document would end the node.
                self.troubles.note("control", repr(error))
                log.exception("looking after jobs failed", extra={"event": "control-failed"})

    async def _wait(self, limit: float) -> None:
        """Until something changed, or for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._changed.wait()
        self._changed.clear()

    async def _follow_desired(self) -> None:
        if self.beat.desired is Desired.PAUSED and self.state is not NodeState.PAUSED:
            await self._drain()
            if not len(self.claims):
                await self._move(NodeState.PAUSED)
        elif self.beat.desired is Desired.RUNNING and not self.member.is_wanted:
            if self.state is NodeState.PAUSED:
                await self._move(NodeState.WAITING)
            await self._join()
        elif self.state in (NodeState.WAITING, NodeState.WORKING):
            await self._show_state()

    async def _mend_state(self) -> None:
        """A move that was given up may land after a later one: then the record says what is no longer true."""
        if self.beat.seen is not None:
            sent, state = self.beat.seen
            if sent > self._moved_at and state is not self.state:
                await self._move(self.state)

    async def _show_state(self) -> None:
        target = NodeState.WORKING if len(self.claims) else NodeState.WAITING
        if target is not self.state and self._clock.now() - self._moved_at >= STATE_EVERY:
            await self._move(target)

    async def _join(self) -> None:
        self.member.is_wanted = True
        self.dispatcher.is_draining = False
        self.claimer.is_open = True
        await self.member.refresh()
        await self._keep_place()
        self.claimer.look_now()

    async def _drain(self) -> None:
        """Leave the roster and give back what has not started (N7); what runs goes on."""
        self.claimer.is_open = False
        self.dispatcher.is_draining = True
        if self.member.is_wanted:
            self.member.is_wanted = False
            self.dispatcher.recall_all()
            await self.member.refresh()
        await self._keep_place()
        self.dispatcher.release_held()

    async def _stop(self) -> None:
        """Leave, give back, finish, settle, and as the last write say so (N7)."""
        tell_stopping(len(self.dispatcher.running()), self.config.grace, self._stops_asked)
        until = self._clock.now() + self.config.grace
        while True:
            try:
                await self._drain()
                self.limits.look()
            except StoreError as error:
                log.warning("leaving failed", extra={"event": "leave-failed", "error": str(error)})
            hurry = self._stops_asked > 1 or self.beat.is_dead or self._clock.now() > until
            if hurry or not len(self.claims):
                break
            await self._wait(0.05)
        if self._stops_asked < 2 and not self.beat.is_dead and (running := self._running_tasks()):
            tell_ending(running, self.dispatcher.careful_tasks, f"the grace of {self.config.grace:g} s is over")
        self.fence.is_over = True
        stuck = await self.dispatcher.pool.kill_all("the node stops")
        self.dispatcher.release_held()
        self.fence.release_killed()
        try:
            async with asyncio.timeout(LAST_WRITES):
                await self._drain()
                await self.settler.drained()
                await self.reporter.keep_lines()
                await asyncio.to_thread(self.beat.stop)
                if not stuck:
                    await self._move(NodeState.DEAD, death="stopped")
        except (StoreError, TimeoutError) as error:
            raise TontineError(
                f"stopped, but MongoDB did not take the last {len(self.claims)} outcomes: other nodes rerun those jobs"
            ) from error
        if stuck:  # the record must not say that this node is dead while its jobs may run: its lease will run out
            raise TontineError(
                f"stopped, but SIGKILL does not end the worker processes {stuck}: other nodes rerun their jobs when "
                f"this node's lease has run out"
            )
        tell_stopped(self.settler.done, self.settler.failed, self._clock.now() - self._born_at)

    async def _look_after_jobs(self) -> None:
        """Time limits, cancelling, progress, and jobs that wait here although all slots are taken."""
        self.limits.look()
        if not self.dispatcher.is_draining and self.beat.has_lease():
            self.dispatcher.release_held(
                patience=HOLD_AT_MOST if self.dispatcher.pool.is_ready else HOLD_WITHOUT_WORKERS
            )
        now = self._clock.now()
        if now - self._cancels_at >= CANCELS_EVERY and self.reporter.long_running():
            self._cancels_at = now
            self.limits.cancel(await self.repairer.find_cancelled())
        await self.reporter.show()

    async def _keep_place(self) -> None:
        before = self.member.roster.epoch
        await self.member.keep_place()
        await self._show_share()
        if self.member.roster.epoch != before:
            self.claimer.look_now()

    async def _show_share(self) -> None:
        share = self.member.roster.share_of(self.id)
        if share != self._share:
            value = share.to_document() if share else None
            await self._store.run(members.describe(self.id, {"share": value}))
            self._share = share
            log.info("owns a share" if share else "owns no share", extra={"event": "share", **(value or {})})

    async def _move(self, target: NodeState, **values: Any) -> None:
        if await self._store.run(members.move(self.id, target, **values)):
            before, self.state = self.state, target
            self._moved_at = self._clock.now()
            if {before, target} == {NodeState.WAITING, NodeState.WORKING}:
                return  # a busy node's daily round would fill `events`; samples tell the same
            why = values.get("death")
            facts = {"node": self.id, "name": self.config.name, "from": before.value, "to": target.value, "why": why}
            await self.member.note("node", **facts)

    def _facts(self) -> dict[str, Any]:
        """What goes with each heartbeat; called in its thread."""
        running = len(self.dispatcher.running())
        return {
            "tick": self.claimer.tick,
            "running": running,
            "metrics": self.reporter.metrics(),
            "troubles": self.troubles.to_document(),
        }

    def _vital(self) -> Vital:
        """Called in the live file's thread."""
        return Vital(self.beat.has_lease(), self.claimer.tick, self.dispatcher.pool.ready)

    def _standing(self) -> Standing:
        seq = self.lane.sweep.counter if self.lane.sweep else 0
        return Standing(self.state, self.config.processes * self.config.slots, seq, self._share)

    def _own_share(self) -> Share | None:
        """The share that this node may act on now."""
        return self.member.roster.share_of(self.id) if self.beat.has_lease() else None

    def _wake_control(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    def _look_soon(self) -> None:
        """There is something in hand again: whoever was idle looks at it, but not before it had a chance to run."""
        if not self._looks_soon:
            self._looks_soon = True
            self._loop.call_later(GUARD_EVERY, self._look)

    def _look(self) -> None:
        self._looks_soon = False
        self._changed.set()
        self.fence.wake.set()

    def _back_in_queue(self, delay: float) -> None:
        self.claimer.due_in(delay)

    async def _keep_lines(self) -> None:
        await self.reporter.keep_lines()

    async def _note_late(self, kind: str, **facts: Any) -> None:
        await self.member.note(kind, **facts, by=self.config.name)

    def _busy_for(self) -> float:
        return self.claimer.busy_for()

    def _more_room(self) -> None:
        self.claimer.wake.set()

    def _take_hint(self, hint: Hint) -> None:
        if hint.collection == JOBS:
            self.claimer.hint(hint.first, hint.last, is_fresh=hint.is_fresh)
            if hint.first is None:  # a raw job, or one to be cancelled
                self.numberer.wake.set()
                self._cancels_at = float("-inf")
                self._changed.set()
        elif hint.collection == CLUSTER:
            self.claimer.look_now()
        elif hint.collection == NODES:
            self.beat.hurry()
        elif hint.collection == HELP:
            self.claimer.help_soon()
