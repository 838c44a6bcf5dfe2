"""A worker without a process, a master or a node: what it makes of one job at a time."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import bson

from tontine import Context, Module, around
from tontine.module import Library
from tontine_node.running.board import Board
from tontine_node.worker.main import Worker


@contextmanager
def lone_worker(*modules: Module, context: Context | None = None) -> Iterator[Worker]:
    """A worker whose event loop runs, with its connections open and its modules' start hooks
    called."""
    ours, theirs = socket.socketpair()
    board = Board.create(1, 1)
    with ours, theirs:
        worker = Worker(0, theirs, board, Library(modules), context)
        if broken := worker.opening.get_ready():
            worker.opening.close()
            worker.loop.close()
            raise RuntimeError(broken)
        around.start(worker.library.start_hooks(), worker.loop)
        looping = threading.Thread(target=worker.loop.run_forever)
        looping.start()
        yield worker
        worker.loop.call_soon_threadsafe(worker.loop.stop)
        looping.join()
        worker.opening.close()
        worker.loop.run_until_complete(asyncio.sleep(0))
        worker.loop.close()
    board.close()


def attempt(
    worker: Worker, task: str, args: dict[str, Any] | None = None, **more: Any
) -> tuple[str, Any]:
    """Run one job: ("done", its result), or how it ended and what the report says of that."""
    document = {
        "_id": "id",
        "seq": 7,
        "task": task,
        "args": args or {},
        "attempt": 0,
        "fails": 0,
    } | more
    end = worker.runner.attempt(7, bson.encode(document))
    worker.runner.current.clear()
    if isinstance(end, bytes):
        return "done", bson.decode(end, bson.CodecOptions(tz_aware=True))["r"]
    return end.kind, end
