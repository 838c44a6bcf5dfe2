"""A real worker process without a node: it is told its context, gets orders and says what it
says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bson

from tontine_node.config import ContextConfig
from tontine_node.log_style import LogStyle
from tontine_node.running import pipe
from tontine_node.running.board import Board

WITHIN = 30.0


@dataclass(slots=True)
class WorkerProcess:
    """One worker, as a master would see it."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    log: Path

    def next(self) -> pipe.Reports | None:
        """The next frame that it sends; None when it is gone."""
        frame = pipe.read(self.connection)
        return None if frame is None else pipe.Reports.unpack(*frame)

    def hello(self) -> pipe.Hello:
        reports = self.next()
        assert reports is not None, self.log.read_text()
        assert reports.hello, reports
        return reports.hello[0]

    def broken(self) -> pipe.BrokenModules:
        reports = self.next()
        assert reports is not None, self.log.read_text()
        assert reports.broken, reports
        return reports.broken[0]

    def run(self, task: str, **args: Any) -> Any:
        """The result of one job; or how it ended."""
        document = {"_id": 7, "seq": 7, "task": task, "args": args, "attempt": 0, "fails": 0}
        self.order(pipe.Orders(run=[(7, bson.encode(document))]))
        while reports := self.next():
            for _, _, result in reports.done:
                return bson.decode(result)["r"]
            for ended in reports.ended:
                return ended.how
        raise AssertionError(self.log.read_text())

    def order(self, orders: pipe.Orders) -> None:
        self.connection.sendall(orders.pack())

    def end(self) -> int:
        """Wait for its end; what it still says is read."""
        while self.next() is not None:
            pass
        return self.process.wait(WITHIN)


@contextmanager
def worker_process(
    context: ContextConfig, cwd: Path, env: Mapping[str, str] | None = None
) -> Iterator[WorkerProcess]:
    """Start a worker in this directory, which is on its path; it is killed at the end."""
    ours, theirs = socket.socketpair()
    ours.settimeout(WITHIN)
    board = Board.create(1, context.slots)
    board.deadline = time.monotonic() + 600
    numbers = (0, theirs.fileno(), board.fd, 1, context.slots, os.getpid())
    module = [sys.executable, "-m", "tontine_node.worker.main"]
    log = cwd / "worker.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*module, *map(str, numbers), LogStyle().word, context.argument()],
            env={**os.environ, "PYTHONPATH": str(cwd), **context.env, **(env or {})},
            pass_fds=(theirs.fileno(), board.fd),
            start_new_session=True,
            stdout=out,
            stderr=out,
            cwd=cwd,
        )
    theirs.close()
    try:
        yield WorkerProcess(process, ours, log)
    finally:
        process.kill()
        process.wait()
        ours.close()
        board.close()
