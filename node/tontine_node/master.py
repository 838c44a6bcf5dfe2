"""The only loop that moves a node's state; it wires the parts together. The master runs no user code.

One `Node` is one incarnation: a node that was declared dead never comes back, its process starts a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import psutil

from tontine.clock import Clock
from tontine.errors import ConfigError, DuplicateKey, StoreError, StoreUnavailable, TontineError
from tontine.share import Share
from tontine.states import Desired, NodeState
from tontine.store import members, settle
from tontine.store.call import AsyncStore, Store
from tontine.store.schema import CLUSTER, JOBS, NODES
from tontine.store.settle import Outcome
from tontine.store.watch import Hint

from .board import Board
from .claimer import Claimer
from .config import NodeConfig
from .keeper import Keeper
from .member import Heartbeat, Member
from .numberer import Numberer
from .settler import Settler
from .supervisor import FENCE, Supervisor
from .table import Status, Table
from .waker import Waker

log = logging.getLogger(__name__)

CONTROL_EVERY = 0.2
STATE_EVERY = 1.0
HOLD_AT_MOST = 1.0
SHOW_AFTER = 0.5
LAST_WRITES = 10.0


class Node:
    """One incarnation of a node, from its registration to its death."""

    def __init__(self, config: NodeConfig, store: AsyncStore, beat_store: Store, clock: Clock) -> None:
        self.id = f"{config.name}-{uuid4().hex[:8]}"
        self.config = config
        self.state = NodeState.INITIALIZING
        self._store = store
        self._clock = clock
        self._timing = config.timing
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._stops_asked = 0
        self._is_fenced = self._was_starved = False
        self._moved_at = float("-inf")
        self._shown: dict[int, tuple[float, str] | None] = {}
        self._shown_at = self._cancels_at = 0.0
        self._share: Share | None = None
        self._processes: dict[int, psutil.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []

        self.board = Board.create(config.processes, config.slots)
        self.table = Table()
        self.settler = Settler(self.id, store, self.table)
        self.supervisor = Supervisor(config, clock, self.board, self.table, self.settler.add, self._more_room)
        self.beat = Heartbeat(self.id, beat_store, self._timing, clock, self.board, self._facts, self._wake_control)
        self.member = Member(self.id, config.name, store, self._timing, clock, self.beat)
        self.waker = Waker(store, clock, lambda: self.claimer.is_idle, self._take_hint)
        self.claimer = Claimer(
            self.id,
            store,
            self._timing,
            clock,
            self.beat,
            self.member,
            self.table,
            self.supervisor,
            lambda: self.waker.is_watching,
        )
        self.numberer = Numberer(
            store,
            self._timing,
            clock,
            lambda: self.member.roster.share_of(self.id) if self.beat.has_lease() else None,
            lambda: self.waker.is_watching,
            self.claimer.hint,
        )
        self.keeper = Keeper(self.id, store, clock, self.beat, self.member, self.table, self.supervisor)

    def ask_to_stop(self) -> None:
        """Once: leave, finish what runs, stop. Twice: end what runs, too."""
        self._stops_asked += 1
        self._changed.set()

    async def run(self) -> bool:
        """Live this life to its end; True when it ended because it was declared dead, so that a new one may start."""
        try:
            if not await self._register():
                return False
            await asyncio.to_thread(self.beat.start)
            await self._initialize()
            self._start_loops()
            return await self._control()
        finally:
            await self._end_loops()
            self.board.close()

    async def _register(self) -> bool:
        """Insert this node's record, waiting for its name if need be; False when it was asked to stop meanwhile."""
        record = {
            "name": self.config.name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version("tontine"),
            "slots": self.supervisor.slots,
            "lease": self._timing.lease_for,
            "modules": [],
            "metrics": {},
        }
        watched: tuple[Any, int, float] | None = None
        while not self._stops_asked:
            try:
                await self._store.run(members.register(self.id, record, self._timing.lease_for))
            except StoreUnavailable as error:
                await self._wait_for_store(error)
                continue
            except DuplicateKey as error:
                if "name" in error.key:
                    watched = await self._wait_for_name(watched)
                    continue
                # Ids are random: a record with ours is ours, written by a try that seemed to fail.
            await self.member.note("node", node=self.id, name=self.config.name, to=self.state.value)
            log.info("registered", extra={"event": "registered", "node": self.id})
            return True
        return False

    async def _wait_for_store(self, error: StoreError) -> None:
        log.warning("waiting for MongoDB", extra={"event": "store-away", "error": str(error)})
        await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311

    async def _wait_for_name(self, watched: tuple[Any, int, float] | None) -> tuple[Any, int, float] | None:
        """A namesake that still beats keeps the name; one whose beat stands still for a lease is buried."""
        try:
            other = await self._store.run(members.namesake(self.config.name))
        except StoreUnavailable as error:
            await self._wait_for_store(error)
            return None
        if other is None:
            return None
        who, beat, now = other["_id"], int(other["beat"]), self._clock.now()
        if watched is None or watched[0] != who:
            log.info("waiting: the name is taken", extra={"event": "name-taken", "node": who})
            watched = (who, beat, now)
        elif watched[1] != beat:
            raise ConfigError(
                f"a node named {self.config.name!r} is running already (pid {other.get('pid')} on "
                f"{other.get('host')}): choose another --name, or `tontine stop {self.config.name}` first"
            )
        elif now - watched[2] >= max(self._timing.lease_for, float(other.get("lease") or 0)):
            await self._store.run(members.bury(who, beat))
        await asyncio.sleep(self._timing.heartbeat_every / 2)
        return watched

    async def _initialize(self) -> None:
        try:
            await self.supervisor.start()
        except ConfigError as error:
            await self.supervisor.kill_all("the node ends")
            await self._move(NodeState.DEAD, death=str(error)[:500])
            raise
        while not self.beat.is_dead and not self._stops_asked:
            try:
                await self._store.run(members.describe(self.id, {"modules": self.supervisor.modules}))
                await self._move(NodeState.WAITING)
                return await self._join()
            except StoreUnavailable as error:
                await self._wait_for_store(error)
        return None

    async def _join(self) -> None:
        self.member.is_wanted = True
        await self.member.refresh()
        self.supervisor.is_draining = False
        self.claimer.is_open = True
        await self._keep_place()
        self.claimer.look_now()

    async def _keep_place(self) -> None:
        before = self.member.roster.epoch
        await self.member.keep_place()
        await self._show_share()
        if self.member.roster.epoch != before and self.member.roster.share_of(self.id):
            self.claimer.look_now()

    async def _show_share(self) -> None:
        share = self.member.roster.share_of(self.id)
        if share != self._share:
            value = share.to_document() if share else None
            await self._store.run(members.describe(self.id, {"share": value}))
            self._share = share
            facts = {"event": "share", **(value or {})}
            log.info("owns a share" if share else "owns no share", extra=facts)

    def _start_loops(self) -> None:
        loops: list[Callable[[], Awaitable[None]]] = [
            self.claimer.run,
            self.settler.run,
            self.numberer.run,
            self._watch_others,
            self._upkeep,
        ]
        if self.config.streams:
            loops.append(self.waker.run)
        self._tasks = [asyncio.create_task(self._forever(loop)) for loop in loops]

    async def _end_loops(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.supervisor.kill_all("the node ends")
        await asyncio.to_thread(self.beat.stop)

    async def _forever(self, loop: Callable[[], Awaitable[None]]) -> None:
        """The top of each loop: whatever goes wrong in one, the node lives on and says so."""
        while True:
            try:
                return await loop()
            except Exception:
                log.exception("a loop failed and starts again", extra={"event": "loop-failed"})
                await asyncio.sleep(1)

    async def _watch_others(self) -> None:
        while True:
            await asyncio.sleep(self._timing.heartbeat_every * random.uniform(0.8, 1.0))  # noqa: S311
            try:
                buried = await self.member.watch_others()
                if buried or not self.claimer.is_open:  # otherwise the claim loop has just read it
                    await self.member.refresh()
                await self.member.remove_dead()
                await self._keep_place()
                if buried:
                    await self.keeper.repair()
                    self.claimer.look_now()
            except StoreError as error:
                log.warning("watching failed", extra={"event": "watch-failed", "error": str(error)})

    async def _upkeep(self) -> None:
        while True:
            await asyncio.sleep(self._timing.upkeep_every * random.uniform(1.0, 2.0))  # noqa: S311
            await self.keeper.round()

    def _wake_control(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    def _more_room(self) -> None:
        self.claimer.wake.set()

    def _take_hint(self, hint: Hint) -> None:
        if hint.collection == JOBS:
            self.claimer.hint(hint.seq)
            if hint.seq is None:
                self.numberer.wake.set()
                self._cancels_at = 0.0
                self._changed.set()
        elif hint.collection == CLUSTER:
            self.claimer.look_now()
        elif hint.collection == NODES:
            self._changed.set()

    async def _control(self) -> bool:
        """Follow the lease and what is desired until this life ends; True when it was ended by others."""
        while True:
            await self._wait(CONTROL_EVERY)
            if self.beat.is_dead:
                log.warning("declared dead by others; starting again", extra={"event": "dead", "node": self.id})
                return True
            try:
                await self._follow_lease()
                if self._stops_asked or self.beat.desired is Desired.STOPPED:
                    await self._stop()
                    return False
                await self._follow_desired()
                await self._look_after_jobs()
            except StoreError as error:
                log.warning("the store is away", extra={"event": "store-away", "error": str(error)})
            except ConfigError as error:
                log.error("no worker could start", extra={"event": "no-worker", "error": str(error)})  # noqa: TRY400

    async def _follow_lease(self) -> None:
        """Fence when the lease has run out (N5); go on when it is back."""
        if not self.beat.has_lease() and not self._is_fenced:
            self._is_fenced = True
            self._was_starved = not self.beat.failed_since_renewal
            log.warning("lease ran out: ended what ran", extra={"event": "fenced", "starved": self._was_starved})
            await self.supervisor.kill_all(FENCE)
        elif self.beat.has_lease() and self._is_fenced:
            self._is_fenced = False
            log.info("the lease is back", extra={"event": "unfenced"})
            self._release_killed()
            await self.supervisor.start()
            self.supervisor.hold_again()
            self.supervisor.dispatch()

    def _release_killed(self) -> None:
        """Give back what a fence ended. If no call had failed, the work starved the heartbeat, and that counts (P1)."""
        for entry in self.table.having(Status.KILLED):
            entry.status = Status.RESULT
            self.settler.add(Outcome("lost" if self._was_starved else "released", entry.seq, entry.attempt))

    async def _follow_desired(self) -> None:
        if self.beat.desired is Desired.PAUSED and self.state is not NodeState.PAUSED:
            await self._drain()
            if not len(self.table):
                await self._move(NodeState.PAUSED)
        elif self.beat.desired is Desired.RUNNING and not self.member.is_wanted:
            if self.state is NodeState.PAUSED:
                await self._move(NodeState.WAITING)
            await self._join()
        elif self.state in (NodeState.WAITING, NodeState.WORKING):
            await self._show_state()

    async def _show_state(self) -> None:
        target = NodeState.WORKING if len(self.table) else NodeState.WAITING
        if target is not self.state and self._clock.now() - self._moved_at >= STATE_EVERY:
            await self._move(target)

    async def _drain(self) -> None:
        """Leave the roster and give back what has not started (N7); what runs goes on."""
        self.claimer.is_open = False
        self.supervisor.is_draining = True
        if self.member.is_wanted:
            self.member.is_wanted = False
            self.supervisor.recall_all()
            await self.member.refresh()
        await self._keep_place()
        self._release_held(patience=0.0)

    def _release_held(self, patience: float) -> None:
        for entry in self.supervisor.take_back(patience):
            entry.status = Status.RESULT
            self.settler.add(Outcome("released", entry.seq, entry.attempt))

    async def _look_after_jobs(self) -> None:
        """Time limits, cancelling, progress, and jobs that wait here although all slots are taken."""
        self.supervisor.look_after()
        if self.supervisor.is_ready and not self.supervisor.is_draining:
            self._release_held(patience=HOLD_AT_MOST)
        now = self._clock.now()
        running = {seq: since for seq, since in self.supervisor.running().items() if now - since > SHOW_AFTER}
        if running and now - self._cancels_at >= 0.5:
            self._cancels_at = now
            await self.keeper.look_for_cancelled()
        if now - self._shown_at >= 0.5:
            self._shown_at = now
            await self._show_running(running, now)

    async def _show_running(self, running: dict[int, float], now: float) -> None:
        """Write when longer jobs started and how far they are, at most twice a second for each."""
        marks = []
        for seq, since in running.items():
            progress, entry = self.supervisor.progress.get(seq), self.table.get(seq)
            if entry is not None and (seq not in self._shown or self._shown[seq] != progress):
                note = {"value": progress[0], "note": progress[1]} if progress else None
                marks.append((seq, entry.attempt, now - since, note))
        self._shown = {seq: self.supervisor.progress.get(seq) for seq in running}
        if marks:
            await self._store.run(settle.note_running(self.id, marks))

    async def _stop(self) -> None:
        """Leave, give back, finish, settle, and as the last write say so (N7)."""
        log.info("stopping", extra={"event": "stopping", "running": len(self.supervisor.running())})
        until = self._clock.now() + self.config.grace
        while True:
            try:
                await self._drain()
                self.supervisor.look_after()
            except StoreError as error:
                log.warning("the store is away", extra={"event": "store-away", "error": str(error)})
            hurry = self._stops_asked > 1 or self.beat.is_dead or self._clock.now() > until
            if hurry or not len(self.table):
                break
            await self._wait(0.05)
        await self.supervisor.kill_all("the node stops")
        self._release_held(patience=0.0)
        self._release_killed()
        try:
            async with asyncio.timeout(LAST_WRITES):
                await self._drain()
                await self.settler.drained()
                await asyncio.to_thread(self.beat.stop)
                await self._move(NodeState.DEAD, death="stopped")
        except (StoreError, TimeoutError) as error:
            raise TontineError(
                f"stopped, but MongoDB did not take the last {len(self.table)} outcomes: other nodes rerun those jobs"
            ) from error

    async def _wait(self, limit: float) -> None:
        """Until something changed, or for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._changed.wait()
        self._changed.clear()

    async def _move(self, target: NodeState, **values: Any) -> None:
        if await self._store.run(members.move(self.id, target, **values)):
            before, self.state = self.state, target
            self._moved_at = self._clock.now()
            why = values.get("death")
            facts = {"node": self.id, "name": self.config.name, "from": before.value, "to": target.value, "why": why}
            await self.member.note("node", **facts)

    def _facts(self) -> dict[str, Any]:
        """What goes with each heartbeat; called in its thread."""
        cpu, memory = self._usage()
        return {
            "tick": self.claimer.tick,
            "running": len(self.supervisor.running()),
            "metrics": {
                "cpu": cpu,
                "memory": memory,
                "done": self.settler.done,
                "failed": self.settler.failed,
                "retried": self.settler.retried,
                "dropped": self.settler.dropped,
                "held": len(self.table),
                "crashes": self.supervisor.crashes,
                "last_crash": self.supervisor.last_crash,
            },
        }

    def _usage(self) -> tuple[float, int]:
        """CPU (1.0 is one core) and memory of the master and its workers."""
        pids = [os.getpid(), *self.supervisor.pids()]
        cpu, memory = 0.0, 0
        for pid in pids:
            try:
                process = self._processes.setdefault(pid, psutil.Process(pid))
                cpu += process.cpu_percent() / 100
                memory += process.memory_info().rss
            except psutil.Error:
                continue
        self._processes = {pid: process for pid, process in self._processes.items() if pid in pids}
        return round(cpu, 3), memory
