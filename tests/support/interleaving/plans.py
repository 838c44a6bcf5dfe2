"""Plans carried on by several nodes at once, call by call: any call may be lost, land without its
answer, or land much later, and any node may die between two of them.

The store's own operations run on a real MongoDB; claims, tasks and repair are simulated around
them. A call that may be repeated is made again after an unknown outcome, as the store does. After
every write that lands the documents are judged (PS1 to PS8), and before every start of a task; in
the end every plan has ended, and a plan that runs needs no look for it unless somebody died.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import bson

from tontine.errors import StoreUnavailable, TontineError
from tontine.records.job import JobError
from tontine.records.plan import JobFact, PlanPlace, PlanRecord
from tontine.records.states import ENDED_PLAN, PLAN_MOVES, JobState, PlanState
from tontine.rules import plan as rules
from tontine.rules.plan_graph import PlanGraph
from tontine.store import control as jobs_control
from tontine.store import repair, settle
from tontine.store.call import Call
from tontine.store.claim import held
from tontine.store.counter import Reserve
from tontine.store.plans import accept, control, licence, remove
from tontine.store.plans.advance import Advanced, Advancer
from tontine.store.plans.facts import PlanMemory
from tontine.store.retention import FOR_EVER
from tontine.store.settle import Outcome

from .history import Violation
from .loop import ManualClock
from .network import READS, Direct

FATES = ("go on", "go on", "go on", "go on", "lose", "lose answer", "hold")
Document = dict[str, Any]
Tries = dict[int, int]
Standing = tuple[int | None, str | None, int | None]
"""A plan's number, state and try."""
ADDED = {"k": {"task": "t.x"}, "l": {"task": "t.x", "after": ["k"], "undo": {"task": "t.u"}}}
DEEP = {
    "k": {"task": "t.more", "undo": {"task": "t.u"}},
    "m": {"task": "t.x", "map": [1, 2, 3], "as": "x", "at_once": 1, "undo": {"task": "t.u"}},
    "n": {"task": "t.x", "map": "m", "as": "x", "at_once": 2, "after": ["k"]},
    "e": {"task": "t.x", "map": [], "as": "x"},
    "f": {"task": "t.x", "may_fail": True, "take": {"all": "e"}},
}
MORE = {"t.more": ADDED, "t.deep": DEEP}
"""What tasks add, by their names."""


@dataclass(eq=False)
class Doing:
    """An operation of somebody, at the call that it makes now."""

    who: Node | None
    steps: Generator[Call, Any, Any]
    then: Callable[[Any], None]
    failed: Callable[[], None]
    call: Call | None = None
    what: str = ""
    tries: Tries = field(default_factory=dict)
    """Of each plan the try in which it was read: what it decides is decided for that (PS6)."""
    seen: set[Standing] = field(default_factory=set)
    """How plans stood since it began, or since its claim landed: one of these it has read."""


@dataclass(eq=False)
class Late:
    """A write that nobody waits for any more, and that may land."""

    call: Call
    what: str
    tries: Tries
    is_persons: bool


@dataclass(eq=False)
class Running:
    """A task that a node runs."""

    job: Document
    attempt: int
    place: PlanPlace


@dataclass(eq=False)
class Node:
    """One process: what it holds, runs, and remembers of plans."""

    name: str
    reserve: Reserve
    memory: PlanMemory = field(default_factory=PlanMemory)
    table: set[tuple[int, int]] = field(default_factory=set)
    licensed: list[Running] = field(default_factory=list)
    """What may start, and has yet to."""
    runs: list[Running] = field(default_factory=list)
    barred: set[int] = field(default_factory=set)
    advancing: set[int] = field(default_factory=set)
    """Plans that it goes through at this moment: each once at a time."""
    due: dict[int, list[JobFact] | None] = field(default_factory=dict)
    """What it is to go through them with after that."""
    is_dead: bool = False


Held = tuple[set[int], licence.Licences]


@dataclass(frozen=True)
class Claimed:
    """A job whose claim was sent, or that was inserted as claimed, and what becomes of it."""

    world: PlanWorld
    node: Node
    job: Document
    place: PlanPlace

    @property
    def entry(self) -> tuple[int, int]:
        return int(self.job["seq"]), int(self.job["attempt"]) + 1

    def keep(self, found: Held) -> None:
        """It is ours, or it is not; it may start if it has a licence."""
        (seq, attempt), (ours, licences) = self.entry, found
        if seq not in ours:
            self.node.table.discard(self.entry)
        elif seq in licences.granted:
            self.world.judge_licence(self.place)
            self.node.licensed.append(Running(self.job, attempt, self.place))
        else:
            outcome = Outcome("unlicensed", seq, attempt, final=seq in licences.orphans)
            self.world.settle(self.node, self.place, outcome)

    def resolve(self) -> None:
        """It may be ours: a read tells, and the licence is read after that."""
        self.world.begin(self.node, "resolve", self._read(), self.keep, self.resolve)

    def _read(self) -> Generator[Call, Any, Held]:
        seq, attempt = self.entry
        ours = yield from held(self.node.name, [seq], attempt)
        return ours, (yield from licence.licences_of(ours, {seq: self.place}))


class PlanWorld:
    """One story."""

    def __init__(self, database: Any, seed: int) -> None:
        self.choice = Random(seed)
        self.clock = ManualClock(0.0)
        self.nodes = [Node(name, Reserve(self.clock)) for name in ("a", "b")]
        self.doing: list[Doing] = []
        self.ended: Doing | None = None
        """The operation that has just come to its end."""
        self.late: list[Late] = []
        self.log: list[str] = []
        self.plans: dict[Any, Document] = {}
        self.jobs: dict[Any, Document] = {}
        self.done: dict[str, int] = {}
        self.undo_began: set[int] = set()
        self.is_deadly = self.choice.random() < 0.6
        """Whether nodes die in it: where they do, a plan may have to wait for a look."""
        self.has_people = self.is_deadly or self.choice.random() < 0.3
        """Whether anybody cancels and retries, whose rings may be lost."""
        self.may_stall = False
        """Whether something happened after which only a look goes on: a death, a lost ring."""
        self._database = database
        self._direct = Direct(database)
        for name in ("jobs", "plans", "nodes", "cluster"):
            database[name].delete_many({})
        database.cluster.insert_one({"_id": "counter", "seq": bson.Int64(0)})
        for node in self.nodes:
            self._born(node)

    # What happens

    def insert(self, document: Document) -> None:
        self._database.plans.insert_one(document)
        self._look()

    def step(self) -> None:
        """One thing that may happen next."""
        self.clock.advance(self.choice.choice([0.0, 0.1, 1.5]))
        if self.doing and self.choice.random() < 0.8:
            self._fate(self.choice.choice(self.doing), self.choice.choice(FATES))
            return
        self.choice.choice(
            [
                *[self._work] * 6,
                *[self._start_one] * 6,
                *[self._end_a_task] * 6,
                *[self._accept] * 2,
                *[self._look_at_one] * 2,
                self._reconcile,
                self._repair,
                self._land_late,
                self._land_late,
                self._crash,
                self._cancel,
                self._cancel_job,
                self._retry,
                self._retry,
                self._expire_and_remove,
            ]
        )()

    def calm_down(self, rounds: int = 400) -> None:
        """No more faults: every plan that is there must end (PL-L1)."""
        while self.late:
            self._land_one(self.late.pop())
        if all(node.is_dead for node in self.nodes):
            self._start_node()
        self._go_on()
        for _ in range(rounds):
            self.clock.advance(2.0)
            if self._is_over():
                return
            before = (self.plans, self.jobs)
            for what in (self._accept, self._repair):
                what()
                self._go_on()
            for node in [one for one in self.nodes if not one.is_dead]:
                self._give_back_strays(node)
                self._go_on()
            for plan in list(self.plans.values()):
                if self.may_stall or plan.get("state") != "running":
                    self._look_at(self._alive(), plan.get("seq"))
            self._go_on()
            self._work_all()
            if before == (self.plans, self.jobs):
                self._judge_stall()
                self.may_stall = True
        raise self._violation("PL-L1", f"{self.plans}")

    def _work_all(self) -> None:
        for job in list(self.jobs.values()):
            if job["state"] == "queued":
                self._claim(self._alive(), job)
        self._go_on()
        for node in self.nodes:
            while node.licensed:
                self._start(node, node.licensed.pop())
            for run in list(node.runs):
                self._settle_run(node, run, "done")
        self._go_on()

    def _go_on(self) -> None:
        """All that is under way comes to its end."""
        while self.doing:
            self._fate(self.doing[0], "go on")

    def _let_stall(self) -> None:
        """Who asked and got no answer has not rung: the next look at all plans sees it."""
        self.may_stall = True

    def _judge_stall(self) -> None:
        """Who settles a job goes on with its plan: nobody has to come and look. Only one that was
        accepted by somebody who got no answer, and so does not know, begins with a look."""
        begun = {job["plan"]["seq"] for job in self.jobs.values()}
        for plan in self.plans.values():
            is_begun = plan.get("seq") in begun
            if plan.get("state") == "running" and is_begun and not self.may_stall:
                raise self._violation("PL6", f"nobody goes on with it: {plan}")

    def _is_over(self) -> bool:
        states = [plan.get("state") for plan in self.plans.values()]
        are_final = all(state in {*ENDED_PLAN, "removing"} for state in states)
        return are_final and all(
            job["state"] not in ("queued", "working") for job in self.of_plans()
        )

    def of_plans(self) -> list[Document]:
        there = {plan.get("seq") for plan in self.plans.values()}
        return [job for job in self.jobs.values() if job["plan"]["seq"] in there]

    def _alive(self) -> Node:
        return self.choice.choice([node for node in self.nodes if not node.is_dead])

    def _any_node(self) -> Node | None:
        alive = [node for node in self.nodes if not node.is_dead]
        return self.choice.choice(alive) if alive else None

    def begin(
        self,
        who: Node | None,
        what: str,
        steps: Generator[Call, Any, Any],
        then: Callable[[Any], None] = lambda _: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        doing = Doing(who, steps, then, failed, what=what)
        doing.seen = self._standing()
        self.doing.append(doing)
        self._resume(doing, lambda: steps.send(None))

    def _resume(self, doing: Doing, go: Callable[[], Call]) -> None:
        try:
            doing.call = go()
            while doing.call.unheard:  # a ring: it may be lost, and mostly is
                doing.call = doing.steps.send(None)
        except StopIteration as end:
            self.doing.remove(doing)
            self.ended = doing
            doing.then(end.value)
        except StoreUnavailable:
            self.doing.remove(doing)
            doing.failed()
        except TontineError as error:
            self.doing.remove(doing)
            if doing.who is not None:
                raise self._violation("PL6", f"{doing.what} raised {error!r}") from error

    def _fate(self, doing: Doing, fate: str) -> None:
        call = doing.call
        assert call is not None
        is_write = call.method not in READS and call.method != "command"
        if fate == "go on" or (fate == "lose answer" and not is_write):
            answer = self._land(call, doing.what, doing.tries)
            if isinstance(answer, TontineError):
                error = answer
                self._resume(doing, lambda: doing.steps.throw(error))
            else:
                doing.tries |= _tries_in(call, answer)
                self._resume(doing, lambda: doing.steps.send(answer))
            return
        if fate == "lose answer":
            self._land(call, doing.what, doing.tries)
        elif fate == "hold" and is_write:
            self.late.append(Late(call, doing.what, dict(doing.tries), doing.who is None))
        if call.repeats and self.choice.random() < 0.7:
            return  # the store makes it again
        self._resume(doing, lambda: doing.steps.throw(StoreUnavailable("no answer")))

    def _land(self, call: Call, what: str, tries: Mapping[int, int]) -> Any:
        answer = self._direct.make(call)
        if call.method not in READS and call.method != "command":
            self.log.append(
                f"{self.clock.now():.1f} {what}: {call.collection}.{call.method} {call.args}"
            )
            self._look(tries)
            now = self._standing()
            for doing in self.doing:
                is_claim = doing.call is call and what == "claim"
                doing.seen = now if is_claim else doing.seen | now
        return answer

    def _standing(self) -> set[Standing]:
        return {
            (plan.get("seq"), plan.get("state"), plan.get("try")) for plan in self.plans.values()
        }

    def _land_one(self, late: Late) -> None:
        self.may_stall |= late.is_persons  # nobody rings for it
        self._land(late.call, f"late {late.what}", late.tries)

    def _land_late(self) -> None:
        if self.late:
            self._land_one(self.late.pop(self.choice.randrange(len(self.late))))

    # Nodes

    def _born(self, node: Node) -> None:
        self._database.nodes.insert_one({"_id": node.name, "state": "working", "beat": 1})

    def _start_node(self) -> None:
        node = Node(f"n{len(self.nodes)}", Reserve(self.clock))
        self.nodes.append(node)
        self._born(node)

    def _crash(self) -> None:
        if not self.is_deadly or (node := self._any_node()) is None:
            return
        node.is_dead = self.may_stall = True
        node.runs.clear()
        node.licensed.clear()
        for doing in [one for one in self.doing if one.who is node]:
            self.doing.remove(doing)
            call = doing.call
            if call is not None and call.method not in READS and self.choice.random() < 0.5:
                # It was on its way.
                self.late.append(Late(call, doing.what, dict(doing.tries), is_persons=False))
        self._database.nodes.update_one({"_id": node.name}, {"$set": {"state": "dead"}})
        if len([one for one in self.nodes if not one.is_dead]) < 2:
            self._start_node()

    def _accept(self) -> None:
        if (node := self._any_node()) is None:
            return
        for new in self._direct.run(accept.find_new()):
            self.begin(
                node,
                "accept",
                accept.accept(new, FOR_EVER),
                lambda seq: self._look_at(node, seq) if seq else None,
            )

    def _look_at_one(self) -> None:
        """One that runs is looked at every five minutes: that hides who forgets to go on."""
        plans = [
            plan for plan in self.plans.values() if self.is_deadly or plan.get("state") != "running"
        ]
        if plans and (node := self._any_node()):
            self._look_at(node, self.choice.choice(plans).get("seq"))

    def _look_at(self, node: Node, seq: int | None) -> None:
        if seq is not None:
            self._advance(node, seq, None)

    def _advance(self, node: Node, seq: int, touched: list[JobFact] | None) -> None:
        """What comes while a node goes through a plan is gone through together, after that."""
        before = node.due.get(seq, [])
        node.due[seq] = None if before is None or touched is None else [*before, *touched]
        if seq not in node.advancing:
            self._advance_due(node, seq)

    def _advance_due(self, node: Node, seq: int) -> None:
        """Again after an unknown outcome, and then with all that there is. Some of what it releases
        it claims with that."""
        if seq not in node.due:
            return
        touched = node.due.pop(seq)
        node.advancing.add(seq)
        released: dict[int, Document] = {}

        def claim(job: Mapping[str, Any]) -> str | None:
            if node.is_dead or self.choice.random() < 0.5:
                return None
            released[int(job["seq"])] = {**job}
            node.table.add((int(job["seq"]), 1))
            return node.name

        def advanced(found: Advanced) -> None:
            self._judge_advanced(found)
            for one, job in released.items():
                self._keep_released(node, job, is_ours=one in found.claimed)
            node.advancing.discard(seq)
            self._advance_due(node, seq)

        def failed() -> None:
            for job in released.values():
                self._keep_released(node, job, is_ours=False)
            node.due[seq] = None
            node.advancing.discard(seq)
            self._advance_due(node, seq)

        advancer = Advancer(
            node.memory,
            FOR_EVER,
            self.clock.now(),
            owns=lambda _: True,
            reserve=node.reserve,
            claim=claim,
        )
        what = "look" if touched is None else "advance"
        self.begin(node, what, advancer.advance({seq: touched}), advanced, failed)

    def _keep_released(self, node: Node, job: Document, *, is_ours: bool) -> None:
        """What was claimed with its release gets its licence as any other; of what was not
        confirmed a read tells."""
        claimed = self._claimed(node, job)
        if not is_ours:
            claimed.resolve()
            return
        seq = int(job["seq"])
        licences = licence.licences_of([seq], {seq: claimed.place})
        self.begin(
            node, "licence", licences, lambda found: claimed.keep(({seq}, found)), claimed.resolve
        )

    def _judge_advanced(self, found: Advanced) -> None:
        """Nobody has spoilt a document here: no rule may raise."""
        for seq, error in found.failed.items():
            raise self._violation("PL6", f"the advance of plan {seq} raised {error!r}") from error

    def _work(self) -> None:
        """A node claims a job that it saw, now or a while ago."""
        queued = [job for job in self.jobs.values() if job["state"] == "queued"]
        if queued and (node := self._any_node()):
            self._claim(node, self.choice.choice(queued))

    def _claim(self, node: Node, job: Document) -> None:
        seq, attempt = int(job["seq"]), int(job["attempt"])
        if seq in node.barred or any(one == seq for one, _ in node.table):
            return
        node.table.add((seq, attempt + 1))
        claimed = self._claimed(node, job)
        claiming = licence.claim_licensed(node.name, [seq], attempt, {seq: claimed.place})
        self.begin(node, "claim", claiming, claimed.keep, claimed.resolve)

    def _claimed(self, node: Node, job: Document) -> Claimed:
        place = PlanPlace.from_document(job["plan"])
        assert place is not None
        return Claimed(self, node, job, place)

    def _start_one(self) -> None:
        """What got its licence now, or a while ago."""
        waiting = [(node, run) for node in self.nodes for run in node.licensed]
        if waiting:
            node, run = self.choice.choice(waiting)
            node.licensed.remove(run)
            self._start(node, run)

    def _start(self, node: Node, run: Running) -> None:
        self._check_start(run)
        node.runs.append(run)

    def _end_a_task(self) -> None:
        running = [(node, run) for node in self.nodes for run in node.runs]
        if running:
            node, run = self.choice.choice(running)
            how = self.choice.choice(["done", "done", "done", "failed", "retry", "cancelled"])
            self._settle_run(node, run, how)

    def _settle_run(self, node: Node, run: Running, how: Any) -> None:
        node.runs.remove(run)
        seq = int(run.job["seq"])
        asked = self._database.jobs.find_one({"seq": seq}, {"cancel": 1}) or {}
        if how == "cancelled" and not asked.get("cancel"):
            how = "failed"  # nobody has asked for it
        error = None if how == "done" else JobError("Oops", "it broke")
        more = {"m": MORE[run.job["task"]]} if run.job["task"] in MORE else {}
        body = bson.encode({"r": [1, 2], **more, "ms": bson.Int64(0)})
        adds = how == "done" and bool(more)
        outcome = Outcome(how, seq, run.attempt, 0.0, result=body, error=error, more=adds)
        self.settle(node, run.place, outcome)

    def settle(self, node: Node, place: PlanPlace, outcome: Outcome) -> None:
        """Sent again until it is answered; what was accepted advances the plan."""
        states = {"done": JobState.DONE, "failed": JobState.FAILED, "retry": JobState.QUEUED}
        state = states.get(outcome.kind, JobState.CANCELLED)
        fact = JobFact(place, state, has_more=outcome.more)

        def settled(found: settle.Settled) -> None:
            if not found.accepted and not found.dropped:
                again()
                return
            node.table.discard((outcome.seq, outcome.attempt))
            if found.accepted:
                self._advance(node, place.seq, [fact])

        def again() -> None:
            self.settle(node, place, outcome)

        self.begin(node, "settle", settle.settle_each(node.name, [outcome]), settled, again)

    def _reconcile(self) -> None:
        if node := self._any_node():
            self._give_back_strays(node)

    def _give_back_strays(self, node: Node) -> None:
        """What the store says is a node's, and it does not know, goes back (J6)."""
        found = self._direct.run(settle.find_held(node.name)).attempts
        strays = {seq: one for seq, one in found.items() if (seq, one) not in node.table}
        if not strays or node.barred:
            return
        node.barred = set(strays)

        def answered(_: Any) -> None:
            node.barred = set()

        def again() -> None:
            self.begin(node, "release", settle.release(node.name, strays), answered, again)

        again()

    def _repair(self) -> None:
        if node := self._any_node():
            self.begin(node, "repair", repair.repair([]))

    # People

    def _seq(self) -> int | None:
        found = [plan["seq"] for plan in self.plans.values() if plan.get("seq")]
        return self.choice.choice(found) if found and self.has_people else None

    def _cancel(self) -> None:
        if (seq := self._seq()) and self.choice.random() < 0.3:
            undo = self.choice.random() < 0.8
            self._ask("cancel", seq, control.cancel(seq, undo=undo))

    def _retry(self) -> None:
        if seq := self._seq():
            self._ask("retry", seq, control.retry(seq))

    def _cancel_job(self) -> None:
        """By its own number (PL15)."""
        if self.jobs and self.has_people and self.choice.random() < 0.3:
            job = self.choice.choice(list(self.jobs.values()))
            seq = int(job["plan"]["seq"])
            self._ask("cancel job", seq, jobs_control.cancel(int(job["seq"])))

    def _ask(self, what: str, seq: int, steps: Generator[Call, Any, Any]) -> None:
        """A person asks, and rings for the plan; not who got no answer."""

        def rung(_: Any) -> None:
            if node := self._any_node():
                self._look_at(node, seq)

        self.begin(None, what, steps, rung, self._let_stall)

    def _expire_and_remove(self) -> None:
        if self.choice.random() < 0.8:
            return
        ended = {"state": {"$in": sorted(ENDED_PLAN)}}
        past = [{"$set": {"expire_at": {"$subtract": ["$$NOW", 1000]}}}]
        self._database.plans.update_many(ended, past)
        self._look()
        for plan in self._direct.run(remove.find_expired()):
            self.begin(self._any_node(), "remove", remove.remove(plan))

    # What must hold

    def _violation(self, rule: str, what: str) -> Violation:
        found = Violation(rule, what)
        found.add_note("the last writes:\n" + "\n".join(self.log[-40:]))
        return found

    def _look(self, tries: Mapping[int, int] | None = None) -> None:
        """Judge every change of the documents, and that of one who had read plans in these tries
        (PS6)."""
        plans = {plan["_id"]: plan for plan in self._database.plans.find()}
        jobs = {job["_id"]: job for job in self._database.jobs.find()}
        before, self.plans, self.jobs = (self.plans, self.jobs), plans, jobs
        for name, plan in before[0].items():
            self._judge_plan(plan, plans.get(name))
            self._judge_tries(plan, plans.get(name), tries or {})
        for name, job in jobs.items():
            old = before[1].get(name)
            if old is not None and old != job:
                self._judge_job_tries(old, tries or {})
            if job["state"] == "done" and (old is None or old["state"] != "done"):
                self.done[name] = self.done.get(name, 0) + 1
                if self.done[name] > 1:
                    raise self._violation("PS1", f"{name} was done twice")

    def _judge_tries(self, old: Document, new: Document | None, tries: Mapping[int, int]) -> None:
        decided = tries.get(old.get("seq") or 0)
        is_moved = new is not None and old.get("state") != new.get("state")
        if decided is not None and is_moved and old.get("try", 0) > decided:
            raise self._violation("PS6", f"what try {decided} decided moved {old} to {new}")

    def _judge_job_tries(self, old: Document, tries: Mapping[int, int]) -> None:
        decided = tries.get(old["plan"]["seq"])
        if decided is not None and old["plan"]["try"] > decided:
            raise self._violation("PS6", f"what try {decided} decided changed {old}")

    def _judge_plan(self, old: Document, new: Document | None) -> None:
        if old == new:
            return
        was = PlanRecord.from_document(old)
        if new is None:
            if was.state is not PlanState.REMOVING:
                raise self._violation("PS8", f"it is gone: {old}")
            return
        now = PlanRecord.from_document(new)
        if was.state is not None and was.state is not now.state:
            if now.state not in PLAN_MOVES[was.state]:
                raise self._violation("PS8", f"{was.state} became {now.state}")
            is_retry = was.state in ENDED_PLAN and now.state is not PlanState.REMOVING
            if is_retry and (now.try_ or 0) != (was.try_ or 0) + 1:
                raise self._violation("PS8", f"{old} became {new}")
        elif was.state in ENDED_PLAN and {**old, "expire_at": 0} != {**new, "expire_at": 0}:
            raise self._violation("PS8", f"{old} became {new}")
        if now.state in ENDED_PLAN and was.state is not now.state:
            self._judge_end(now)

    def _judge_end(self, plan: PlanRecord) -> None:
        graph = PlanGraph(plan.steps)
        if plan.state is PlanState.DONE:
            for name in graph.steps:
                if not self._ended_well(plan, name):
                    raise self._violation("PS7", f"{name} has not ended well: {plan}")
        if plan.state is PlanState.UNDONE:
            for name in plan.undo:
                if not self._is_undone(plan, name):
                    raise self._violation("PS7", f"{name} is not undone: {plan}")
        for node in self.nodes:
            for run in node.runs:
                if run.place.seq == plan.seq:
                    raise self._violation("PS7", f"{run} runs, and it is {plan.state}")

    def _fact(self, place: PlanPlace) -> JobFact | None:
        job = self.jobs.get(place.id)
        return None if job is None else JobFact.from_document(job)

    def _ended_well(self, plan: PlanRecord, name: str, item: int | None = None) -> bool:
        step, seq = plan.steps[name], plan.seq or 0
        if not step.is_mapped or item is not None:
            fact = self._fact(PlanPlace(seq, name, item=item))
            if fact is None or (fact.has_more and name not in plan.added):
                return False
            added = [one for one, added in plan.steps.items() if added.parent == name]
            return rules.ended_well(fact, step) and all(
                self._ended_well(plan, one) for one in added
            )
        width = plan.widths.get(name)
        return width is not None and all(self._ended_well(plan, name, one) for one in range(width))

    def _is_undone(self, plan: PlanRecord, name: str) -> bool:
        for job in self.jobs.values():
            place = PlanPlace.from_document(job["plan"])
            if place is None or (place.seq, place.step, place.kind) != (plan.seq, name, "step"):
                continue
            undo = self._fact(PlanPlace(place.seq, name, "undo", place.item))
            if job["state"] == "done" and (undo is None or undo.state is not JobState.DONE):
                return False
        return True

    def judge_licence(self, place: PlanPlace) -> None:
        """The plan was read after the claim had landed: since then, it must have allowed it."""
        seen = [] if self.ended is None else self.ended.seen
        states = [(state, try_) for seq, state, try_ in seen if seq == place.seq]
        if not any(
            rules.may_start(place, PlanState(state), try_) for state, try_ in states if state
        ):
            raise self._violation("PS5", f"{place} got a licence, and its plan was {states}")

    def _check_start(self, run: Running) -> None:
        place = run.place
        found = [plan for plan in self.plans.values() if plan.get("seq") == place.seq]
        if not found:
            raise self._violation("PS5", f"{run} starts, and its plan is gone")
        plan = PlanRecord.from_document(found[0])
        if plan.state in ENDED_PLAN or plan.state is PlanState.REMOVING:
            raise self._violation("PS5", f"{run} starts, and its plan is {plan.state}")
        graph = PlanGraph(plan.steps)
        if place.kind == "step":
            self._check_step(run, plan, graph)
        elif place.kind == "undo":
            self._check_undo(run, plan, graph)
        elif place.try_ != plan.try_:
            raise self._violation("PS5", f"{run} starts in try {plan.try_}")

    def _check_step(self, run: Running, plan: PlanRecord, graph: PlanGraph) -> None:
        place = run.place
        if place.seq in self.undo_began:
            raise self._violation("PS3", f"{run} starts, and its plan is being undone")
        step = graph.steps[place.step]
        over = rules.mapped_source(step, graph)
        earlier = (place.item or 0) - (step.at_once or 0)
        if step.at_once and earlier >= 0 and not self._ended_well(plan, place.step, earlier):
            raise self._violation("PS2", f"{run} starts before item {earlier} has ended well")
        for name in graph.before[place.step]:
            item = place.item if name == over else None
            if not self._ended_well(plan, name, item):
                raise self._violation("PS2", f"{run} starts before {name} has ended well")

    def _check_undo(self, run: Running, plan: PlanRecord, graph: PlanGraph) -> None:
        place = run.place
        self.undo_began.add(place.seq)
        running = [one for node in self.nodes for one in node.runs]
        if any(one.place.seq == place.seq and one.place.kind == "step" for one in running):
            raise self._violation("PS3", f"{run} starts while steps run: {running}")
        if place.step not in plan.undo:
            raise self._violation("PS4", f"{run} starts, and is not to be undone: {plan.undo}")
        for name in graph.later(place.step) & set(plan.undo):
            if not self._is_undone(plan, name):
                raise self._violation("PS4", f"{run} starts before {name} is undone")


def _tries_in(call: Call, answer: Any) -> Tries:
    """The tries of the plans in an answer."""
    if call.collection != "plans" or call.method not in READS or answer is None:
        return {}
    found: Iterable[Any] = [answer] if call.method == "find_one" else answer
    seen = [(one.get("seq"), one.get("try")) for one in found if hasattr(one, "get")]
    return {int(seq): int(try_) for seq, try_ in seen if seq is not None and try_ is not None}
