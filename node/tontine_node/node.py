"""The only loop that moves a node's state; it wires the parts together. The master runs no user
code.

One `Node` is one incarnation: a node that was declared dead never comes back, its process starts a
new one. A new part is made in `__init__`, told to whom it listens in `_connect`, and has a line in
`_start_loops` if it has a loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

from tontine.clock import Clock, wall_time
from tontine.errors import ConfigError, StoreError, StoreUnavailable, TontineError
from tontine.records.states import Desired, NodeState
from tontine.store import members, settle
from tontine.store.bell import HELP, Hint
from tontine.store.call import AsyncStore, Store
from tontine.store.names import CLUSTER, JOBS, NODES, PLANS
from tontine.store.retention import Retention
from tontine.uri import shown

from .claiming.cadence import Cadence
from .claiming.careful import Careful
from .claiming.claimer import Claimer
from .claiming.intake import Intake
from .claiming.listener import Listener
from .claiming.numberer import Numberer
from .claiming.range_walk import RangeWalk
from .claiming.scheduler import Scheduler
from .claiming.surroundings import Surroundings
from .claiming.turn import Turn
from .claims import Claims
from .config import NodeConfig
from .drain import Drain
from .healer import Healer
from .kept import Kept
from .loop import cancel, keep_going, rest
from .membership.fence import GUARD_EVERY, Fence
from .membership.heartbeat import Heartbeat
from .membership.member import Member
from .membership.modules import Modules
from .membership.registration import Registration, wait_for_store
from .membership.sampler import Sampler, SampleState
from .planning.planning import Planning
from .running.changes import Changes
from .running.contexts import Contexts
from .running.described import describe_contexts
from .running.limits import Limits
from .running.offspring import Offspring
from .running.pages import PageReader
from .running.staging import Staging
from .running.states import StateKeeper
from .settling.repairer import Repairer
from .settling.reporter import Reporter
from .settling.settler import Settler
from .settling.tidier import Tidier
from .settling.timer import Timer
from .telling.announce import announce_later
from .telling.journal import Journal
from .telling.live_file import LiveFile, Vital
from .telling.parting import tell_stopped
from .telling.troubles import Troubles
from .telling.usage import Usage

log = logging.getLogger(__name__)

CONTROL_EVERY, CONTROL_IDLE_EVERY = 0.2, 2.5
STATE_EVERY = 1.0
CANCELS_EVERY = 0.5
HOLD_AT_MOST = 1.0
HOLD_WITHOUT_WORKERS = 10.0


class Node:
    """One incarnation of a node, from its registration to its death."""

    def __init__(
        self,
        config: NodeConfig,
        store: AsyncStore,
        beat_store: Store,
        clock: Clock,
        kept: Kept | None = None,
    ) -> None:
        self.id = node = f"{config.name}-{uuid4().hex[:8]}"
        self.config = config
        self.state = NodeState.INITIALIZING
        self.is_ready: Callable[[Node], None] = lambda _: None
        """Called when it has loaded its modules and joined."""
        self._store = store
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._born_at = clock.now()
        self._moved_at = self._cancels_at = float("-inf")
        self._looks_soon = False
        self._tasks: list[asyncio.Task[None]] = []

        timing = config.timing
        self.troubles = troubles = Troubles()
        self.usage = Usage()
        self.claims = claims = Claims(most_bytes=config.max_held)
        self.kept = kept = kept or Kept.of(config)
        self.settler = Settler(node, store, claims, self._retention, troubles)
        self.contexts = contexts = Contexts(
            config, clock, claims, self.settler.add, troubles, is_first=kept.is_first
        )
        self.beat = beat = Heartbeat(
            node, beat_store, timing, clock, contexts, self._facts, self._wake_control
        )
        self.member = member = Member(node, config.name, store, timing, clock, beat)
        self.changes = Changes(config, contexts, claims, kept.wants)
        self.modules = Modules(store, clock, beat, member, contexts, self.changes, kept)
        self.sampler = Sampler(config.name, store, timing, clock, beat, self._standing)
        self.healer = Healer(store, clock, member, troubles)

        self.limits = Limits(contexts, clock)
        self.offspring = Offspring(store, clock)
        self.pages = PageReader(store, clock, troubles)
        self.staging = Staging(node, store, clock, claims, troubles)
        self.states = StateKeeper(store, contexts, troubles)
        self.reporter = Reporter(node, store, clock, claims, contexts, self._retention)
        self.fence = Fence(clock, beat, claims, contexts)

        cadence = Cadence(clock, lambda: self.listener.is_open)
        self.surroundings = Surroundings(store, cadence, member)
        self.careful = careful = Careful(node, store, claims, self._careful_keys)
        self.turns = [
            Turn(
                node,
                store,
                timing,
                cadence,
                member,
                claims,
                dispatcher,
                self.surroundings,
                careful,
            )
            for dispatcher in contexts
        ]
        self.claimer = claimer = Claimer(
            node,
            store,
            cadence,
            beat,
            claims,
            self.surroundings,
            careful,
            self.turns,
            troubles,
        )
        self.listener = Listener(store, claimer.busy_for, self._take_hint)
        self.numberer = Numberer(store, timing, clock, member.own_share, claimer.hint, troubles)
        self.intake = Intake(
            store,
            timing,
            clock,
            member.own_share,
            lambda: self.surroundings.has_inbox,
            claimer.hint,
            troubles,
        )
        self.scheduler = Scheduler(
            store,
            timing,
            clock,
            member.own_share,
            claimer.hint,
            troubles,
            lambda: contexts.schedules,
        )
        self.range_walk = RangeWalk(
            store,
            clock,
            member.own_share,
            self.surroundings,
            beat.server_now,
            self._retention,
            troubles,
        )
        self.timer = Timer(
            store, member.own_share, self._retention, partial(member.note, by=config.name), troubles
        )
        self.tidier = Tidier(store, member.own_share, troubles)
        self.repairer = Repairer(
            store, timing, clock, beat, member, claims, contexts, self._retention, troubles
        )
        self.planning = Planning(store, timing, clock, member, self._retention, troubles)
        self.drain = Drain(
            config.grace,
            clock,
            beat,
            claims,
            claimer,
            contexts,
            self.limits,
            member,
            self.fence,
            self.settler,
            self.reporter,
            self._changed,
        )
        self.live_file = (
            LiveFile(config.live_file, node, self._vital, troubles) if config.live_file else None
        )
        self._connect()

    def _connect(self) -> None:
        """Who hears of whom, where the one is made before the other."""
        self.beat.where = shown(self.config.store.uri or "")
        self._store.refused = self.healer.suspect
        self.claims.filled = self._look_soon
        self.claims.eased = self.claimer.wake.set
        for dispatcher in self.contexts:
            dispatcher.eased = self.claimer.wake.set
            dispatcher.changed = self._changed.set
            dispatcher.server_now = self.beat.server_now
            dispatcher.is_noted = self.careful.is_noted
            dispatcher.take_requests = self.offspring.take
            dispatcher.take_wanted = self.pages.take
            dispatcher.staging = self.staging
            dispatcher.greet = self.states.greet
            dispatcher.unread = self.states.unread
        self.settler.journal = Journal(self.id, self.contexts.attempts_of)
        self.settler.keep_lines = self.reporter.keep_lines
        self.settler.back_in_queue = self.claimer.due_in
        self.planning.connect(self.settler, self.repairer, self.claimer)
        self.surroundings.states_told = self.states.told
        self.member.moved = self.claimer.look_now
        self.member.inherited = partial(self.claimer.due_in, 0.0)
        self.member.repair = self.repairer.repair
        self.member.reads_often = lambda: self.claimer.is_open
        self._hints: dict[str, list[Callable[[Hint], None]]] = {
            JOBS: [self.claimer.take_hint, self._take_hint_of_job],
            CLUSTER: [lambda _: self.claimer.look_now()],
            NODES: [lambda _: self.beat.hurry()],
            HELP: [lambda _: self.claimer.help_soon()],
            PLANS: [self.planning.take_hint],
        }

    def ask_to_stop(self) -> None:
        """Once: leave, finish what runs, stop. Twice: end what runs, too."""
        self.drain.ask_to_stop()

    async def run(self) -> bool:
        """Live this life to its end; True when it ended because it was declared dead, so that a new
        one may start."""
        if self.live_file is not None:
            self.live_file.start()
        try:
            registration = Registration(
                self.id, self.config, self._store, self._clock, self.kept.wants
            )
            while not await registration.attempt():
                if self.drain.stops_asked:
                    return False
            await asyncio.to_thread(self.beat.start)
            await self._initialize()
            self._start_loops()
            return await self._control()
        finally:
            if self.live_file is not None:
                await asyncio.to_thread(self.live_file.stop)
            await self._end()

    async def _initialize(self) -> None:
        await self.member.note("node", node=self.id, name=self.config.name, to=self.state.value)
        try:
            await self.contexts.start(self._is_over)
        except ConfigError as error:
            await self._die_of(error)
            raise
        while not self._is_over():
            try:
                self.modules.look()
                await self.modules.tell()
                await self.states.look_first()
                await self._move(NodeState.WAITING)
                await self.drain.join()
                self._say_ready()
                break
            except StoreUnavailable as error:
                await wait_for_store(error)

    async def _die_of(self, error: ConfigError) -> None:
        await self._say_stopped(str(error)[:500])

    def _say_ready(self) -> None:
        """Once, when there is something to work with; and once of every context that is ready only
        later."""
        said = self.contexts.announced
        news = [one for one in self.contexts if one.pool.is_ready and one.context.name not in said]
        if news and not said:
            self.is_ready(self)
        else:
            for one in news:
                announce_later(one.context.name, one.modules)
        said.update(one.context.name for one in news)

    def _is_stop_wanted(self) -> bool:
        return self.drain.stops_asked > 0 or self.beat.desired is Desired.STOPPED

    def _is_over(self) -> bool:
        return self._is_stop_wanted() or self.beat.is_dead

    def _start_loops(self) -> None:
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "claiming": self.claimer.run,
            "settling": self.settler.run,
            "numbering": self.numberer.run,
            "intake": self.intake.run,
            "schedules": self.scheduler.run,
            "ranges": self.range_walk.run,
            "times": self.timer.run,
            "outputs": self.tidier.run,
            "states": self.states.run,
            "watching": partial(self.member.watch, self.troubles),
            "upkeep": self.repairer.run,
            "fence": self.fence.run,
            "samples": self.sampler.run,
            "healing": self.healer.run,
            **self.planning.loops,
        }
        if self.config.listens:
            loops["listening"] = self.listener.run
        self._tasks = [
            asyncio.create_task(keep_going(what, run, self.troubles)) for what, run in loops.items()
        ]

    async def _end(self) -> None:
        self.fence.is_over = True
        served = (self.offspring, self.staging, self.pages)
        await cancel(lambda: [*self._tasks, *(task for one in served for task in one.tasks)])
        stuck = await self.contexts.kill_all("the node ends")
        await asyncio.to_thread(self.beat.stop)
        if not stuck:  # those have it open, and so does who waits for their end
            self.contexts.close()

    async def _control(self) -> bool:
        """Follow the lease and what is desired until this life ends; True when it was ended by
        others."""
        while True:
            is_idle = not len(self.claims) and self.state is not NodeState.WORKING
            await rest(self._changed, CONTROL_IDLE_EVERY if is_idle else CONTROL_EVERY)
            self._changed.clear()
            if self.beat.is_dead:
                log.warning(
                    "declared dead by others; starting again",
                    extra={"event": "dead", "node": self.id},
                )
                return True
            try:
                if self._is_stop_wanted():
                    await self._stop()
                    return False
                await self._end_if_hopeless()
                await self._follow_desired()
                await self._mend_state()
                await self.modules.keep()
                self._say_ready()
                await self._look_after_jobs()
                self.troubles.over("control")
            except StoreError as error:
                self.troubles.note("control", error)
                log.warning(
                    "following what is asked failed",
                    extra={"event": "control-failed", "error": str(error)},
                )
            except TontineError:
                raise
            except Exception as error:
                # The top of this loop: without it one odd document would end the node.
                self.troubles.note("control", repr(error))
                log.exception("looking after jobs failed", extra={"event": "control-failed"})

    async def _end_if_hopeless(self) -> None:
        """What the only context is to load cannot be, or one is misconfigured, and it took long
        to say so (MC3)."""
        try:
            self.contexts.check()
        except ConfigError as error:
            log.warning(
                "what it is to load cannot be loaded; stopping",
                extra={"event": "misconfigured", "error": str(error)},
            )
            await self.drain.stop(partial(self._die_of, error))
            raise

    async def _stop(self) -> None:
        await self.drain.stop(self._say_stopped)
        tell_stopped(self.settler.done, self.settler.failed, self._clock.now() - self._born_at)

    async def _say_stopped(self, death: str = "stopped") -> None:
        """The last write has the last sums (MI6): no heartbeat will tell them."""
        sums = {f"metrics.{name}": value for name, value in self.settler.metrics().items()}
        await self._move(NodeState.DEAD, death=death, **sums)

    async def _follow_desired(self) -> None:
        if self.beat.desired is Desired.PAUSED and self.state is not NodeState.PAUSED:
            await self.drain.leave()
            if not len(self.claims):
                await self._move(NodeState.PAUSED)
        elif self.beat.desired is Desired.RUNNING and not self.member.is_wanted:
            if self.state is NodeState.PAUSED:
                await self._move(NodeState.WAITING)
            await self.drain.join()
        elif self.state in (NodeState.WAITING, NodeState.WORKING):
            await self._show_state()

    async def _show_state(self) -> None:
        target = NodeState.WORKING if len(self.claims) else NodeState.WAITING
        if target is not self.state and self._clock.now() - self._moved_at >= STATE_EVERY:
            await self._move(target)

    async def _mend_state(self) -> None:
        """A move that was given up may land after a later one: then the record says what is no
        longer true."""
        if self.beat.seen is not None:
            sent, record = self.beat.seen
            if sent > self._moved_at and record.state is not self.state:
                await self._move(self.state)

    async def _move(self, target: NodeState, **values: Any) -> None:
        if await self._store.run(members.move(self.id, target, **values)):
            before, self.state = self.state, target
            self._moved_at = self._clock.now()
            if {before, target} == {NodeState.WAITING, NodeState.WORKING}:
                return  # a busy node's daily turn would fill `events`; samples tell the same
            why = values.get("death")
            facts = {
                "node": self.id,
                "name": self.config.name,
                "from": before.value,
                "to": target.value,
                "why": why,
            }
            await self.member.note("node", **facts)

    async def _look_after_jobs(self) -> None:
        """Time limits, cancelling, progress, and jobs that wait here although all slots are
        taken."""
        self.limits.look()
        if not self.contexts.is_draining and self.beat.has_lease():
            for dispatcher in self.contexts:
                is_ready = dispatcher.pool.is_ready
                dispatcher.release_held(HOLD_AT_MOST if is_ready else HOLD_WITHOUT_WORKERS)
        now = self._clock.now()
        if now - self._cancels_at >= CANCELS_EVERY and self.reporter.long_running():
            self._cancels_at = now
            self.limits.cancel(await self._store.run(settle.find_cancelled(self.id)))  # J8
        await self.reporter.show()
        await self.staging.write_saved()

    def _facts(self) -> dict[str, Any]:
        """What goes with each heartbeat; called in its thread."""
        return {
            "tick": self.claimer.tick,
            "running": len(self.contexts.running()),
            # Written when it changes, too; a write of that which was given up may land late.
            "share": self.member.share_document(),
            "metrics": {
                **self.usage.metrics(self.contexts.pids),
                **self.settler.metrics(),
                **self.claims.metrics(),
                **self.contexts.metrics(),
                "clock": datetime.fromtimestamp(wall_time(), UTC),  # for whoever looks for skew
            },
            "contexts": describe_contexts(self.contexts, self._clock),
            "troubles": self.troubles.to_document(),
        }

    def _vital(self) -> Vital:
        """Called in the live file's thread."""
        is_idle = not any(dispatcher.is_needed for dispatcher in self.contexts)
        workers = self.contexts.ready or int(is_idle)
        return Vital(self.beat.has_lease(), self.claimer.tick, workers)

    def _standing(self) -> SampleState:
        seq = max(turn.lanes.counter for turn in self.turns)
        return SampleState(self.state, self.contexts.slots, seq, self.member.shown_share)

    def _careful_keys(self) -> set[str]:
        """The task keys that this node may claim, and must not run twice."""
        return {key for turn in self.turns for key in turn.choice.careful_keys()}

    def _retention(self) -> Retention:
        return self.surroundings.retention

    def _wake_control(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)

    def _look_soon(self) -> None:
        """There is something in hand again: whoever was idle looks at it, but not before it had a
        chance to run."""
        if not self._looks_soon:
            self._looks_soon = True
            self._loop.call_later(GUARD_EVERY, self._look)

    def _look(self) -> None:
        self._looks_soon = False
        self._changed.set()
        self.fence.wake.set()

    def _take_hint(self, hint: Hint) -> None:
        for take in self._hints.get(hint.collection, ()):
            take(hint)

    def _take_hint_of_job(self, hint: Hint) -> None:
        if hint.first is None:  # a raw job, or one to be cancelled
            self.numberer.wake.set()
            self._cancels_at = float("-inf")
            self._changed.set()
