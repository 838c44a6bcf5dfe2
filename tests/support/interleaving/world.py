"""Nodes, producers and operators on one MongoDB, and every fault between them as a method.

After every store call that lands the documents are judged (`history.py`), after every start of a
task what runs; the first violation is raised by the step that caused it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tontine.errors import TontineError
from tontine.records.job import SUSPECT
from tontine.records.roster import Roster
from tontine.records.states import FINAL, Desired, JobState, NodeState
from tontine.records.task_key import name_of
from tontine.store import bell, control, insert
from tontine.store.bell import Hint
from tontine.store.call import Call, Operation
from tontine.store.insert import Wish
from tontine.store.names import BELL, COUNTER, JOBS
from tontine_node.running.pipe import Hello

from .auditor import Auditor
from .history import ASK, CANCEL, RETRY, History, Violation, Witness, is_claim, is_roster_change
from .life import TIMING, Life
from .loop import ManualClock, ManualLoop
from .network import Direct, Message, Network, Wire
from .planted import NONE, Fault
from .worker import CAREFUL, FACTS, RARE, TASK, Run, Worker, hello_with

STEP = 2 * TIMING.heartbeat_every
"""Time passes in steps that let every healthy node beat often enough."""
CALM_WITHIN = 60
NAMES = "abcdefghijklmnopqrstuvwxyz"


class World:
    """One run of the simulation."""

    def __init__(self, database: Any, fault: Fault = NONE) -> None:
        self.clock = ManualClock()
        self.lives: list[Life] = []
        self.runs: list[Run] = []
        self.rings: list[Hint] = []
        self._retried: set[Run] = set()
        self._fault = fault
        self._violations: list[Violation] = []
        self._judged: set[tuple[str, tuple[int, frozenset[str]]]] = set()
        direct = Direct(database)
        self.auditor = Auditor(self.clock.now)
        self.history = History(direct, Witness(self._is_leased, self._is_running), self.auditor.see)
        self.network = Network(direct, self.clock.now, self._landed)
        self.network.sent, self.network.change = self._sent, fault.change
        self._askers = ManualLoop(self.clock, self._complain)
        self._database = database
        self._log = _Complaints(self._complain)
        logging.getLogger("tontine_node").addHandler(self._log)
        for collection in ("jobs", "nodes", "cluster", "events", "logs"):
            database[collection].delete_many({})
        database.cluster.insert_one(
            {"_id": COUNTER, "seq": 0}
        )  # a node makes it before it does anything else

    def close(self) -> None:
        logging.getLogger("tontine_node").removeHandler(self._log)
        for life in self.lives:
            life.crash()
        self._askers.abandon()

    # Who there is

    @property
    def awake(self) -> list[Life]:
        return [life for life in self.lives if life.is_awake]

    @property
    def frozen(self) -> list[Life]:
        return [life for life in self.lives if life.is_frozen and not life.is_over]

    @property
    def running(self) -> list[tuple[Life, Worker, Run]]:
        return [(life, worker, run) for life in self.awake for worker, run in life.runs]

    def sent_by(self, life: Life) -> list[Message]:
        return [message for message in self.network.in_flight if message.sender in life.ids]

    def asked(self, sender: str) -> list[Message]:
        """Calls in flight of somebody who is no node."""
        return [message for message in self.network.in_flight if message.sender == sender]

    def owner_of(self, node: str) -> Life | None:
        return next((life for life in self.lives if node in life.ids), None)

    @property
    def is_violated(self) -> bool:
        return bool(self._violations)

    # What happens

    def start_node(
        self,
        name: str | None = None,
        slots: int = 1,
        *,
        hears: bool = False,
        hello: Hello | None = None,
    ) -> Life:
        """A new process; with the name of another one it waits for that one's end. Perhaps it
        `hears` the bell. Its workers have what their `hello` says."""
        name = name or NAMES[len(self.lives)]
        life = Life(
            name,
            self.clock,
            self.network,
            self._database,
            slots,
            self._begun,
            self._fault.sabotage,
            self._complain,
            hello or hello_with(TASK, CAREFUL),
        )
        self.lives.append(life)
        self._go(life)
        life.hears = hears
        return life

    def submit(
        self, count: int = 1, task: str = TASK, args: Mapping[str, Any] | None = None
    ) -> None:
        if count == 1:
            self._ask("submit", insert.submit(Wish(task), args or {}))
        else:
            self._ask("submit", insert.submit_many(Wish(task), [{}] * count))

    def insert_raw(self, document: dict[str, Any]) -> None:
        self._ask("raw", _one(Call(JOBS, "insert_one", (document,))))

    def cancel(self, seq: int) -> None:
        self._ask(CANCEL, control.cancel(seq))

    def retry(self, seq: int) -> None:
        """An operator who wants a job to run again may have it run twice."""
        self._retried.update(run for run in self.runs if run.seq == seq)
        self._ask(RETRY, control.retry(seq))

    def ask_node(self, life: Life, desired: Desired) -> None:
        self._ask(ASK, control.ask(life.node.id, desired))

    def announce(self, life: Life, hint: Hint) -> None:
        """A node hears a ring: of what is there, will be in a moment, or was long ago."""
        life.hear(hint)
        self._go(life)

    def stop(self, life: Life) -> None:
        life.stop()
        self._go(life)

    def crash(self, life: Life) -> None:
        life.crash()
        for message in [message for message in self.network.in_flight if not message.is_open]:
            self.network.give_up(message)
        self._check()

    def freeze(self, life: Life) -> None:
        life.is_frozen = True

    def thaw(self, life: Life, *, reports_first: bool = False) -> None:
        """It goes on where it was; with `reports_first` its tasks end before anybody in it looks at
        the time."""
        life.is_frozen = False
        if reports_first:
            for worker, run in life.runs:
                worker.end(run, "done")
        self._go(life)

    def end_task(self, worker: Worker, run: Run, how: str) -> None:
        worker.end(run, how)
        if life := self.owner_of(run.node):
            self._go(life)

    def end_tasks(self) -> None:
        for _, worker, run in self.running:
            if not run.ended:
                self.end_task(worker, run, "done")

    def pass_time(self, seconds: float) -> None:
        """The clock moves for everybody at once; calls that took too long are given up by those who
        can."""
        self.clock.advance(seconds)
        for message in list(self.network.in_flight):
            if message.until < self.clock.now() and not self._is_frozen(message):
                self.network.give_up(message)
        self._go_all()

    def land(self, message: Message) -> None:
        self.network.land(message)
        self._check()

    def answer(self, message: Message) -> None:
        self._after(self.network.answer, message)

    def go_on(self, message: Message) -> None:
        self._after(self.network.go_on, message)

    def lose_answer(self, message: Message) -> None:
        self._after(self.network.lose_answer, message)

    def lose(self, message: Message) -> None:
        self._after(self.network.lose, message)

    def give_up(self, message: Message) -> None:
        self._after(self.network.give_up, message)

    def land_late(self, message: Message) -> None:
        self._after(self.network.land_late, message)

    def flow(self, at_most: int = 1000) -> None:
        """Calls arrive and are answered in their order, until all is quiet."""
        for _ in range(at_most):
            waiting = [
                message for message in self.network.in_flight if not self._is_frozen(message)
            ]
            if not waiting:
                return
            self.go_on(waiting[0])

    def flow_until(self, match: Callable[[Message], bool], within: float = 60.0) -> Message:
        """Calls arrive and time passes until there is one like that; it stays where it is."""
        until = self.clock.now() + within
        while self.clock.now() < until:
            waiting = [
                message for message in self.network.in_flight if not self._is_frozen(message)
            ]
            if found := next(filter(match, waiting), None):
                return found
            if waiting:
                self.go_on(waiting[0])
            else:
                self.pass_time(0.5)
        raise LookupError(f"no such call within {within:g} s")

    def live_on(self, seconds: float, *, ending: bool = False) -> None:
        """Time passes without trouble for those who are awake; with `ending`, their tasks come to
        an end."""
        until = self.clock.now() + seconds
        while self.clock.now() < until:
            self.flow()
            if ending:
                self.end_tasks()
            self.pass_time(min(STEP, until - self.clock.now()))
        self.flow()

    def calm_down(self) -> None:
        """No more faults: every job must end, and the roster be right, while one node works (L1,
        L3)."""
        for message in list(self.network.given_up):
            self.land_late(message)
        for life in self.frozen:
            self.thaw(life)
        missing: list[str] = []
        for _ in range(CALM_WITHIN):
            self.flow()
            # Also when the last one has just heard that it is not wanted any more.
            if not any(life.is_wanted for life in self.lives) or self._lacks_a_task():
                self.start_node(hello=hello_with(TASK, CAREFUL, RARE))
            self.end_tasks()
            self.flow()
            missing = list(self._missing())
            if not missing:
                self._complain_of_false_alarms()
                return
            self.pass_time(STEP)
        self._violations.append(
            Violation("L1", f"after {CALM_WITHIN * STEP:g} s of calm: {'; '.join(missing)}")
        )
        self._check()

    def _lacks_a_task(self) -> bool:
        """Whether nobody who will stay has the task of a job that is there."""
        served = {task for life in self.lives if life.is_wanted for task in life.hello.tasks}
        waiting = [job for job in self.history.jobs.values() if job.get("state") not in FINAL]
        return any(job.get("task") in FACTS and job["task"] not in served for job in waiting)

    # What must hold

    def _missing(self) -> Iterator[str]:
        for job in self.history.jobs.values():
            if job.get("seq") is None or job["state"] not in FINAL:
                yield f"{job} is not at its end"
        roster, wanted = (
            set(self.history.roster["members"]),
            {life.node.id for life in self.awake if life.is_wanted},
        )
        if roster != wanted:
            yield f"the roster is {sorted(roster)}, wanted are {sorted(wanted)}"
        for life in self.awake:
            state = self.history.nodes.get(life.node.id, {}).get("state")
            if life.was_stopped or life.node.beat.desired is Desired.STOPPED:
                yield (
                    f"{life.node.id} has not stopped: "
                    f"{[(entry.seq, entry.status) for entry in life.node.claims]}"
                )
            elif (state == NodeState.PAUSED) != (life.node.beat.desired is Desired.PAUSED):
                yield f"{life.node.id} is {state}, not {life.node.beat.desired.value}"

    def _sent(self, message: Message) -> None:
        if (is_claim(message.call) or is_roster_change(message.call)) and not self._is_leased(
            message.sender
        ):
            self._violations.append(Violation("M4", f"sent without a lease: {message}"))

    def _landed(self, message: Message) -> None:
        self._violations += self.history.look(message)
        if message.call.collection == BELL:
            self.rings.append(bell._hint(message.call.args[0]))
            for life in self.awake:
                if life.hears:
                    life.hear(self.rings[-1])
                    life.turn()

    def _begun(self, run: Run) -> None:
        """A task starts: it must be the only one of its job, under a licence that is this node's
        (J2, S3)."""
        job = self.history.by_seq(run.seq)
        if (job["state"], job["node"], job["attempt"]) != (JobState.WORKING, run.node, run.attempt):
            self._violations.append(Violation("S2", f"{run} has no licence in {job}"))
        for other in self.runs:
            if other.seq == run.seq and other.attempt >= run.attempt:
                self._violations.append(Violation("S4", f"{run} after {other}"))
            if (
                other.seq == run.seq
                and other.is_cut_short
                and name_of(job["task"]) == CAREFUL
                and other not in self._retried
            ):
                self._violations.append(Violation("once", f"{run} again after {other}"))
            if other.seq == run.seq and not other.ended and not self._is_zombie(other):
                self._violations.append(Violation("S3", f"{run} while {other}"))
        if name_of(job["task"]) not in run.tasks:
            self._violations.append(Violation("MI2", f"{run} of a task that its worker lacks"))
        self.runs.append(run)

    def _judge_owners(self) -> Iterator[Violation]:
        """In an epoch every number of a task that a member has is one member's, and all who know
        that roster agree (MI1)."""
        roster = Roster.from_document(self.history.roster)
        for life in self.awake:
            for turn in life.node.turns:
                seen = (life.node.id, turn.lanes.arranged_for)
                if turn.lanes.arranged_for[0] != roster.epoch or seen in self._judged:
                    continue
                self._judged.add(seen)
                for lane in turn.lanes:
                    mine = {
                        (seq, key)
                        for key in lane.keys
                        for seq in range(12)
                        if (roster.owner_of(seq, key) == life.node.id) != lane.share.owns(seq)
                    }
                    if mine:
                        yield Violation("MI1", f"{life.node.id} is wrong about {sorted(mine)}")

    def _check(self) -> None:
        self._violations += self._judge_owners()
        for life in self.awake:
            suspects = [entry.seq for entry in life.node.claims if entry.lost >= SUSPECT]
            if len(suspects) > 1:
                self._violations.append(
                    Violation("S9", f"{life.node.id} holds {suspects}, each perhaps poison")
                )
        if self._violations:
            first = self._violations[0]
            first.add_note("the last writes:\n" + "\n".join(self.network.log[-30:]))
            raise first

    def _is_leased(self, node: str) -> bool:
        life = self.owner_of(node)
        return life is not None and self.clock.now() < life.lease_of(node)

    def _is_running(self, seq: int, attempt: int) -> bool:
        return any((run.seq, run.attempt) == (seq, attempt) for _, _, run in self.running)

    def _is_zombie(self, run: Run) -> bool:
        life = self.owner_of(run.node)
        return life is not None and life.is_frozen

    def _is_frozen(self, message: Message) -> bool:
        life = self.owner_of(message.sender)
        return life is not None and life.is_frozen

    # How it happens

    def _ask(self, sender: str, steps: Operation[Any]) -> None:
        wire = Wire(self.network, sender, self._database)

        async def ask() -> None:
            try:
                await wire.run(steps)
            except TontineError:
                return  # whoever asked was told, and has gone

        with self._askers.entered():
            self._askers.create_task(ask())
        self._askers.turn()
        self._check()

    def _after(self, fate: Callable[[Message], None], message: Message) -> None:
        fate(message)
        if life := self.owner_of(message.sender):
            self._go(life)
        else:
            self._askers.turn()
            self._check()

    def _go(self, life: Life) -> None:
        life.turn()
        self._check()

    def _go_all(self) -> None:
        self._askers.turn()
        for life in self.awake:
            life.turn()
        self._check()

    def _complain_of_false_alarms(self) -> None:
        """All went well: the product's auditor must have nothing to say either."""
        self._violations += [Violation("auditor", str(found)) for found in self.auditor.findings]
        self._check()

    def _complain(self, what: str) -> None:
        self._violations.append(Violation("bug", what))


class _Complaints(logging.Handler):
    """A node that logs an error has a bug that it survived, unless that is the news of a job that
    failed for good."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._complain = complain

    def emit(self, record: logging.LogRecord) -> None:
        if vars(record).get("event") != "job-failed":
            self._complain(f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}")


def _one(call: Call) -> Operation[Any]:
    return (yield call)
