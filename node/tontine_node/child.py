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

import psutil

from tontine.config import worker_environment

from . import pipe
from .board import Board
from .config import NodeConfig
from .table import Entry

FENCE = "the lease ran out"


@dataclass(slots=True)
class Child:
    """A worker process and the orders it has."""

    index: int
    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sent: dict[int, Entry] = field(default_factory=dict)
    is_ready: bool = False
    is_recalled: bool = False
    """Its unstarted orders were called back: until it is idle again it gets no more than it can start."""
    is_retiring: bool = False
    kill_reason: str = ""
    served: int = 0
    ending: dict[int, float] = field(default_factory=dict)
    """Jobs that were told to end, and when patience with them ends."""

    @property
    def can_work(self) -> bool:
        return self.is_ready and not self.kill_reason and not self.is_retiring

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
        self.send({"recall": True})

    def kill(self, reason: str) -> None:
        self.kill_reason = self.kill_reason or reason
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def gone(self) -> None:
        """Wait for its end, once its connection is closed: what it does now nobody can know, so it must not go on."""
        try:
            await asyncio.wait_for(self.process.wait(), 0.2)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        self.writer.close()

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
    board.clear(index)
    numbers = (index, theirs.fileno(), board.fd, config.processes, config.slots, os.getpid())
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tontine_node.worker",
            *map(str, numbers),
            *config.modules,
            pass_fds=(theirs.fileno(), board.fd),
            stdin=asyncio.subprocess.DEVNULL,
            env=worker_environment(config.store, share_uri=config.share_uri),
        )
    finally:
        theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours, limit=2**20)
    return Child(index, process, reader, writer)
