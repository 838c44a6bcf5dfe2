"""The worker processes of a node: started, listened to, replaced when they end, killed. What they
work on is their master's matter."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from subprocess import SubprocessError
from typing import Protocol

from tontine.clock import Clock
from tontine.config import worker_environment
from tontine.errors import ConfigError

from ..config import NodeConfig
from ..telling.troubles import Troubles
from . import pipe
from .board import Board
from .process import Process, explain_exit, keep_alive

log = logging.getLogger(__name__)

FENCE = "the lease ran out"
REPLACED = "it is replaced"
START_LIMIT = 60.0
STARTS_AT_MOST = 3
END_WITHIN = 5.0
"""How long SIGKILL may take to end a worker before the node goes on without it."""
READ_WITHIN = 1.0
"""How long the last reports of a worker that has ended may take to arrive."""
CLOSED_FOR = 0.2
"""How long a worker may live after it has closed its connection."""


@dataclass(slots=True, eq=False)
class Child:
    """One worker process as its master sees it."""

    index: int
    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_ready: bool = False
    """It has loaded the modules."""
    kill_reason: str = ""
    broken: str = ""
    """Why it cannot load the modules."""

    @property
    def can_work(self) -> bool:
        return self.is_ready and not self.kill_reason

    @property
    def exit_reason(self) -> str:
        return explain_exit(self.process.returncode or 0)

    def send(self, orders: pipe.Orders) -> None:
        if not self.writer.is_closing():
            self.writer.write(orders.pack())

    def kill(self, reason: str) -> None:
        self.kill_reason = self.kill_reason or reason
        self.process.kill()

    def hang_up(self) -> None:
        """Let the connection end after what is still in it, although somebody else may hold its
        other end.

        Elsewhere than on Linux that would throw away what is in it.
        """
        connection: socket.socket | None = self.writer.get_extra_info("socket")
        if sys.platform == "linux" and connection is not None and not self.writer.is_closing():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)


async def spawn(index: int, config: NodeConfig, board: Board) -> Child:
    """Start a worker by exec, with one end of a socket pair and the board."""
    ours, theirs = socket.socketpair()
    with theirs:
        # First the connection: what can fail after the process has started would leave one that
        # nobody knows.
        reader, writer = await asyncio.open_connection(sock=ours, limit=2**20)
        board.clear(index)
        numbers = (index, theirs.fileno(), board.fd, config.processes, config.slots, os.getpid())
        module = [sys.executable, "-m", "tontine_node.worker.main"]
        context = config.contexts[0]
        command = [*module, *map(str, numbers), config.log.word, context.argument()]
        environment = worker_environment(config.store, share_uri=config.share_uri)
        environment |= context.env
        try:
            return Child(
                index, Process(command, environment, (theirs.fileno(), board.fd)), reader, writer
            )
        except BaseException:
            writer.close()
            raise


class Master(Protocol):
    """Whoever the workers work for."""

    def started(self, child: Child) -> None:
        """There is a new process; it loads its modules."""

    def heard(self, child: Child, reports: pipe.Reports) -> None:
        """It has said something."""

    def ended(self, child: Child) -> bool:
        """It is gone; returns whether it had been of any use."""


class Pool:
    """The workers of one node, each in a place of its own."""

    def __init__(
        self, config: NodeConfig, clock: Clock, board: Board, troubles: Troubles, master: Master
    ) -> None:
        self.children: dict[int, Child] = {}
        self.crashes = 0
        self.last_crash = ""
        self.spawn = spawn
        self._config = config
        self._clock = clock
        self._board = board
        self._troubles = troubles
        self._master = master
        self._keepers: dict[int, asyncio.Task[None]] = {}
        self._ending = asyncio.Event()
        self._has_loaded = False
        """Whether a worker has ever loaded the modules."""
        self._refusal = ""
        self._failing: set[int] = set()
        """Places where a worker cannot be started."""
        self._spawn_failed_at = float("-inf")

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    @property
    def is_ready(self) -> bool:
        return self.ready > 0 and not self.is_ending

    @property
    def ready(self) -> int:
        """How many workers could run a job."""
        return sum(child.can_work for child in list(self.children.values()))

    @property
    def pids(self) -> set[int]:
        return {child.process.pid for child in list(self.children.values())}

    def keep_workers(self) -> None:
        """Start all workers, and from now on in place of each that ends another one."""
        self._ending.clear()
        for index in range(self._config.processes):
            # The keeper of a worker that does not end is still there, and goes on when it does.
            if index not in self._keepers or self._keepers[index].done():
                self._keepers[index] = asyncio.create_task(self._keep(index))

    async def start(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Start all workers; returns when one has loaded the modules, raises `ConfigError` if they
        cannot be.

        A process that cannot even be started is no fault of theirs: that is waited out, or until
        `is_over`.
        """
        self._refusal = ""
        self.keep_workers()
        begun, crashes, modules = self._clock.now(), self.crashes, ", ".join(self._config.modules)
        while not self.is_ready and not is_over():
            if self._refusal:
                raise ConfigError(self._refusal)
            if self.crashes >= crashes + STARTS_AT_MOST:
                raise ConfigError(f"workers end while they load {modules}: {self.last_crash}")
            if self._clock.now() > max(begun, self._spawn_failed_at) + START_LIMIT:
                raise ConfigError(f"no worker could load {modules} in {START_LIMIT:g} s")
            await asyncio.sleep(0.01)

    async def kill_all(self, reason: str) -> list[int]:
        """End every worker at once and wait until they are gone; the pids of those that even so do
        not end.

        What these run stays theirs: nobody may have it before their end is certain (N5, S3).
        """
        self.kill_for_good(reason)
        if keepers := self._keepers.values():
            await asyncio.wait(keepers, timeout=END_WITHIN)
        stuck = [child.process.pid for child in self.children.values()]
        if stuck:
            self._troubles.note("workers", f"SIGKILL does not end the worker processes {stuck}")
            log.error(
                "workers do not end; going on without them",
                extra={"event": "workers-stay", "pids": stuck},
            )
        return stuck

    def kill_for_good(self, reason: str) -> None:
        """End every worker at once, and start no other."""
        self._ending.set()
        self.kill_now(reason)

    def kill_now(self, reason: str) -> None:
        """Kill every worker that is there; in any thread."""
        for child in list(self.children.values()):
            child.kill(reason)

    def take(self, child: Child, reports: pipe.Reports) -> None:
        """Take what a worker says: first whether it can work at all."""
        for _ in reports.hello:
            self._has_loaded = child.is_ready = True
            self._failing.discard(child.index)
            if not self._failing:
                self._troubles.over("workers")
        for broken in reports.broken:
            child.broken = self._refusal = broken.why
            self._note_crash(broken.why)
            self._note_failure(child.index, broken.why, is_told=not self._has_loaded)
        self._master.heard(child, reports)

    async def _keep(self, index: int) -> None:
        """Keep one worker running."""

        async def live() -> bool:
            try:
                child = await self.spawn(index, self._config, self._board)
            except (OSError, SubprocessError, RuntimeError, MemoryError) as error:
                self._spawn_failed_at = self._clock.now()
                self._note_failure(index, str(error) or type(error).__name__)
                return False
            self.children[index] = child
            self._master.started(child)
            await self._live(child)
            return self._bury(child)

        await keep_alive(live, self._ending)

    async def _live(self, child: Child) -> None:
        """Listen to a worker until its process has ended: others may hold its connection open for
        longer."""
        if self.is_ending:
            child.kill("the node ends")
        listening = asyncio.create_task(self._listen(child))
        try:
            await child.process.ended.wait()
            child.hang_up()
            await asyncio.wait([listening], timeout=READ_WITHIN)
        finally:
            listening.cancel()
            child.writer.close()

    async def _listen(self, child: Child) -> None:
        """Take what a worker says until it is silent. What it does then nobody can know, so it must
        not go on."""
        try:
            while frame := await pipe.read_async(child.reader):
                self.take(child, pipe.Reports.unpack(*frame))
            child.is_ready = False
            await asyncio.wait_for(child.process.ended.wait(), CLOSED_FOR)
        except TimeoutError:
            pass
        except Exception:
            # The top of this loop: tasks share their worker's descriptors, and may write whatever
            # they like.
            log.exception(
                "a worker spoke nonsense",
                extra={"event": "worker-nonsense", "pid": child.process.pid},
            )
        child.process.kill()

    def _bury(self, child: Child) -> bool:
        """A worker is gone; whether it was of any use, or ended for no fault of its own."""
        was_killed = bool(child.kill_reason)
        if self._board.ended_at_deadline(child.index):
            child.kill_reason = child.kill_reason or FENCE
        if not child.kill_reason and not child.broken:
            self._note_crash(child.exit_reason)
        was_useful = self._master.ended(child)
        self._board.clear(child.index)
        del self.children[child.index]
        return was_useful or was_killed

    def _note_crash(self, why: str) -> None:
        self.crashes += 1
        self.last_crash = why

    def _note_failure(self, index: int, why: str, *, is_told: bool = False) -> None:
        """A worker cannot be started: said once in the log, and in the node's record until it can.

        Modules that no worker has ever loaded end the node, which tells why itself.
        """
        if not self._failing and not is_told:
            log.error(
                "a worker could not be started; trying again",
                extra={"event": "no-worker", "error": why},
            )
        self._failing.add(index)
        self._troubles.note("workers", f"a worker could not be started: {why}")
