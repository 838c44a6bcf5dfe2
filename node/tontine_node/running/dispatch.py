"""Claimed jobs -> the workers, and their reports -> outcomes."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from tontine.clock import Clock
from tontine.records.counted import Noted
from tontine.records.job import SUSPECT, JobError
from tontine.records.schedule import Schedule
from tontine.rules import attempt
from tontine.store.settle import Outcome

from ..claims import Claims, Entry, Status
from ..config import NodeConfig
from ..telling.troubles import Troubles
from . import declared
from .board import Board
from .pace import Pace
from .pipe import (
    AttemptEnded,
    CountedDone,
    Done,
    Hello,
    Orders,
    PrintedLines,
    Reports,
    Submit,
    TaskFacts,
)
from .pool import FENCE, REPLACED, Child, Pool
from .staging import Staging
from .workload import Workload

log = logging.getLogger(__name__)

LINES_AT_MOST = 10_000
SPARED_AT_MOST = 10_000
UNKNOWN = TaskFacts()
"""A task that no worker has: what is held of it is from before a worker was replaced."""


class Dispatcher:
    """Gives the jobs of one node to its workers, and settles what becomes of them."""

    def __init__(
        self,
        config: NodeConfig,
        clock: Clock,
        board: Board,
        claims: Claims,
        settle: Callable[[Outcome], None],
        troubles: Troubles,
    ) -> None:
        self.config = config
        self.clock = clock
        self.board = board
        self.claims = claims
        self.pool = Pool(config, clock, board, troubles, self)
        self.pace = Pace()
        self.workloads: dict[int, Workload] = {}
        self.held: deque[Entry] = deque()
        self.modules: list[dict[str, Any]] = []
        self.tasks: dict[str, TaskFacts] = {}
        self.schedules: list[Schedule] = []
        self.progress: dict[int, tuple[float, str]] = {}
        self.lines: deque[PrintedLines] = deque(maxlen=LINES_AT_MOST)
        self.is_draining = False
        self.take_requests: Callable[[Workload, Sequence[Submit]], None] = lambda *_: None
        """Hears what jobs a worker's tasks want to submit."""
        self.eased: Callable[[], None] = lambda: None
        """Hears that there may be room for more jobs."""
        self.staging: Staging | None = None
        """Knows what jobs keep from one attempt to the next."""
        self.server_now: Callable[[], datetime | None] = lambda: None
        self.is_noted: Callable[[str], bool] = lambda _: True
        """Whether the node's record says of a task key that it must not run twice (MO7)."""
        self._settle = settle
        self._spared: Counter[int] = Counter()
        self._keeps_some = False
        """Whether any of its tasks has stages, or saves."""

    @property
    def slots(self) -> int:
        return self.config.processes * self.config.slots

    def running_in(self, workload: Workload) -> dict[int, float]:
        """The jobs that a worker runs now, and since when."""
        running = self.board.running(workload.child.index)
        return {one.seq: one.since for one in running if one.seq in workload.sent}

    def running(self) -> dict[int, float]:
        """The jobs that run now, and since when."""
        return {
            seq: since
            for load in list(self.workloads.values())
            for seq, since in self.running_in(load).items()
        }

    def room(self) -> int:
        """How many more jobs to claim. Full batches, not a trickle: none until half of the target
        is used up."""
        if not self.pool.is_ready:
            return 0
        # A worker that is busy with something long will not start what is claimed ahead for it.
        quick = sum(not workload.is_recalled for workload in self.workloads.values())
        slow = len(self.workloads) - quick
        target = self.pace.claim_target(quick * self.config.slots) + slow * self.config.slots
        holding = sum(len(workload.sent) for workload in self.workloads.values()) + len(self.held)
        if self.staging is not None:
            holding += len(self.staging.reading)
        return target - holding if holding <= target // 2 or holding < self.slots else 0

    def free_slots(self) -> int:
        """Slots that would start a job at once."""
        workers = [workload for workload in self.workloads.values() if workload.can_work]
        busy = sum(min(len(workload.sent), self.config.slots) for workload in workers)
        return max(0, self.config.slots * len(workers) - busy - len(self.held))

    @property
    def takes_suspects(self) -> bool:
        """Whether a job that may be poison may be claimed now: alone, one at a time, for a slot
        that is free (P2)."""
        return self.free_slots() > 0 and not self.claims.suspects

    @property
    def careful_tasks(self) -> list[str]:
        """Tasks that must not run again once they may have begun."""
        return sorted(name for name, facts in self.tasks.items() if facts.on_lost == "fail")

    def facts_of(self, entry: Entry) -> TaskFacts:
        return self.tasks.get(entry.task, UNKNOWN)

    def attempts_of(self, entry: Entry) -> int:
        """How many attempts of a job may fail."""
        return attempt.allowed(entry.max_attempts, self.facts_of(entry).max_attempts)

    def offer(self, entries: Iterable[Entry], *, first: bool = False) -> None:
        """Take claimed jobs and hand out what fits, higher priority first; `first` puts them before
        the others."""
        now, is_ranked = self.clock.now(), False
        if self.staging is not None and self._keeps_some:
            entries = self.staging.admit(entries, self)
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
        if not self.held or self.pool.is_ending or self.is_draining:
            return
        workers = [workload for workload in self.workloads.values() if workload.can_take]
        for workload in sorted(workers, key=lambda workload: len(workload.sent)):
            room = self._room_of(workload)
            if len(self.held) > self.slots:  # enough for all: each gets its part
                room = min(room, -(-len(self.held) // len(workers)))
            entries = self._next_for(workload, room)
            for entry in entries:
                entry.status = Status.SENT
                workload.sent[entry.seq] = entry
            if entries:
                orders = Orders(run=[(entry.seq, entry.raw) for entry in entries])
                if self._keeps_some:
                    orders.resume = [(entry.seq, entry.kept) for entry in entries if entry.kept]
                workload.child.send(orders)

    def _room_of(self, workload: Workload) -> int:
        ahead = 1 if workload.is_recalled else self.pace.ahead()
        room = self.config.slots * ahead - len(workload.sent)
        if self.config.max_jobs is not None:
            room = min(room, self.config.max_jobs - workload.served - len(workload.sent))
        return room

    def _next_for(self, workload: Workload, room: int) -> list[Entry]:
        """What a worker gets next. A job that must not run twice, or start late, goes only where a
        slot is free: sent ahead of one, nobody could tell after the worker's end whether it had
        begun, or when it would."""
        entries: list[Entry] = []
        passed: list[Entry] = []
        while self.held and len(entries) < room:
            entry = self.held.popleft()
            if entry.start_by is not None and self._is_late(entry.start_by):
                self.end(entry, Outcome("late", entry.seq, entry.attempt))
                continue
            if self._is_careful(entry) and not self.is_noted(entry.task):
                passed.append(entry)
                continue
            starts_now = len(workload.sent) + len(entries) < self.config.slots
            if starts_now or (entry.start_by is None and not self._is_careful(entry)):
                entries.append(entry)
            else:
                passed.append(entry)
        self.held.extendleft(reversed(passed))
        return entries

    def _is_late(self, start_by: float) -> bool:
        now = self.server_now()
        return now is not None and now.timestamp() > start_by

    def _is_careful(self, entry: Entry) -> bool:
        """Whether it must not run again once a worker has it: it was sent for a free slot, so it
        has begun."""
        return self.facts_of(entry).on_lost == "fail"

    def hold_again(self) -> None:
        """What was held through a fence has not been waiting for a slot."""
        for entry in self.held:
            entry.since = self.clock.now()

    def release_held(self, patience: float = 0.0) -> None:
        """Give back unstarted jobs that waited here longer than `patience`."""
        limit = self.clock.now() - patience
        for entry in [entry for entry in self.held if entry.since <= limit]:
            self.held.remove(entry)
            self.end(entry, Outcome("released", entry.seq, entry.attempt))

    def recall_all(self) -> None:
        """Ask every worker for the orders it has not begun."""
        for workload in self.workloads.values():
            workload.recall()

    def end(self, entry: Entry, outcome: Outcome) -> None:
        """An attempt is over: settle it."""
        entry.status = Status.RESULT
        self.claims.grow(entry, len(outcome.result))
        outcome.progress = self.progress.pop(entry.seq, None)
        if self.staging is not None and self._keeps_some:
            outcome.saved = self.staging.unwritten(entry)
        self._settle(outcome)

    def metrics(self) -> dict[str, Any]:
        """What the node's record says of its workers."""
        return {
            "workers": self.pool.ready,
            "workers_wanted": self.config.processes,
            "crashes": self.pool.crashes,
            "last_crash": self.pool.last_crash,
        }

    def started(self, child: Child) -> None:
        """A worker's process is there."""
        self.workloads[child.index] = Workload(child)

    def heard(self, child: Child, reports: Reports) -> None:
        """Take a frame of reports."""
        workload = self.workloads[child.index]
        for hello in reports.hello:
            self._take_hello(hello)
        if reports.submit:  # before the reports of ends: a job that has ended submits nothing
            self.take_requests(workload, reports.submit)
        for seq, value, note in reports.progress:  # before the end of the job that said it
            if seq in workload.sent:
                self.progress[seq] = (value, note)
        if self.staging is not None and reports.saved:
            self.staging.take_saved(workload, reports.saved)
        if self.staging is not None and reports.staged:
            self.staging.take_outputs(workload, reports.staged)
        if reports.done:
            self._take_done(workload, reports.done)
        for counted in reports.counted:
            self._take_counted(workload, counted)
        for ended in reports.ended:
            self._take_ended(workload, ended)
        for returned in reports.returned:
            self._take_returned(workload, returned.seqs)
        self.lines.extend(reports.lines)
        if workload.is_recalled and not self.running_in(workload):
            workload.is_recalled = False
        is_used_up = self.config.max_jobs is not None and workload.served >= self.config.max_jobs
        if is_used_up and not workload.sent:
            child.kill(REPLACED)
        self.dispatch()
        self.eased()

    def _take_hello(self, hello: Hello) -> None:
        self.modules = hello.modules
        self.tasks = hello.tasks
        self._keeps_some = any(facts.saves for facts in hello.tasks.values())
        self.schedules = declared.unpack(hello.schedules)

    def _take_done(self, workload: Workload, done: Sequence[Done]) -> None:
        for seq, ran, result in done:
            if entry := workload.take_report(seq):
                clean = not entry.fails and not entry.lost
                self.end(
                    entry, Outcome("done", seq, entry.attempt, ran, result=result, clean=clean)
                )
        workload.served += len(done)
        times = [ran for _, ran, _ in done]
        self.pace.ran(sum(times) / len(times), len(times), max(times))

    def _take_counted(self, workload: Workload, done: CountedDone) -> None:
        workload.served += 1
        self.pace.ran(done.ran)
        if entry := workload.take_report(done.seq):
            outcome = Outcome("done", done.seq, entry.attempt, done.ran, result=done.result)
            outcome.clean = not entry.fails and not entry.lost
            outcome.noted = Noted.from_row(done.noted)
            self.end(entry, outcome)

    def _take_ended(self, workload: Workload, ended: AttemptEnded) -> None:
        workload.served += 1
        self.pace.ran(ended.ran)
        if entry := workload.take_report(ended.seq):
            how = ended.how
            error = JobError(how.type, how.message, how.traceback)
            outcome = Outcome(
                how.kind, entry.seq, entry.attempt, ended.ran, error=error, delay=how.delay
            )
            self.end(entry, outcome)

    def _take_returned(self, workload: Workload, seqs: Iterable[int]) -> None:
        workload.recalls -= 1
        for seq in seqs:
            entry = workload.sent.pop(seq, None)
            if entry is not None and seq in workload.ending:
                self.end(entry, Outcome("cancelled", seq, entry.attempt))
            elif entry is not None:
                entry.status = Status.HELD
                self.held.append(entry)

    def ended(self, child: Child) -> bool:
        """A worker is gone: what it ran is lost, unless we ended it; what may run again is given
        back."""
        workload = self.workloads.pop(child.index)
        for entry, outcome in workload.given_up:
            self.end(entry, outcome)
        blamed = set() if child.kill_reason or child.broken else self._blame(workload)
        for seq, entry in workload.sent.items():
            if seq in blamed or self._is_careful(entry):
                self.end(entry, self._lost(entry, child))
            elif child.kill_reason == FENCE:
                entry.status = Status.KILLED
            else:
                # It may have run with its report still unsent, so it must not run again under the
                # same attempt.
                self.end(entry, Outcome("released", seq, entry.attempt, begun=True))
        self.eased()
        return bool(workload.served or workload.sent)

    def _blame(self, workload: Workload) -> set[int]:
        """A worker crashed: which of its jobs may have ended it.

        The last that each slot began, running or not. One that had returned before, its report
        unsent, may have left something behind that ended the worker later: it is spared as often as
        a neighbour that is poison can take it along before that is claimed alone (P2).
        """
        past = self.board.past(workload.child.index)
        begun = workload.begun(past.begun)
        blamed = {seq for seq in begun if seq in past.last or self._spared[seq] >= SUSPECT}
        if len(self._spared) > SPARED_AT_MOST:
            self._spared.clear()
        self._spared.update(seq for seq in begun if seq not in blamed)
        facts = {
            "event": "worker-ended",
            "reason": workload.child.exit_reason,
            "running": sorted(blamed),
        }
        log.warning("a worker ended", extra=facts)
        return blamed

    def _lost(self, entry: Entry, child: Child) -> Outcome:
        reason = f"was ended: {child.kill_reason}" if child.kill_reason else child.exit_reason
        error = JobError("Lost", f"its worker {reason}")
        return Outcome("lost", entry.seq, entry.attempt, error=error, final=self._is_careful(entry))
