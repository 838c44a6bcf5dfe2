"""One worker process as its master sees it: how it is started, spoken to, and what its end means."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

import psutil

from tontine.config import worker_environment

from ..claims import Entry
from ..config import NodeConfig
from . import pipe
from .board import Board
from .process import Process

FENCE = "the lease ran out"


@dataclass(slots=True)
class Child:
    """A worker process and the orders it has."""

    index: int
    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sent: dict[int, Entry] = field(default_factory=dict)
    """In the order of sending, which is the order in which its slots begin them."""
    reported: int = 0
    """How many of those that it had begun are no longer in `sent`."""
    is_ready: bool = False
    is_recalled: bool = False
    """Its unstarted orders were called back: until it is idle again it gets no more than it can start."""
    recalls: int = 0
    """How many times it was asked for them and has not answered."""
    is_retiring: bool = False
    kill_reason: str = ""
    broken: str = ""
    """Why it cannot load the modules."""
    served: int = 0
    ending: dict[int, float] = field(default_factory=dict)
    """Jobs that were told to end, and when patience with them ends."""

    @property
    def can_work(self) -> bool:
        return self.is_ready and not self.kill_reason and not self.is_retiring

    @property
    def can_take(self) -> bool:
        """Whether to send it orders now. Not between a recall and its answer: `sent` would have unbegun ones before
        others that have begun, and after a crash nobody could tell which."""
        return self.can_work and not self.recalls

    @property
    def memory(self) -> int:
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def send(self, head: pipe.Head, bodies: Iterable[bytes] = ()) -> None:
        if not self.writer.is_closing():
            self.writer.write(pipe.pack(head, list(bodies)))

    def recall(self) -> None:
        """Ask for the orders it has not begun."""
        self.is_recalled = True
        self.recalls += 1
        self.send({"recall": True})

    def take_report(self, seq: int) -> Entry | None:
        """An order that it had begun is over."""
        self.ending.pop(seq, None)
        if entry := self.sent.pop(seq, None):
            self.reported += 1
        return entry

    def begun(self, count: int) -> list[int]:
        """Those of its orders that have begun, if it began so many in all."""
        return list(islice(self.sent, max(0, count - self.reported)))

    def kill(self, reason: str) -> None:
        self.kill_reason = self.kill_reason or reason
        self.process.kill()

    def hang_up(self) -> None:
        """Let the connection end after what is still in it, although somebody else may hold its other end.

        Elsewhere than on Linux that would throw away what is in it.
        """
        connection: socket.socket | None = self.writer.get_extra_info("socket")
        if sys.platform == "linux" and connection is not None and not self.writer.is_closing():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)

    @property
    def exit_reason(self) -> str:
        code = self.process.returncode or 0
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"was ended by signal {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"


async def spawn(index: int, config: NodeConfig, board: Board) -> Child:
    """Start a worker by exec, with one end of a socket pair and the board."""
    ours, theirs = socket.socketpair()
    with theirs:
        # First the connection: what can fail after the process has started would leave one that nobody knows.
        reader, writer = await asyncio.open_connection(sock=ours, limit=2**20)
        board.clear(index)
        numbers = (index, theirs.fileno(), board.fd, config.processes, config.slots, os.getpid())
        command = [
            sys.executable,
            "-m",
            "tontine_node.worker.main",
            *map(str, numbers),
            config.log.word,
            *config.modules,
        ]
        environment = worker_environment(config.store, share_uri=config.share_uri)
        try:
            return Child(index, Process(command, environment, (theirs.fileno(), board.fd)), reader, writer)
        except BaseException:
            writer.close()
            raise
