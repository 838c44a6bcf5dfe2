"""A worker process as its master sees it: the same frames, the same board, and tasks that end when
the test says so."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import bson
import orjson

from tontine.verdict import Kind, NoResult
from tontine_node.running import pipe
from tontine_node.running.board import Board
from tontine_node.running.pool import Child

KILLED, CRASHED = -9, -11
MAX_ATTEMPTS = 3
TASK, CAREFUL, RARE = "t.plain", "t.careful", "u.rare"
FACTS = {
    name: pipe.TaskFacts(on_lost, max_attempts=MAX_ATTEMPTS, delays=[0.0])
    for name, on_lost in ((TASK, "retry"), (CAREFUL, "fail"), (RARE, "retry"))
}


def hello_with(*tasks: str, version: str = "1") -> pipe.Hello:
    """What a worker says that has these tasks."""
    names = sorted({task.partition(".")[0] for task in tasks})
    modules = [
        {
            "name": name,
            "version": version,
            "tasks": sorted(task for task in tasks if task.startswith(f"{name}.")),
        }
        for name in names
    ]
    return pipe.Hello(modules, {task: FACTS[task] for task in tasks})


@dataclass(eq=False, slots=True)
class Run:
    """One execution of one job."""

    node: str
    seq: int
    attempt: int
    fails: int
    slot: int
    since: float
    tasks: frozenset[str]
    """What its worker has."""
    is_cancelled: bool = False
    ended: str = ""

    @property
    def is_cut_short(self) -> bool:
        return self.ended not in ("", "done", "failed")


class Worker:
    """Process, pipe and slots in one. Nothing happens in it but in `work`, `end` and `exit`."""

    def __init__(
        self,
        node: str,
        index: int,
        board: Board,
        now: Callable[[], float],
        began: Callable[[Run], None],
        hello: pipe.Hello,
    ):
        self.node = node
        self.pid = os.getpid()
        self.returncode: int | None = None
        self.reader = asyncio.StreamReader()
        self.running: dict[int, Run] = {}
        self._index = index
        self._board = board
        self._now = now
        self._began = began
        self._frames = bytearray()
        self._inbox: deque[tuple[int, bytes]] = deque()
        self.ended = asyncio.Event()
        self._tasks = frozenset(hello.tasks)
        self._report(hello)

    def as_child(self) -> Child:
        return Child(self._index, cast(Any, self), self.reader, cast(Any, self))

    def write(self, frame: bytes) -> None:
        self._frames += frame

    def is_closing(self) -> bool:
        return self.returncode is not None

    def close(self) -> None: ...

    def kill(self) -> None:
        self.exit(KILLED)

    def get_extra_info(self, name: str) -> None:
        """It has no socket."""

    def exit(self, code: int) -> None:
        if self.returncode is not None:
            return
        self.returncode = code
        for run in self.running.values():
            run.ended = f"with its worker ({code})"
        self.running.clear()
        self.reader.feed_eof()
        self.ended.set()

    def work(self) -> None:
        """Read orders and begin what there is a slot for; past the lease, end (N6)."""
        if self.returncode is not None:
            return
        if self._now() > self._board.deadline:
            self._board.mark_deadline(self._index)
            self.exit(KILLED)
            return
        self._read_orders()
        while self._inbox and len(self.running) < self._board.slots:
            self._begin(*self._inbox.popleft())

    def end(self, run: Run, how: str) -> None:
        """A task ends: `done`, `failed` (a retry, while attempts are left), or it takes its worker
        with it."""
        if how == "crashed":
            self.exit(CRASHED)
            return
        del self.running[run.slot]
        run.ended = how
        self._board.ended(self._index, run.slot)
        ran = self._now() - run.since
        if how == "done" and not run.is_cancelled:
            body = bson.encode(
                {"r": signature(run.node, run.attempt), "ms": bson.Int64(round(ran * 1000))}
            )
            self._report((run.seq, ran, body))
        else:
            kind: Kind = (
                "cancelled"
                if run.is_cancelled
                else "failed"
                if run.fails + 1 >= MAX_ATTEMPTS
                else "retry"
            )
            self._report(
                pipe.AttemptEnded(
                    run.seq, ran, NoResult(kind, "Error", signature(run.node, run.attempt))
                )
            )

    def _begin(self, seq: int, raw: bytes) -> None:
        document = bson.decode(raw)
        slot = next(slot for slot in range(self._board.slots) if slot not in self.running)
        run = Run(
            self.node,
            seq,
            int(document["attempt"]) + 1,
            int(document["fails"]),
            slot,
            self._now(),
            self._tasks,
        )
        self._board.started(self._index, slot, seq, run.since)
        self.running[slot] = run
        self._began(run)

    def _read_orders(self) -> None:
        while self._frames:
            orders = pipe.Orders.unpack(*self._next_frame())
            self._inbox += orders.run
            if orders.recall:
                self._report(pipe.Returned([seq for seq, _ in self._inbox]))
                self._inbox.clear()
            for run in self.running.values():
                run.is_cancelled = run.is_cancelled or run.seq in orders.cancel

    def _next_frame(self) -> tuple[pipe.Head, bytes]:
        lengths = pipe._LENGTHS
        size = lengths.size + sum(lengths.unpack_from(self._frames))
        frame, self._frames = bytes(self._frames[:size]), self._frames[size:]
        head_size, _ = lengths.unpack_from(frame)
        head = orjson.loads(frame[lengths.size : lengths.size + head_size])
        return head, frame[lengths.size + head_size :]

    def _report(self, report: pipe.Report) -> None:
        self.reader.feed_data(pipe.pack_reports([report]))


def signature(node: str, attempt: int) -> str:
    """What a run leaves in its result or error, so that the document tells whose it is."""
    return f"by {node} at attempt {attempt}"
