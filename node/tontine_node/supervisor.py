"""Starts, replaces and drains worker processes; gives them orders and takes their reports."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tontine.clock import Clock
from tontine.errors import ConfigError
from tontine.job import JobError
from tontine.store.claim import SUSPECT
from tontine.store.settle import Outcome

from . import pipe
from .board import Board
from .child import FENCE, Child, spawn
from .config import NodeConfig
from .pace import Pace
from .table import Entry, Status, Table
from .worker import EXIT_AT_DEADLINE

log = logging.getLogger(__name__)

START_LIMIT = 60.0
STARTS_AT_MOST = 3
LINES_AT_MOST = 10_000


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the master must know of a task; the worker said so."""

    on_lost: str
    is_async: bool
    timeout: float | None
    max_attempts: int
    delays: list[float]
    """Its backoff before the second attempt, the third, ..."""


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
        self.children: dict[int, Child] = {}
        self.held: deque[Entry] = deque()
        self.modules: list[dict[str, Any]] = []
        self.tasks: dict[str, TaskFacts] = {}
        self.progress: dict[int, tuple[float, str]] = {}
        self.lines: deque[tuple[int, int, list[tuple[float, str]]]] = deque(maxlen=LINES_AT_MOST)
        self.is_draining = False
        self.crashes = 0
        self.last_crash = ""
        self.spawn = spawn
        self._settle = settle
        self._wake = wake
        self._keepers: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()
        self._broken: str | None = None

    @property
    def slots(self) -> int:
        return self.config.processes * self.config.slots

    @property
    def is_ready(self) -> bool:
        return any(child.is_ready for child in self.children.values()) and not self._ending.is_set()

    def running_in(self, child: Child) -> dict[int, float]:
        """The jobs that a worker runs now, and since when."""
        return {one.seq: one.since for one in self.board.running(child.index) if one.seq in child.sent}

    def running(self) -> dict[int, float]:
        """The jobs that run now, and since when."""
        return {seq: since for child in list(self.children.values()) for seq, since in self.running_in(child).items()}

    def room(self) -> int:
        """How many more jobs to claim. Full batches, not a trickle: none until half of the target is used up."""
        if not self.is_ready:
            return 0
        # A worker that is busy with something long will not start what is claimed ahead for it.
        quick = sum(not child.is_recalled for child in self.children.values())
        target = self.pace.claim_target(quick * self.config.slots) + (len(self.children) - quick) * self.config.slots
        holding = sum(len(child.sent) for child in self.children.values()) + len(self.held)
        return target - holding if holding <= target // 2 or holding < self.slots else 0

    def free_slots(self) -> int:
        """Slots that would start a job at once."""
        workers = [child for child in self.children.values() if child.can_work]
        busy = sum(min(len(child.sent), self.config.slots) for child in workers)
        return max(0, self.config.slots * len(workers) - busy - len(self.held))

    @property
    def careful_tasks(self) -> list[str]:
        """Tasks that must not run again once they may have begun."""
        return sorted(name for name, facts in self.tasks.items() if facts.on_lost == "fail")

    @property
    def takes_suspects(self) -> bool:
        """Whether a job that may be poison may be claimed now: alone, one at a time, for a slot that is free (P2)."""
        return self.free_slots() > 0 and not any(entry.lost >= SUSPECT for entry in self.table)

    async def start(self) -> None:
        """Start all workers; returns when one has loaded the modules, raises `ConfigError` if they cannot be."""
        self._ending.clear()
        self._broken = None
        for index in range(self.config.processes):
            self._keep_task(self._keep(index))
        deadline, crashes = self.clock.now() + START_LIMIT, self.crashes
        while not self.is_ready:
            if self._broken:
                raise ConfigError(self._broken)
            if self.crashes >= crashes + STARTS_AT_MOST:
                raise ConfigError(f"workers end while they load {', '.join(self.config.modules)}: {self.last_crash}")
            if self.clock.now() > deadline:
                raise ConfigError(f"no worker could load {', '.join(self.config.modules)} in {START_LIMIT:g} s")
            await asyncio.sleep(0.01)

    async def kill_all(self, reason: str) -> None:
        """End every worker at once and wait until they are gone."""
        self._ending.set()
        for child in list(self.children.values()):
            child.kill(reason)
        if self._keepers:
            await asyncio.wait(set(self._keepers))

    def offer(self, entries: Iterable[Entry], *, first: bool = False) -> None:
        """Take claimed jobs and hand out what fits, higher priority first; `first` puts them before the others."""
        ranked = False
        for entry in entries:
            entry.status = Status.HELD
            entry.since = self.clock.now()
            self.held.insert(0 if first else len(self.held), entry)
            ranked = ranked or entry.priority != 0
        if ranked:
            self.held = deque(sorted(self.held, key=lambda entry: -entry.priority))
        self.dispatch()

    def dispatch(self) -> None:
        """Fill the workers, the emptiest first, a frame for each."""
        if not self.held or self._ending.is_set() or self.is_draining:
            return
        workers = [child for child in self.children.values() if child.can_work]
        limit = self.config.slots * self.pace.ahead()
        for child in sorted(workers, key=lambda child: len(child.sent)):
            room = (self.config.slots if child.is_recalled else limit) - len(child.sent)
            if self.config.max_jobs is not None:
                room = min(room, self.config.max_jobs - child.served - len(child.sent))
            share = min(room, -(-len(self.held) // len(workers)) if len(self.held) > self.slots else room)
            if entries := self._next_for(child, share):
                for entry in entries:
                    entry.status = Status.SENT
                    child.sent[entry.seq] = entry
                orders = [[entry.seq, len(entry.raw)] for entry in entries]
                child.send({"run": orders}, (entry.raw for entry in entries))

    def _next_for(self, child: Child, room: int) -> list[Entry]:
        """What a worker gets next. A job that must not run twice goes only where a slot is free: sent ahead of one,
        nobody could tell after the worker's end whether it had begun."""
        entries: list[Entry] = []
        passed: list[Entry] = []
        while self.held and len(entries) < room:
            entry = self.held.popleft()
            starts_now = len(child.sent) + len(entries) < self.config.slots
            (entries if starts_now or not self._is_careful(entry) else passed).append(entry)
        self.held.extendleft(reversed(passed))
        return entries

    def hold_again(self) -> None:
        """What was held through a fence has not been waiting for a slot."""
        for entry in self.held:
            entry.since = self.clock.now()

    def take_back(self, patience: float) -> list[Entry]:
        """Unstarted jobs that waited here longer than `patience`, to be released."""
        limit = self.clock.now() - patience
        given = [entry for entry in self.held if entry.since <= limit]
        for entry in given:
            self.held.remove(entry)
        return given

    def recall_all(self) -> None:
        """Ask every worker for the orders it has not begun."""
        for child in self.children.values():
            child.recall()

    def end(self, entry: Entry, outcome: Outcome) -> None:
        """An attempt is over: settle it."""
        entry.status = Status.RESULT
        self.table.grow(entry, len(outcome.result))
        self.progress.pop(entry.seq, None)
        self._settle(outcome)

    def end_after_exit(self, child: Child, entry: Entry, outcome: Outcome) -> None:
        """Settle once the process is gone: only then may the job be anybody else's."""

        async def wait() -> None:
            await child.process.wait()
            self.end(entry, outcome)

        del child.sent[entry.seq]
        self._keep_task(wait())

    def _keep_task(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._keepers.add(task)
        task.add_done_callback(self._keepers.discard)

    async def _keep(self, index: int) -> None:
        """Keep one worker running, with a growing pause when it ends before it did anything."""
        in_vain = 0
        while not self._ending.is_set():
            child = self.children[index] = await self.spawn(index, self.config, self.board)
            if self._ending.is_set():
                child.kill("the node ends")
            while frame := await pipe.read_async(child.reader):
                self._take(child, *frame)
            await child.gone()
            in_vain = 0 if child.served or child.sent or child.kill_reason else in_vain + 1
            self._bury(child)
            if in_vain > 1:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), min(0.1 * 2**in_vain, 10.0))

    def _take(self, child: Child, head: pipe.Head, body: bytes) -> None:
        """Take a frame of reports."""
        if "hello" in head or "broken" in head:
            self._take_news(child, head)
        if "done" in head:
            self._take_done(child, head["done"], body)
        for report in head.get("ended", ()):
            self._take_ended(child, *report)
        for returned in head.get("returned", ()):
            self._take_returned(child, returned)
        for seq, value, note in head.get("progress", ()):
            if seq in child.sent:
                self.progress[seq] = (value, note)
        for seq, attempt, lines in head.get("lines", ()):
            self.lines.append((seq, attempt, [(at, text) for at, text in lines]))
        if child.is_recalled and not self.running_in(child):
            child.is_recalled = False
        if self.config.max_jobs is not None and child.served >= self.config.max_jobs and not child.sent:
            child.kill("it is replaced")
        self.dispatch()
        self._wake()

    def _take_news(self, child: Child, head: pipe.Head) -> None:
        for hello in head.get("hello", ()):
            self.modules = hello["modules"]
            self.tasks = {name: TaskFacts(*facts) for name, facts in hello["tasks"].items()}
            child.is_ready = True
        for text in head.get("broken", ()):
            self._broken = self.last_crash = text
            self.crashes += 1

    def _take_done(self, child: Child, done: list[Any], body: bytes) -> None:
        for (seq, ran, _), raw in zip(done, pipe.cut(body, (size for _, _, size in done)), strict=True):
            child.ending.pop(seq, None)
            if entry := child.sent.pop(seq, None):
                clean = not entry.fails and not entry.lost
                self.end(entry, Outcome("done", seq, entry.attempt, ran, result=raw, clean=clean))
        child.served += len(done)
        times = [ran for _, ran, _ in done]
        self.pace.ran(sum(times) / len(times), len(times), max(times))

    def _take_ended(
        self, child: Child, seq: int, ran: float, kind: Any, type_: str, message: str, trace: str, delay: float
    ) -> None:
        child.ending.pop(seq, None)
        child.served += 1
        self.pace.ran(ran)
        if entry := child.sent.pop(seq, None):
            error = JobError(type_, message, trace)
            self.end(entry, Outcome(kind, seq, entry.attempt, ran, error=error, delay=delay))

    def _take_returned(self, child: Child, seqs: list[int]) -> None:
        for seq in seqs:
            entry = child.sent.pop(seq, None)
            if entry is not None and seq in child.ending:
                self.end(entry, Outcome("cancelled", seq, entry.attempt))
            elif entry is not None:
                entry.status = Status.HELD
                self.held.append(entry)

    def _bury(self, child: Child) -> None:
        """A worker is gone: what it ran is lost, unless we ended it; what may run again is given back."""
        running = {one.seq for one in self.board.running(child.index)}
        if child.process.returncode == EXIT_AT_DEADLINE:
            child.kill_reason = FENCE
        crashed = not child.kill_reason and not self._broken
        if crashed:
            self.crashes += 1
            self.last_crash = child.exit_reason
            facts = {"event": "worker-ended", "reason": child.exit_reason, "running": sorted(running)}
            log.warning("a worker ended", extra=facts)
        for seq, entry in child.sent.items():
            if (crashed and seq in running) or self._is_careful(entry):
                self.end(entry, self._lost(entry, child))
            elif child.kill_reason == FENCE:
                entry.status = Status.KILLED
            else:
                # It may have run with its report still unsent, so it must not run again under the same attempt.
                self.end(entry, Outcome("released", seq, entry.attempt))
        self.board.clear(child.index)
        del self.children[child.index]
        self._wake()

    def _is_careful(self, entry: Entry) -> bool:
        """Whether it must not run again once a worker has it: it was sent for a free slot, so it has begun."""
        facts = self.tasks.get(entry.task)
        return facts is not None and facts.on_lost == "fail"

    def _lost(self, entry: Entry, child: Child) -> Outcome:
        reason = f"was ended: {child.kill_reason}" if child.kill_reason else child.exit_reason
        error = JobError("Lost", f"its worker {reason}")
        return Outcome("lost", entry.seq, entry.attempt, error=error, final=self._is_careful(entry))
