"""Claimed jobs -> the workers of a context, and their reports -> outcomes."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from tontine.clock import Clock
from tontine.records.counted import Noted
from tontine.records.job import SUSPECT, JobError
from tontine.records.schedule import Schedule
from tontine.records.task_key import fits, has_range, name_of
from tontine.rules import attempt
from tontine.store.settle import Outcome

from ..claims import Claims, Entry, Status
from ..config import ContextConfig, NodeConfig
from ..telling.troubles import Troubles
from . import declared
from .board import Board
from .pace import Pace
from .pipe import (
    AttemptEnded,
    CountedDone,
    Done,
    Orders,
    PageWanted,
    PrintedLines,
    Reports,
    Submit,
    TaskFacts,
)
from .pool import FENCE, Child, Pool
from .staging import Staging
from .unknown import UNKNOWN_TASK, UnknownTasks
from .workload import UNKNOWN, Workload

log = logging.getLogger(__name__)

LINES_AT_MOST = 10_000
SPARED_AT_MOST = 10_000


class Said:
    """What the jobs of a node have said, and is not stored yet."""

    def __init__(self) -> None:
        self.progress: dict[int, tuple[float, str]] = {}
        self.lines: deque[PrintedLines] = deque(maxlen=LINES_AT_MOST)


class Dispatcher:
    """Gives jobs to the workers of one context, and settles what becomes of them.

    All workers that get any have the same code: those of the newest generation that is ready.
    """

    def __init__(
        self,
        config: NodeConfig,
        context: ContextConfig,
        clock: Clock,
        board: Board,
        claims: Claims,
        settle: Callable[[Outcome], None],
        troubles: Troubles,
        said: Said | None = None,
    ) -> None:
        self.context = context
        self.clock = clock
        self.board = board
        self.claims = claims
        self.pool = Pool(config, context, clock, board, troubles, self)
        self.pace = Pace()
        self.workloads: dict[int, Workload] = {}
        self.held: deque[Entry] = deque()
        self.coming: set[int] = set()
        """Jobs that are being claimed with their release, each for a slot that is free."""
        self.modules: list[dict[str, Any]] = []
        """What the workers that get jobs have."""
        self.tasks: dict[str, TaskFacts] = {}
        """The tasks of these that are served now."""
        self.unknown = UnknownTasks()
        self.schedules: list[Schedule] = []
        self.said = said or Said()
        self.is_draining = False
        self.take_requests: Callable[[Workload, Sequence[Submit]], None] = lambda *_: None
        """Hears what jobs a worker's tasks want to submit."""
        self.take_wanted: Callable[[Workload, Sequence[PageWanted]], None] = lambda *_: None
        """Hears what results a worker's tasks want to read."""
        self.eased: Callable[[], None] = lambda: None
        """Hears that there may be room for more jobs."""
        self.staging: Staging | None = None
        """Knows what jobs keep from one attempt to the next."""
        self.greet: Callable[[Child], None] = lambda _: None
        """Hears of every worker that has said hello, before it gets a job."""
        self.unread: Callable[[], frozenset[str]] = frozenset
        """Modules whose named states were not looked for yet."""
        self.server_now: Callable[[], datetime | None] = lambda: None
        self.is_noted: Callable[[str], bool] = lambda _: True
        """Whether the node's record says of a task key that it must not run twice (MO7)."""
        self.changed: Callable[[], None] = lambda: None
        """Hears that workers have come or gone, or that other tasks are served."""
        self._tasks: dict[str, TaskFacts] = {}
        self._versions: dict[str, str] = {}
        self.dropped: frozenset[str] = frozenset()
        """Modules that it has and serves no more."""
        self._careful: frozenset[str] = frozenset()
        self._serving = 0
        self._settle = settle
        self._spared: Counter[int] = Counter()
        self._keeps_some = False
        """Whether any of its tasks has stages, or saves."""

    @property
    def slots(self) -> int:
        return self.context.processes * self.context.slots

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
        # One that still loads may never get ready, and what was claimed for it would go back.
        workers = [one for one in self.workloads.values() if one.can_work]
        workers = workers[: self.context.processes]
        quick = sum(not workload.is_recalled for workload in workers)
        slow = len(workers) - quick
        target = self.pace.claim_target(quick * self.context.slots) + slow * self.context.slots
        holding = sum(len(workload.sent) for workload in workers) + len(self.held)
        if self.staging is not None:
            holding += len(self.staging.reading)
        return target - holding if holding <= target // 2 or holding < self.slots else 0

    def free_slots(self) -> int:
        """Slots that would start a job at once."""
        workers = [workload for workload in self.workloads.values() if workload.can_work]
        busy = sum(min(len(workload.sent), self.context.slots) for workload in workers)
        taken = busy + len(self.held) + len(self.coming)
        return max(0, self.context.slots * len(workers) - taken)

    @property
    def takes_suspects(self) -> bool:
        """Whether a job that may be poison may be claimed now: alone, one at a time, for a slot
        that is free (P2)."""
        return self.free_slots() > 0 and not self.claims.suspects

    @property
    def careful_tasks(self) -> list[str]:
        """Tasks that must not run again once they may have begun, by any code that is here."""
        return sorted(self._careful)

    def attempts_of(self, entry: Entry) -> int:
        """How many attempts of a job may fail."""
        facts = self.tasks.get(name_of(entry.task), UNKNOWN)
        return attempt.allowed(entry.max_attempts, facts.max_attempts)

    def serves(self, task: str) -> bool:
        """Whether it has workers for a job's task key, and may begin it."""
        return task in self.tasks or (has_range(task) and self._fits(task))

    def _fits(self, task: str) -> bool:
        name = name_of(task)
        return name in self.tasks and fits(task, self._versions.get(name, ""))

    def offer(self, entries: Iterable[Entry], *, first: bool = False) -> None:
        """Take claimed jobs and hand out what fits, higher priority first; `first` puts them before
        the others."""
        now, is_ranked = self.clock.now(), False
        if self.staging is not None and self._keeps_some:
            entries = self.staging.admit(entries, self)
        put = self.held.appendleft if first else self.held.append
        for entry in entries:
            if entry.task not in self.tasks and not self.serves(entry.task):
                # Claimed before its task was dropped, or replaced by code that lacks it.
                self.end(entry, Outcome("released", entry.seq, entry.attempt))
                continue
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
        room = self.context.slots * ahead - len(workload.sent)
        if self.context.max_jobs is not None:
            room = min(room, self.context.max_jobs - workload.served - len(workload.sent))
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
            is_careful = self._is_careful(entry)
            if is_careful and not self.is_noted(entry.task):
                passed.append(entry)
                continue
            starts_now = len(workload.sent) + len(entries) < self.context.slots
            if starts_now or (entry.start_by is None and not is_careful):
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
        return bool(self._careful) and name_of(entry.task) in self._careful

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
        outcome.progress = self.said.progress.pop(entry.seq, None)
        if self.staging is not None:  # whatever its own tasks keep: a fence ends jobs of all
            outcome.saved = self.staging.unwritten(entry)
        self._settle(outcome)

    def started(self, child: Child) -> None:
        """A worker's process is there."""
        self.workloads[child.index] = Workload(child)

    def heard(self, child: Child, reports: Reports) -> None:
        """Take a frame of reports."""
        workload = self.workloads[child.index]
        if reports.hello:
            self._renew()
            self.greet(child)
        if reports.submit:  # before the reports of ends: a job that has ended submits nothing
            self.take_requests(workload, reports.submit)
        self.take_wanted(workload, reports.pages)
        for seq, value, note in reports.progress:  # before the end of the job that said it
            if seq in workload.sent:
                self.said.progress[seq] = (value, note)
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
        self.said.lines.extend(reports.lines)
        if workload.is_recalled and not self.running_in(workload):
            workload.is_recalled = False
        is_used_up = self.context.max_jobs is not None and workload.served >= self.context.max_jobs
        if is_used_up:
            workload.retire()
        workload.end_if_retired()
        self.dispatch()
        self.eased()

    def drop(self, modules: frozenset[str]) -> None:
        """Serve these no more: nothing of them is claimed from now on, and what has not begun goes
        back (MO3)."""
        if modules != self.dropped:
            self.dropped = modules
            self._serve()
            self.dispatch()

    def modules_beside(self, sources: Collection[str]) -> frozenset[str]:
        """The modules that other sources than these brought."""
        return frozenset(
            one["name"] for one in self.modules if one.get("source", "") not in ("", *sources)
        )

    def replace_workers(self, sources: Sequence[str] | None = None) -> int:
        """Let new workers take the place of all that are there, with these sources or the same; the
        number of their generation."""
        number = self.pool.replace_workers(sources)
        if not self.is_needed:
            self._renew()
        return number

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to load."""
        return self.pool.processes > 0

    def _renew(self) -> None:
        """Workers have come or gone: let the newest serve, and those with other code end (MO4)."""
        newest, serving = self.pool.newest, self.pool.serving
        if serving > self._serving:
            self.unknown.forget()
        self._serving = max(serving, self._serving)
        for workload in list(self.workloads.values()):
            child = workload.child
            is_old = child.number < serving or (newest is not None and child.code != newest.code)
            if child.is_ready and (is_old or not self.is_needed):
                child.is_replaced = True  # also when those that took its place are gone
                workload.retire()
        if newest is not None and newest.hello is not None:
            self.modules, self._tasks = newest.hello.modules, newest.hello.tasks
            self.schedules = declared.unpack(newest.hello.schedules)
        if not self.is_needed:
            self.modules, self._tasks, self.schedules = [], {}, []
        self._note_careful()
        self._serve()

    def _note_careful(self) -> None:
        known = [self._tasks, *(workload.tasks for workload in self.workloads.values())]
        self._careful = frozenset(
            name for tasks in known for name, facts in tasks.items() if facts.on_lost == "fail"
        )
        self._keeps_some = any(facts.saves for tasks in known for facts in tasks.values())

    def _serve(self) -> None:
        """Decide which tasks are served, and give back what is held of others."""
        gone = {
            task for one in self.modules if one["name"] in self.dropped for task in one["tasks"]
        }
        gone |= self.unknown.broken
        self._versions = {
            task: str(one.get("version", "")) for one in self.modules for task in one["tasks"]
        }
        self.tasks = {name: facts for name, facts in self._tasks.items() if name not in gone}
        for entry in [entry for entry in self.held if not self.serves(entry.task)]:
            self.held.remove(entry)
            self.end(entry, Outcome("released", entry.seq, entry.attempt))
        if self.dropped:
            self._recall_dropped()
        self.changed()

    def _recall_dropped(self) -> None:
        for workload in self.workloads.values():
            is_dropped = any(not self.serves(entry.task) for entry in workload.sent.values())
            if is_dropped and not workload.recalls:
                workload.recall()

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
        how = ended.how
        if entry := workload.take_report(ended.seq):
            if how.kind == "refused" and how.type == UNKNOWN_TASK:
                self._take_unknown(workload, entry)
                return
            error = JobError(how.type, how.message, how.traceback)
            outcome = Outcome(
                how.kind, entry.seq, entry.attempt, ended.ran, error=error, delay=how.delay
            )
            self.end(entry, outcome)

    def _take_unknown(self, workload: Workload, entry: Entry) -> None:
        """A worker lacks what it said that it has: that is no fault of the job (MO2)."""
        log.warning(
            "a worker does not know its task",
            extra={"event": "unknown-task", "seq": entry.seq, "task": entry.task},
        )
        self.end(entry, Outcome("released", entry.seq, entry.attempt))
        workload.retire()
        if self.unknown.note(name_of(entry.task), self.clock.now()):
            self._serve()

    def _take_returned(self, workload: Workload, seqs: Iterable[int]) -> None:
        workload.recalls -= 1
        for seq in seqs:
            entry = workload.sent.pop(seq, None)
            if entry is not None and seq in workload.ending:
                self.end(entry, Outcome("cancelled", seq, entry.attempt))
            elif entry is not None and not self.serves(entry.task):
                self.end(entry, Outcome("released", seq, entry.attempt))
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
            is_careful = workload.facts_of(entry).on_lost == "fail"
            if seq in blamed or is_careful:
                self.end(entry, _lost(entry, child, is_final=is_careful))
            elif child.kill_reason == FENCE:
                entry.status = Status.KILLED
            else:
                # It may have run with its report still unsent, so it must not run again under the
                # same attempt.
                self.end(entry, Outcome("released", seq, entry.attempt, begun=True))
        self._note_careful()
        self.changed()
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


def _lost(entry: Entry, child: Child, *, is_final: bool) -> Outcome:
    reason = f"was ended: {child.kill_reason}" if child.kill_reason else child.exit_reason
    error = JobError("Lost", f"its worker {reason}")
    return Outcome("lost", entry.seq, entry.attempt, error=error, final=is_final)
