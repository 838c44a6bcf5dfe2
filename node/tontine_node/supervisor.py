"""Starts, watches, replaces and drains worker processes; gives them orders and takes their reports."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bson.raw_bson import RawBSONDocument

from tontine import backoff
from tontine.clock import Clock
from tontine.errors import ConfigError
from tontine.job import JobError
from tontine.store.settle import SUSPECT, Outcome

from . import pipe
from .board import Board
from .config import NodeConfig
from .pace import Pace
from .table import Entry, Status, Table
from .worker import EXIT_AT_DEADLINE

log = logging.getLogger(__name__)

START_LIMIT = 60.0
STUCK_AFTER = 0.1
KILL_AFTER = 1.0
FENCE = "the lease ran out"


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the master must know of a task; the worker said so."""

    on_lost: str
    is_async: bool
    timeout: float | None
    max_attempts: int


@dataclass(slots=True)
class Worker:
    """One worker process as its master sees it."""

    index: int
    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ready: asyncio.Future[None]
    sent: dict[int, Entry] = field(default_factory=dict)
    kill_reason: str = ""
    recalled: bool = False
    ending: dict[int, float] = field(default_factory=dict)

    def send(self, head: pipe.Head, bodies: Iterable[bytes] = ()) -> None:
        if not self.writer.is_closing():
            self.writer.write(pipe.pack(head, list(bodies)))


class Supervisor:
    """The workers of one node."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        board: Board,
        table: Table,
        settle: Callable[[Outcome], None],
        wake: Callable[[], None],
    ) -> None:
        self.config = config
        self.clock = clock
        self.board = board
        self.table = table
        self.pace = Pace()
        self.held: deque[Entry] = deque()
        self.modules: list[dict[str, Any]] = []
        self.tasks: dict[str, TaskFacts] = {}
        self.progress: dict[int, tuple[float, str]] = {}
        self.is_draining = False
        self.crashes = 0
        self.last_crash = ""
        self._settle = settle
        self._wake = wake
        self._workers: dict[int, Worker] = {}
        self._keepers: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()
        self._broken: str | None = None

    @property
    def slots(self) -> int:
        return self.config.processes * self.config.slots

    def running(self) -> dict[int, float]:
        """The jobs that run now, and since when."""
        return {
            one.seq: one.since
            for worker in self._workers.values()
            for one in self.board.running(worker.index)
            if one.seq in worker.sent
        }

    def pids(self) -> list[int]:
        return [worker.process.pid for worker in list(self._workers.values())]

    def room(self) -> int:
        """How many more jobs to claim. Full batches, not a trickle: none until half of the target is used up."""
        if not self.is_ready:
            return 0
        target = self.pace.claim_target(self.slots)
        holding = sum(len(worker.sent) for worker in self._workers.values()) + len(self.held)
        return target - holding if holding <= target // 2 or holding < self.slots else 0

    def free_slots(self) -> int:
        """Slots that would start a job at once."""
        if not self.is_ready:
            return 0
        busy = sum(min(len(worker.sent), self.config.slots) for worker in self._workers.values())
        return max(0, self.config.slots * len(self._workers) - busy - len(self.held))

    @property
    def _closing(self) -> bool:
        return self._ending.is_set()

    @property
    def is_ready(self) -> bool:
        return any(worker.ready.done() for worker in self._workers.values()) and not self._closing

    async def start(self) -> None:
        """Start all workers; returns when one has loaded the modules, raises `ConfigError` if they cannot be."""
        self._ending.clear()
        self._broken = None
        for index in range(self.config.processes):
            keeper = asyncio.create_task(self._keep(index))
            self._keepers.add(keeper)
            keeper.add_done_callback(self._keepers.discard)
        deadline = self.clock.now() + START_LIMIT
        while not self.is_ready:
            if self._broken:
                raise ConfigError(self._broken)
            if self.clock.now() > deadline:
                raise ConfigError(f"no worker could load {', '.join(self.config.modules)} in {START_LIMIT:g} s")
            await asyncio.sleep(0.01)

    def offer(self, entries: Iterable[Entry]) -> None:
        """Take claimed jobs, higher priority first, and hand out what fits."""
        for entry in sorted(entries, key=lambda entry: (-entry.priority, entry.seq)):
            entry.status = Status.HELD
            entry.since = self.clock.now()
            self.held.append(entry)
        self.dispatch()

    def dispatch(self) -> None:
        """Fill the workers, the emptiest first, a frame for each."""
        if not self.held or self._closing or self.is_draining:
            return
        workers = [worker for worker in self._workers.values() if worker.ready.done() and not worker.kill_reason]
        limit = self.config.slots * self.pace.ahead()
        for worker in sorted(workers, key=lambda worker: len(worker.sent)):
            # A worker whose orders were called back is busy with something long: it gets no more than it can start.
            room = (self.config.slots if worker.recalled else limit) - len(worker.sent)
            share = min(room, -(-len(self.held) // len(workers)) if len(self.held) > self.slots else room)
            entries = [self.held.popleft() for _ in range(min(share, len(self.held)))]
            if entries:
                for entry in entries:
                    entry.status = Status.SENT
                    worker.sent[entry.seq] = entry
                orders = [[entry.seq, len(entry.raw)] for entry in entries]
                worker.send({"run": orders}, (entry.raw for entry in entries))

    def look_after(self) -> None:
        """Call back orders stuck behind a long job, and end jobs past their time limit; called a few times a second."""
        now = self.clock.now()
        for worker in self._workers.values():
            running = {one.seq: one.since for one in self.board.running(worker.index) if one.seq in worker.sent}
            longest = max((now - since for since in running.values()), default=0.0)
            if not worker.recalled and longest > STUCK_AFTER and len(worker.sent) > len(running):
                worker.recalled = True
                worker.send({"recall": True})
            for seq, since in running.items():
                self._keep_time(worker, worker.sent[seq], now - since, now)

    def _keep_time(self, worker: Worker, entry: Entry, ran: float, now: float) -> None:
        facts = self.tasks.get(entry.task)
        limit = entry.timeout or (facts.timeout if facts else None)
        if limit is not None and ran > limit and entry.seq not in worker.ending:
            if facts and facts.is_async:
                worker.ending[entry.seq] = now + KILL_AFTER
                worker.send({"expire": [[entry.seq, limit]]})
            else:
                self._end_overdue(worker, entry, ran, limit)
        elif now > worker.ending.get(entry.seq, now):
            self._end_overdue(worker, entry, ran, limit)

    def _end_overdue(self, worker: Worker, entry: Entry, ran: float, limit: float | None) -> None:
        """Kill a worker whose job ignores its limit or its cancelling; its other jobs go back at no cost."""
        del worker.sent[entry.seq]
        if limit is not None and ran > limit:
            error = JobError("TimeoutError", f"it ran longer than its time limit of {limit:g} s")
            fails = entry.fails + 1
            facts = self.tasks.get(entry.task)
            allowed = entry.max_attempts or (facts.max_attempts if facts else 1)
            kind, delay = ("failed", 0.0) if fails >= allowed else ("retry", backoff.delay_before(fails))
        else:
            error, kind, delay = JobError("Cancelled", "cancelled while it ran"), "cancelled", 0.0
        outcome = Outcome(kind, entry.seq, entry.attempt, ran, error=error, delay=delay)  # type: ignore[arg-type]
        worker.kill_reason = "a job had to be ended"
        worker.process.kill()
        # Only once the process is gone may the job be anybody else's.
        self._after_exit(worker, lambda: self._end(entry, outcome))

    def _after_exit(self, worker: Worker, then: Callable[[], None]) -> None:
        async def wait() -> None:
            await worker.process.wait()
            then()

        waiter = asyncio.create_task(wait())
        self._keepers.add(waiter)
        waiter.add_done_callback(self._keepers.discard)

    def cancel(self, seqs: Iterable[int]) -> None:
        """End these jobs: unstarted ones at once, running ones after a moment to end tidily."""
        wanted = set(seqs)
        for entry in [entry for entry in self.held if entry.seq in wanted]:
            self.held.remove(entry)
            self._end(entry, Outcome("cancelled", entry.seq, entry.attempt))
        for worker in self._workers.values():
            mine = [seq for seq in worker.sent if seq in wanted and seq not in worker.ending]
            for seq in mine:
                worker.ending[seq] = self.clock.now() + KILL_AFTER / 2
            if mine:
                worker.send({"cancel": mine})

    def hold_again(self) -> None:
        """What was held through a fence has not been waiting for a slot."""
        for entry in self.held:
            entry.since = self.clock.now()

    def take_back(self, patience: float = 0.0) -> list[Entry]:
        """Unstarted jobs that waited here longer than `patience`, to be released; workers are asked for theirs."""
        limit = self.clock.now() - patience
        given = [entry for entry in self.held if entry.since <= limit]
        for entry in given:
            self.held.remove(entry)
        return given

    def recall_all(self) -> None:
        """Ask every worker for the orders it has not begun."""
        for worker in self._workers.values():
            worker.recalled = True
            worker.send({"recall": True})

    async def kill_all(self, reason: str) -> None:
        """End every worker at once and wait until they are gone: running jobs become killed, others are held again."""
        self._ending.set()
        workers = list(self._workers.values())
        for worker in workers:
            worker.kill_reason = worker.kill_reason or reason
            if worker.process.returncode is None:
                worker.process.kill()
        if self._keepers:
            await asyncio.wait(set(self._keepers))

    async def _keep(self, index: int) -> None:
        """Keep one worker running, with a growing pause when it keeps ending."""
        crashes = 0
        while not self._closing:
            begun = self.clock.now()
            worker = await self._spawn(index)
            if self._closing:
                worker.process.kill()
            await self._serve(worker)
            self._bury(worker)
            crashes = 0 if worker.ready.done() and self.clock.now() - begun > 10 else crashes + 1
            if crashes > 1 and not self._closing:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), min(0.1 * 2**crashes, 10.0))

    async def _spawn(self, index: int) -> Worker:
        ours, theirs = socket.socketpair()
        self.board.clear(index)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tontine_node.worker",
                *map(
                    str, (index, theirs.fileno(), self.board.fd, self.config.processes, self.config.slots, os.getpid())
                ),
                *self.config.modules,
                pass_fds=(theirs.fileno(), self.board.fd),
                stdin=asyncio.subprocess.DEVNULL,
            )
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours, limit=2**20)
        worker = Worker(index, process, reader, writer, asyncio.get_running_loop().create_future())
        self._workers[index] = worker
        return worker

    async def _serve(self, worker: Worker) -> None:
        """Take a worker's reports until it is gone."""
        while frame := await pipe.read_async(worker.reader):
            self._take(worker, *frame)
        if worker.process.returncode is None:
            # Its connection is closed, so nothing it does can be known: it must not go on.
            try:
                await asyncio.wait_for(worker.process.wait(), 0.2)
            except TimeoutError:
                worker.process.kill()
        await worker.process.wait()
        worker.writer.close()

    def _take(self, worker: Worker, head: pipe.Head, body: bytes) -> None:
        for hello in head.get("hello", ()):
            self.modules = hello["modules"]
            self.tasks = {name: TaskFacts(*facts) for name, facts in hello["tasks"].items()}
            if not worker.ready.done():
                worker.ready.set_result(None)
        for text in head.get("broken", ()):
            self._broken = text
            worker.kill_reason = "it could not load its modules"
        done = head.get("done", ())
        for (seq, ran, _), raw in zip(done, pipe.cut(body, (size for _, _, size in done)), strict=True):
            worker.ending.pop(seq, None)
            if entry := worker.sent.pop(seq, None):
                result = RawBSONDocument(raw)
                self._end(entry, Outcome("done", seq, entry.attempt, ran, result=result, clean=not entry.fails))
        if done:
            self.pace.ran(sum(ran for _, ran, _ in done) / len(done), len(done))
        for seq, ran, kind, type_, message, trace, delay in head.get("ended", ()):
            worker.ending.pop(seq, None)
            if entry := worker.sent.pop(seq, None):
                self.pace.ran(ran)
                error = JobError(type_, message, trace)
                self._end(entry, Outcome(kind, seq, entry.attempt, ran, error=error, delay=delay))
        for returned in head.get("returned", ()):
            self._take_returned(worker, returned)
        for seq, value, note in head.get("progress", ()):
            if seq in worker.sent:
                self.progress[seq] = (value, note)
        if worker.recalled and not any(True for _ in self.board.running(worker.index)):
            worker.recalled = False
        self.dispatch()
        self._wake()

    def _take_returned(self, worker: Worker, seqs: list[int]) -> None:
        for seq in seqs:
            entry = worker.sent.pop(seq, None)
            if entry is None:
                continue
            if seq in worker.ending:
                self._end(entry, Outcome("cancelled", seq, entry.attempt))
                continue
            entry.status = Status.HELD
            self.held.append(entry)

    def _bury(self, worker: Worker) -> None:
        """A worker is gone: what it ran is lost (or killed, if that was our doing), the rest is held again."""
        running = {one.seq for one in self.board.running(worker.index)}
        reason = _exit_reason(worker.process.returncode or 0)
        if worker.process.returncode == EXIT_AT_DEADLINE:
            worker.kill_reason = FENCE
        if not worker.kill_reason:
            self.crashes += 1
            self.last_crash = reason
            log.warning("a worker ended", extra={"event": "worker-ended", "reason": reason, "running": sorted(running)})
        for seq, entry in worker.sent.items():
            if seq not in running:
                entry.status = Status.HELD
                self.held.appendleft(entry)
            elif worker.kill_reason == FENCE:
                entry.status = Status.KILLED
            elif worker.kill_reason:
                self._end(entry, Outcome("released", seq, entry.attempt))
            else:
                facts = self.tasks.get(entry.task)
                error = JobError("Lost", f"its worker {reason}")
                final = facts is not None and facts.on_lost == "fail"
                self._end(entry, Outcome("lost", seq, entry.attempt, error=error, final=final))
        self.board.clear(worker.index)
        if self._workers.get(worker.index) is worker:
            del self._workers[worker.index]
        self._wake()

    def _end(self, entry: Entry, outcome: Outcome) -> None:
        entry.status = Status.RESULT
        self.progress.pop(entry.seq, None)
        self._settle(outcome)

    @property
    def has_suspect(self) -> bool:
        """Whether a job that may be poison is in this node (P2)."""
        return any(entry.lost >= SUSPECT for entry in self.table)


def _exit_reason(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by signal {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
