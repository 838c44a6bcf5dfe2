"""The worker processes of a context: started, listened to, replaced when they end or when there is
newer code, killed. What they work on is their master's matter."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from subprocess import SubprocessError
from typing import Protocol

from tontine.clock import Clock
from tontine.config import worker_environment
from tontine.context_tables import DEFAULT

from ..config import ContextConfig, NodeConfig
from ..loop import rest
from ..telling.troubles import Troubles
from . import pipe
from .board import Board
from .generations import Code, Generations, code_of
from .process import Process, explain_exit, keep_alive
from .tries import Tries

log = logging.getLogger(__name__)

FENCE = "the lease ran out"
REPLACED = "it is replaced"
STARTS_AT_MOST = 3
END_WITHIN = 5.0
"""How long SIGKILL may take to end a worker before the node goes on without it."""
READ_WITHIN = 1.0
"""How long the last reports of a worker that has ended may take to arrive."""
CLOSED_FOR = 0.2
"""How long a worker may live after it has closed its connection."""
CLOSES_WITHIN = 5.0
"""How long a worker that is retired may take to close what it has open (MC1)."""


@dataclass(slots=True, eq=False)
class Child:
    """One worker process as its master sees it."""

    index: int
    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_ready: bool = False
    """It has loaded the modules."""
    is_replaced: bool = False
    """Workers with newer code took its place: it only finishes what it runs."""
    kill_reason: str = ""
    broken: str = ""
    """Why it cannot get ready."""
    number: int = 0
    """Its generation."""
    order: int = 0
    """How many were started before it and with it."""
    started_at: float = 0.0
    hello: pipe.Hello | None = None
    """What it has, as soon as it has said so."""

    @property
    def code(self) -> Code:
        return code_of(self.hello.modules if self.hello else ())

    @property
    def can_work(self) -> bool:
        return self.is_ready and not self.is_replaced and not self.kill_reason

    @property
    def exit_reason(self) -> str:
        return explain_exit(self.process.returncode or 0)

    def send(self, orders: pipe.Orders) -> None:
        if not self.writer.is_closing():
            self.writer.write(orders.pack())

    def kill(self, reason: str) -> None:
        self.kill_reason = self.kill_reason or reason
        self.process.kill()

    def retire(self, reason: str) -> None:
        """Let one that has nothing to do close what it has open, and end."""
        if not self.kill_reason:
            self.kill_reason = reason
            self.send(pipe.Orders(retire=True))
            asyncio.get_running_loop().call_later(CLOSES_WITHIN, self.process.kill)

    def hang_up(self) -> None:
        """Let the connection end after what is still in it, although somebody else may hold its
        other end.

        Elsewhere than on Linux that would throw away what is in it.
        """
        connection: socket.socket | None = self.writer.get_extra_info("socket")
        if sys.platform == "linux" and connection is not None and not self.writer.is_closing():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)


async def spawn(index: int, config: NodeConfig, context: ContextConfig, board: Board) -> Child:
    """Start a worker by exec, with one end of a socket pair and the board."""
    ours, theirs = socket.socketpair()
    with theirs:
        # First the connection: what can fail after the process has started would leave one that
        # nobody knows.
        reader, writer = await asyncio.open_connection(sock=ours, limit=2**20)
        board.clear(index)
        numbers = (index, theirs.fileno(), board.fd, board.places, context.slots, os.getpid())
        module = [sys.executable, "-m", "tontine_node.worker.main"]
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
    """The workers of one context, each in a place of its own.

    There are as many as the context wants, and one more while others are replaced.
    """

    def __init__(
        self,
        config: NodeConfig,
        context: ContextConfig,
        clock: Clock,
        board: Board,
        troubles: Troubles,
        master: Master,
    ) -> None:
        self.context = context
        """What the next worker is started with."""
        self.children: dict[int, Child] = {}
        self.generations = Generations()
        self.tries = Tries()
        self.has_loaded = False
        """Whether a worker has ever been ready."""
        self.refusal = ""
        """Why no worker can ever get ready, as long as nobody changes a file or the
        configuration."""
        self.refused_source = ""
        """Which of its sources is to blame for that, if it is one of them."""
        self.may_end_node = True
        """Whether that may end the node: not where the process has had one that worked."""
        self._is_misconfigured = False
        """Whether it is its profile that cannot be right, and no module."""
        self.crashes = 0
        self.last_crash = ""
        self._silent_ends = 0
        self.spawn = spawn
        self._config = config
        self._clock = clock
        self._board = board
        self._troubles = troubles
        self._trouble = troubles_of(context)
        self._master = master
        self._keepers: dict[int, asyncio.Task[None]] = {}
        self._ending = asyncio.Event()
        self._hurried = asyncio.Event()
        """Set when a try that is waited for may be made at once."""
        self._failing: set[int] = set()
        """Places where a worker cannot be started."""
        self._started = 0
        self._is_kept = False

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
    def newest(self) -> Child | None:
        """Of the workers that are ready the one with the newest code."""
        ready = [one for one in self.children.values() if one.can_work]
        return max(ready, key=lambda one: (one.number, one.order), default=None)

    @property
    def serving(self) -> int:
        """The newest generation that is ready."""
        return 0 if self.newest is None else self.newest.number

    @property
    def pids(self) -> set[int]:
        return {child.process.pid for child in list(self.children.values())}

    @property
    def processes(self) -> int:
        """How many workers it wants: none to load nothing."""
        return self.context.processes if self.context.modules else 0

    def replace_workers(self, modules: Sequence[str] | None = None) -> int:
        """New ones are wanted, with these sources or with the same; the number of their
        generation."""
        if modules is not None:
            self.context = replace(self.context, modules=tuple(modules))
        number = self.generations.ask()
        self._forget_refusal()  # it was of those before: what these can load is not known
        self._hurried.set()
        self.fill()
        return number

    def keep_workers(self) -> None:
        """Start all workers, and from now on in place of each that ends another one."""
        self._ending.clear()
        self._is_kept = True
        self.fill()

    def fill(self) -> None:
        """Keep as many workers as there should be, and one more beside those that are to be
        replaced."""
        if self.is_ending or not self._is_kept:
            return
        for place in range(self._board.places):
            kept = [one for one, keeper in self._keepers.items() if not keeper.done()]
            outdated = sum(self._is_outdated(one) for one in kept)
            if len(kept) - outdated >= self.processes:
                return
            if len(kept) >= self.processes + (outdated > 0):
                return
            # The keeper of a worker that does not end is still there, and goes on when it does.
            if place not in kept:
                self._keepers[place] = asyncio.create_task(self._keep(place))

    def _is_outdated(self, place: int) -> bool:
        child = self.children.get(place)
        return child is not None and child.number < self.generations.wanted

    def _is_needed(self, place: int) -> bool:
        """Whether a worker is still wanted in a place where one has ended."""
        others = [one for one, keeper in self._keepers.items() if one != place]
        current = [
            one for one in others if not self._keepers[one].done() and not self._is_outdated(one)
        ]
        return len(current) < self.processes

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
            self._troubles.note(self._trouble, f"SIGKILL does not end the worker processes {stuck}")
            log.error(
                "workers do not end; going on without them",
                extra={"event": "workers-stay", "pids": stuck},
            )
        return stuck

    def kill_for_good(self, reason: str) -> None:
        """End every worker at once, and start no other."""
        self.start_no_more()
        self.kill_now(reason)

    def start_no_more(self) -> None:
        """Let those that end be the last."""
        self._ending.set()
        self._hurried.set()

    def kill_now(self, reason: str) -> None:
        """Kill every worker that is there; in any thread."""
        for child in list(self.children.values()):
            child.kill(reason)

    def take(self, child: Child, reports: pipe.Reports) -> None:
        """Take what a worker says: first whether it can work at all."""
        for hello in reports.hello:
            self._take_hello(child, hello)
        for broken in reports.broken:
            child.broken = broken.why
            is_refused = broken.phase in ("import", "configuration")
            if is_refused:
                self.refusal, self.refused_source = broken.why, broken.source
                is_module = broken.source in self.context.modules
                self._is_misconfigured = broken.phase == "configuration" and not is_module
            self._note_crash(broken.why)
            self._note_failure(child.index, broken.why, is_told=is_refused and self.ends_node)
        self._master.heard(child, reports)
        if reports.hello:
            self.fill()

    def _take_hello(self, child: Child, hello: pipe.Hello) -> None:
        child.hello = hello
        child.number = self.generations.said(child.number, child.order, child.code)
        child.is_ready = self.has_loaded = True
        self._forget_refusal()
        self.tries.ready(self._clock.now())
        if self._failing:
            self._failing.discard(child.index)
            if not self._failing:
                extra = {"event": "workers-again", "context": self.context.name}
                log.info("workers are ready again", extra=extra)
        if not self._failing:
            self._troubles.over(self._trouble)

    async def _keep(self, index: int) -> None:
        """Keep one worker running, as long as one is needed here."""

        async def live() -> bool:
            if not self._is_needed(index):
                return True
            await self._wait_for_next_try()
            if self.is_ending or not self._is_needed(index):
                return True
            number = self.generations.wanted
            try:
                child = await self.spawn(index, self._config, self.context, self._board)
            except (OSError, SubprocessError, RuntimeError, MemoryError) as error:
                self._note_failure(index, str(error) or type(error).__name__)
                return False
            self._started += 1
            child.number, child.order = number, self._started
            child.started_at = self._clock.now()
            self.children[index] = child
            self._master.started(child)
            await self._live(child)
            self._bury(child)
            return True

        await keep_alive(live, self._ending, lambda: self._is_needed(index))
        self._keepers.pop(index, None)
        self.fill()

    async def _wait_for_next_try(self) -> None:
        """Until a context whose workers did not get ready may start another."""
        self._hurried.clear()
        while not self.is_ending and not self._hurried.is_set():
            left = self.tries.next_at - self._clock.now()
            if left <= 0:
                return
            await rest(self._hurried, left)

    async def _live(self, child: Child) -> None:
        """Listen to a worker until its process has ended: others may hold its connection open for
        longer."""
        if self.is_ending:
            child.kill("the node ends")
        listening = asyncio.create_task(self._listen(child))
        limit = asyncio.get_running_loop().call_later(
            self.context.start_within, self._give_up_start, child
        )
        try:
            await child.process.ended.wait()
            child.hang_up()
            await asyncio.wait([listening], timeout=READ_WITHIN)
        finally:
            limit.cancel()
            listening.cancel()
            child.writer.close()

    def _give_up_start(self, child: Child) -> None:
        if not child.is_ready and not child.kill_reason:
            child.broken = f"it was not ready after {self.context.start_within:g} s"
            self._note_crash(child.broken)
            self._note_failure(child.index, child.broken)
            child.process.kill()

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

    def _bury(self, child: Child) -> None:
        """A worker is gone. One that was of no use, and did not end at our wish, is a try that
        failed."""
        if self._board.ended_at_deadline(child.index):
            child.kill_reason = child.kill_reason or FENCE
        if not child.kill_reason and not child.broken:
            self._note_crash(child.exit_reason)
            if child.hello is None:
                self._refuse_if_hopeless(child)
        was_useful = self._master.ended(child)
        self._board.clear(child.index)
        del self.children[child.index]
        if not was_useful and not child.kill_reason:
            why = child.broken or f"its worker {child.exit_reason} before its first job"
            self.tries.failed(child.started_at, self._clock.now(), why)

    def _note_crash(self, why: str) -> None:
        self.crashes += 1
        self.last_crash = why

    def _refuse_if_hopeless(self, child: Child) -> None:
        """Workers that end without a word, one after the other and none gets ready: what they load
        does that. What fails to connect, or takes too long, is tried again for ever (MC3)."""
        self._silent_ends += 1
        if self._silent_ends >= STARTS_AT_MOST and not self.refusal:
            modules = ", ".join(self.context.modules)
            self.refusal = f"workers end while they load {modules}: {self.last_crash}"
            self._note_failure(child.index, self.refusal, is_told=self.ends_node)

    def _forget_refusal(self) -> None:
        self.refusal, self.refused_source, self._silent_ends = "", "", 0
        self._is_misconfigured = False

    @property
    def ends_node(self) -> bool:
        """Whether what it cannot load, and never could, ends the node, which tells why itself: a
        mistake in the settings, or modules of the only context (MC3). One that somebody added
        meanwhile does not."""
        if not self.refusal or self.has_loaded or not self.may_end_node:
            return False
        if self.refused_source in set(self.context.modules) - self._config.started_with:
            return False
        return self._is_misconfigured or len(self._config.contexts) == 1

    def _note_failure(self, index: int, why: str, *, is_told: bool = False) -> None:
        """A worker cannot be started: said once in the log, and in the node's record until it can.

        Modules of its only context that no worker has ever loaded end the node, which tells why
        itself.
        """
        if not self._failing and not is_told:
            log.error(
                "a worker could not be started; trying again",
                extra={"event": "no-worker", "context": self.context.name, "error": why},
            )
        self._failing.add(index)
        self._troubles.note(self._trouble, f"a worker could not be started: {why}")


def troubles_of(context: ContextConfig) -> str:
    """What is in trouble, as the node's record has it, when workers of a context are."""
    return "workers" if context.name == DEFAULT else f"workers of {context.name}"
