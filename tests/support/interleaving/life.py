"""One node process: the product's own `Node` and all its loops, with workers and a heartbeat that
the test can hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tontine.config import Timing
from tontine.errors import TontineError
from tontine.records.states import Desired
from tontine.store import members
from tontine.store.bell import Hint
from tontine_node.config import ContextConfig, NodeConfig
from tontine_node.node import Node
from tontine_node.running.board import Board
from tontine_node.running.pipe import Hello
from tontine_node.running.pool import Child

from .loop import ManualClock, ManualLoop
from .network import Network, Wire
from .worker import KILLED, Run, Worker

# Hardly anybody waits for H: the server's clock is the only one here that the test does not move.
TIMING = Timing(help_after=0.005)


class _Said:
    """A store that has its answer already."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def run(self, steps: Any) -> Any:
        steps.close()
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


class Pulse:
    """The heartbeat's thread as a task: when to beat is here, what a beat means is the
    product's."""

    def __init__(self, node: Node, clock: ManualClock, wire: Wire) -> None:
        self._beat = node.beat
        self._member = node.member
        self._clock = clock
        self._wire = wire
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._once(self._clock.now())
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        last = self._clock.now()
        while not self._beat.is_dead:
            await asyncio.sleep(max(0.0, last + TIMING.heartbeat_every - self._clock.now()))
            if self._beat._stopping.is_set():
                return
            sent = self._clock.now()
            if sent - last > 2 * TIMING.heartbeat_every + TIMING.heartbeat_limit:
                self._beat.disturbed_at = sent
            await self._once(sent)
            last = sent

    async def _once(self, sent: float) -> None:
        facts = {"share": self._member.share_document()}
        steps = members.heartbeat(self._beat.node, facts, TIMING.lease_for, TIMING.heartbeat_limit)
        answer: Any
        try:
            answer = await self._wire.run(steps)
        except TontineError as error:
            answer = error
        setattr(self._beat, "_store", _Said(answer))  # noqa: B010 - it is no whole store
        self._beat._beat(sent)


class Life:
    """A process from its start to its end; a node that is declared dead is followed by another one
    in it."""

    def __init__(
        self,
        name: str,
        clock: ManualClock,
        network: Network,
        database: Any,
        slots: int,
        began: Callable[[Run], None],
        sabotage: Callable[[Node], None],
        complain: Callable[[str], None],
        hello: Hello,
    ) -> None:
        self.name = name
        self.hello = hello
        """What its workers say that they have, those that are started from now on."""
        self.is_frozen = False
        self.is_over = False
        self.was_stopped = False
        self.workers: list[Worker] = []
        self.ids: list[str] = []
        self.node: Node
        self._clock = clock
        self._network = network
        self._database = database
        self._config = NodeConfig(
            ("t",), name, processes=1, slots=slots, timing=TIMING, listens=False
        )
        self._began = began
        self._sabotage = sabotage
        self._hears = False
        self.loop = ManualLoop(clock, complain)
        with self.loop.entered():
            self._main = self.loop.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            wire = Wire(self._network, "", self._database)
            node = self.node = Node(self._config, wire, None, self._clock)  # type: ignore[arg-type]
            wire.sender = node.id
            self.ids.append(node.id)
            for dispatcher in node.contexts:
                dispatcher.pool.spawn = self._spawn
            setattr(node.beat, "start", Pulse(node, self._clock, wire).start)  # noqa: B010 - a coroutine in its stead
            node.listener.is_open = self._hears
            self._sabotage(node)
            if self.was_stopped or not await node.run():
                return

    async def _spawn(
        self, index: int, config: NodeConfig, context: ContextConfig, board: Board
    ) -> Child:
        board.clear(index)
        worker = Worker(self.node.id, index, board, self._clock.now, self._began, self.hello)
        self.workers.append(worker)
        return worker.as_child()

    @property
    def is_awake(self) -> bool:
        return not self.is_over and not self.is_frozen

    @property
    def is_wanted(self) -> bool:
        return self.is_awake and not self.was_stopped and self.node.beat.desired is Desired.RUNNING

    def lease_of(self, node: str) -> float:
        """Until when that incarnation's lease is valid by its own stopwatch."""
        if self.is_over or node != self.node.id or self.node.contexts.is_closed:
            return float("-inf")
        return self.node.contexts.deadline

    @property
    def runs(self) -> list[tuple[Worker, Run]]:
        return [(worker, run) for worker in self.workers for run in worker.running.values()]

    def turn(self) -> None:
        """Let master and workers do what they can do at this moment."""
        if not self.is_awake:
            return
        for _ in range(3):  # orders go one way, reports the other
            self.loop.turn()
            if self._main.done():
                break
            for worker in self.workers:
                worker.work()
            self.workers = [worker for worker in self.workers if worker.returncode is None]
        if self._main.done():
            self._main.exception()
            self.crash()

    @property
    def hears(self) -> bool:
        """Whether it has an ear at the bell; a node that has looks by itself less often."""
        return self._hears

    @hears.setter
    def hears(self, hears: bool) -> None:
        self._hears = self.node.listener.is_open = hears

    def hear(self, hint: Hint) -> None:
        """What its ear does with a ring; `turn` lets it act on it."""
        if self.is_awake:
            with self.loop.entered():
                self.node._take_hint(hint)

    def stop(self) -> None:
        """SIGTERM."""
        self.was_stopped = True
        self.node.ask_to_stop()

    def crash(self) -> None:
        """kill -9; its workers end with it, and what it has sent may still arrive."""
        if self.is_over:
            return
        self.is_over = True
        for worker in self.workers:
            worker.exit(KILLED)
        self.node._tasks.clear()
        for dispatcher in self.node.contexts:
            dispatcher.pool._keepers.clear()
            dispatcher.pool.children.clear()
        self.loop.abandon()
        if not self.node.contexts.is_closed:
            self.node.contexts.close()
