"""Starts, replaces and drains worker processes; gives them orders and takes their reports."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from subprocess import SubprocessError
from typing import Any

from tontine.clock import Clock
from tontine.errors import ConfigError
from tontine.records.job import JobError
from tontine.records.schedule import Schedule
from tontine.store.claim import SUSPECT
from tontine.store.settle import Outcome

from ..claims import Claims, Entry, Status
from ..config import NodeConfig
from ..telling.troubles import Troubles
from . import declared, pipe
from .board import Board
from .pace import Pace
from .pool import FENCE, Child, spawn

log = logging.getLogger(__name__)

START_LIMIT = 60.0
STARTS_AT_MOST = 3
LINES_AT_MOST = 10_000
END_WITHIN = 5.0
"""How long SIGKILL may take to end a worker before the node goes on without it."""
READ_WITHIN = 1.0
"""How long the last reports of a worker that has ended may take to arrive."""
CLOSED_FOR = 0.2
"""How long a worker may live after it has closed its connection."""
PAUSE, PAUSE_AT_MOST = 0.1, 10.0
SPARED_AT_MOST = 10_000


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the master must know of a task; the worker said so."""

    on_lost: str
    is_async: bool
    timeout: float | None
    max_attempts: int
    delays: list[float]
    """Its backoff before the second attempt, the third, ..."""
    retries_timeouts: bool = True
    """Whether an attempt that ran too long is tried again, if there are attempts left."""


class Supervisor:
    """The workers of one node."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        board: Board,
        claims: Claims,
        settle: Callable[[Outcome], None],
        wake: Callable[[], None],
        troubles: Troubles,
    ) -> None:
        self.config = config
        self.clock = clock
        self.board = board
        self.claims = claims
        self.pace = Pace()
        self.children: dict[int, Child] = {}
        self.held: deque[Entry] = deque()
        self.modules: list[dict[str, Any]] = []
        self.tasks: dict[str, TaskFacts] = {}
        self.schedules: list[Schedule] = []
        self.progress: dict[int, tuple[float, str]] = {}
        self.lines: deque[tuple[int, int, list[tuple[float, str]]]] = deque(maxlen=LINES_AT_MOST)
        self.is_draining = False
        self.crashes = 0
        self.last_crash = ""
        self.spawn = spawn
        self.take_requests: Callable[[Child, list[Any], bytes], None] = lambda *_: None
        """Hears what jobs a worker's tasks want to submit."""
        self.server_now: Callable[[], datetime | None] = lambda: None
        self._settle = settle
        self._wake = wake
        self._troubles = troubles
        self._keepers: dict[int, asyncio.Task[None]] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()
        self._refusal = ""
        self._failing: set[int] = set()
        """Places where a worker cannot be started."""
        self._spawn_failed_at = float("-inf")
        self._spared: Counter[int] = Counter()

    @property
    def slots(self) -> int:
        return self.config.processes * self.config.slots

    @property
    def is_ready(self) -> bool:
        return self.ready > 0 and not self._ending.is_set()

    @property
    def ready(self) -> int:
        """How many workers could run a job."""
        return sum(child.is_ready and not child.kill_reason for child in list(self.children.values()))

    @property
    def pids(self) -> set[int]:
        return {child.process.pid for child in self.children.values()}

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
        return self.free_slots() > 0 and not self.claims.suspects

    def keep_workers(self) -> None:
        """Start all workers, and from now on in place of each that ends another one."""
        self._ending.clear()
        for index in range(self.config.processes):
            # The keeper of a worker that does not end is still there, and goes on when it does.
            if index not in self._keepers or self._keepers[index].done():
                self._keepers[index] = asyncio.create_task(self._keep(index))

    async def start(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Start all workers; returns when one has loaded the modules, raises `ConfigError` if they cannot be.

        A process that cannot even be started is no fault of theirs: that is waited out, or until `is_over`.
        """
        self._refusal = ""
        self.keep_workers()
        begun, crashes = self.clock.now(), self.crashes
        while not self.is_ready and not is_over():
            if self._refusal:
                raise ConfigError(self._refusal)
            if self.crashes >= crashes + STARTS_AT_MOST:
                raise ConfigError(f"workers end while they load {', '.join(self.config.modules)}: {self.last_crash}")
            if self.clock.now() > max(begun, self._spawn_failed_at) + START_LIMIT:
                raise ConfigError(f"no worker could load {', '.join(self.config.modules)} in {START_LIMIT:g} s")
            await asyncio.sleep(0.01)

    async def kill_all(self, reason: str) -> list[int]:
        """End every worker at once and wait until they are gone; the pids of those that even so do not end.

        What these run stays theirs: nobody may have it before their end is certain (N5, S3).
        """
        self.kill_for_good(reason)
        if tasks := {*self._keepers.values(), *self._waiting}:
            await asyncio.wait(tasks, timeout=END_WITHIN)
        if stuck := [child.process.pid for child in self.children.values()]:
            self._troubles.note("workers", f"SIGKILL does not end the worker processes {stuck}")
            log.error("workers do not end; going on without them", extra={"event": "workers-stay", "pids": stuck})
        return stuck

    def kill_for_good(self, reason: str) -> None:
        """End every worker at once, and start no other."""
        self._ending.set()
        self.kill_now(reason)

    def kill_now(self, reason: str) -> None:
        """Kill every worker that is there; in any thread."""
        for child in list(self.children.values()):
            child.kill(reason)

    def offer(self, entries: Iterable[Entry], *, first: bool = False) -> None:
        """Take claimed jobs and hand out what fits, higher priority first; `first` puts them before the others."""
        now, is_ranked = self.clock.now(), False
        put = self.held.appendleft if first else self.held.append
        for entry in entries:
            entry.status = Status.HELD
            entry.since = now
            put(entry)
            is_ranked = is_ranked or entry.priority != 0
        if is_ranked:
            self.held = deque(sorted(self.held, key=lambda entry: -entry.priority))
        self.dispatch()

    def dispatch(self) -> None:
        """Fill the workers, the emptiest first, a frame for each."""
        if not self.held or self._ending.is_set() or self.is_draining:
            return
        workers = [child for child in self.children.values() if child.can_take]
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
        """What a worker gets next. A job that must not run twice, or start late, goes only where a slot is free: sent
        ahead of one, nobody could tell after the worker's end whether it had begun, or when it would."""
        entries: list[Entry] = []
        passed: list[Entry] = []
        while self.held and len(entries) < room:
            entry = self.held.popleft()
            if entry.start_by is not None and self._is_late(entry.start_by):
                self.end(entry, Outcome("late", entry.seq, entry.attempt))
                continue
            starts_now = len(child.sent) + len(entries) < self.config.slots
            waits = entry.start_by is not None or self._is_careful(entry)
            (entries if starts_now or not waits else passed).append(entry)
        self.held.extendleft(reversed(passed))
        return entries

    def _is_late(self, start_by: float) -> bool:
        now = self.server_now()
        return now is not None and now.timestamp() > start_by

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
        self.claims.grow(entry, len(outcome.result))
        outcome.progress = self.progress.pop(entry.seq, None)
        self._settle(outcome)

    def end_after_exit(self, child: Child, entry: Entry, outcome: Outcome) -> None:
        """Settle once the process is gone: only then may the job be anybody else's."""

        async def wait() -> None:
            await child.process.ended.wait()
            self.end(entry, outcome)

        child.take_report(entry.seq)
        task = asyncio.create_task(wait())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _keep(self, index: int) -> None:
        """Keep one worker running, with a growing pause when it cannot start or ends before it did anything."""
        in_vain = 0
        while not self._ending.is_set():
            try:
                child = self.children[index] = await self.spawn(index, self.config, self.board)
            except (OSError, SubprocessError, RuntimeError, MemoryError) as error:
                self._spawn_failed_at = self.clock.now()
                self._note_failure(index, str(error) or type(error).__name__)
                in_vain += 1
            else:
                await self._live(child)
                in_vain = 0 if child.served or child.sent or child.kill_reason else in_vain + 1
                self._bury(child)
            if in_vain and not self._ending.is_set():
                with contextlib.suppress(TimeoutError):
                    pause = min(PAUSE * 2 ** min(in_vain - 1, 10), PAUSE_AT_MOST)
                    await asyncio.wait_for(self._ending.wait(), pause)

    async def _live(self, child: Child) -> None:
        """Listen to a worker until its process has ended: others may hold its connection open for longer."""
        if self._ending.is_set():
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
        """Take what a worker says until it is silent. What it does then nobody can know, so it must not go on."""
        try:
            while frame := await pipe.read_async(child.reader):
                self._take(child, *frame)
            child.is_ready = False
            await asyncio.wait_for(child.process.ended.wait(), CLOSED_FOR)
        except TimeoutError:
            pass
        except Exception:
            # The top of this loop: tasks share their worker's descriptors, and may write whatever they like.
            log.exception("a worker spoke nonsense", extra={"event": "worker-nonsense", "pid": child.process.pid})
        child.process.kill()

    def _note_failure(self, index: int, why: str, *, is_told: bool = False) -> None:
        """A worker cannot be started: said once in the log, and in the node's record until it can.

        Modules that no worker has ever loaded end the node, which tells why itself.
        """
        if not self._failing and not is_told:
            log.error("a worker could not be started; trying again", extra={"event": "no-worker", "error": why})
        self._failing.add(index)
        self._troubles.note("workers", f"a worker could not be started: {why}")

    def _take(self, child: Child, head: pipe.Head, body: bytes) -> None:
        """Take a frame of reports."""
        if "hello" in head or "broken" in head:
            self._take_news(child, head)
        if "submit" in head:  # before the reports of ends: a job that has ended submits nothing
            self.take_requests(child, head["submit"], body)
        for seq, value, note in head.get("progress", ()):  # before the end of the job that said it
            if seq in child.sent:
                self.progress[seq] = (value, note)
        if "done" in head:
            self._take_done(child, head["done"], body)
        for report in head.get("ended", ()):
            self._take_ended(child, *report)
        for returned in head.get("returned", ()):
            self._take_returned(child, returned)
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
            self.schedules = declared.unpack(hello.get("schedules", ()))
            child.is_ready = True
            self._failing.discard(child.index)
            if not self._failing:
                self._troubles.over("workers")
        for text in head.get("broken", ()):
            child.broken = self._refusal = self.last_crash = text
            self.crashes += 1
            self._note_failure(child.index, text, is_told=not self.modules)

    def _take_done(self, child: Child, done: list[Any], body: bytes) -> None:
        for (seq, ran, _), raw in zip(done, pipe.cut(body, (size for _, _, size in done)), strict=True):
            if entry := child.take_report(seq):
                clean = not entry.fails and not entry.lost
                self.end(entry, Outcome("done", seq, entry.attempt, ran, result=raw, clean=clean))
        child.served += len(done)
        times = [ran for _, ran, _ in done]
        self.pace.ran(sum(times) / len(times), len(times), max(times))

    def _take_ended(
        self, child: Child, seq: int, ran: float, kind: Any, type_: str, message: str, trace: str, delay: float
    ) -> None:
        child.served += 1
        self.pace.ran(ran)
        if entry := child.take_report(seq):
            error = JobError(type_, message, trace)
            self.end(entry, Outcome(kind, seq, entry.attempt, ran, error=error, delay=delay))

    def _take_returned(self, child: Child, seqs: list[int]) -> None:
        child.recalls -= 1
        for seq in seqs:
            entry = child.sent.pop(seq, None)
            if entry is not None and seq in child.ending:
                self.end(entry, Outcome("cancelled", seq, entry.attempt))
            elif entry is not None:
                entry.status = Status.HELD
                self.held.append(entry)

    def _bury(self, child: Child) -> None:
        """A worker is gone: what it ran is lost, unless we ended it; what may run again is given back."""
        if self.board.ended_at_deadline(child.index):
            child.kill_reason = child.kill_reason or FENCE
        blamed = set() if child.kill_reason or child.broken else self._blame(child)
        for seq, entry in child.sent.items():
            if seq in blamed or self._is_careful(entry):
                self.end(entry, self._lost(entry, child))
            elif child.kill_reason == FENCE:
                entry.status = Status.KILLED
            else:
                # It may have run with its report still unsent, so it must not run again under the same attempt.
                self.end(entry, Outcome("released", seq, entry.attempt, begun=True))
        self.board.clear(child.index)
        del self.children[child.index]
        self._wake()

    def _blame(self, child: Child) -> set[int]:
        """A worker crashed: which of its jobs may have ended it.

        The last that each slot began, running or not. One that had returned before, its report unsent, may have left
        something behind that ended the worker later: it is spared as often as a neighbour that is poison can
        take it along before that is claimed alone (P2).
        """
        past = self.board.past(child.index)
        begun = child.begun(past.begun)
        blamed = {seq for seq in begun if seq in past.last or self._spared[seq] >= SUSPECT}
        if len(self._spared) > SPARED_AT_MOST:
            self._spared.clear()
        self._spared.update(seq for seq in begun if seq not in blamed)
        self.crashes += 1
        self.last_crash = child.exit_reason
        facts = {"event": "worker-ended", "reason": child.exit_reason, "running": sorted(blamed)}
        log.warning("a worker ended", extra=facts)
        return blamed

    def _is_careful(self, entry: Entry) -> bool:
        """Whether it must not run again once a worker has it: it was sent for a free slot, so it has begun."""
        facts = self.tasks.get(entry.task)
        return facts is not None and facts.on_lost == "fail"

    def _lost(self, entry: Entry, child: Child) -> Outcome:
        reason = f"was ended: {child.kill_reason}" if child.kill_reason else child.exit_reason
        error = JobError("Lost", f"its worker {reason}")
        return Outcome("lost", entry.seq, entry.attempt, error=error, final=self._is_careful(entry))
