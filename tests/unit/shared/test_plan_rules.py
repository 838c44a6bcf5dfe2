"""What a plan calls for: random plans, run by the rules alone, end as they should, and nothing of
them starts too early, twice or too late."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tontine.diagnose.audit.plan_counts import PlanCounts
from tontine.diagnose.why.plan import explain_plan
from tontine.records.job import JobError
from tontine.records.plan import CLOSING_STEP, JobFact, PlanPlace, PlanRecord
from tontine.records.plan_status import JobCounts, PlanStatus
from tontine.records.states import ENDED_PLAN, PLAN_MOVES, JobState, PlanState
from tontine.rules import plan as rules
from tontine.rules import plan_deeds
from tontine.rules import plan_questions as questions
from tontine.rules.plan_check import problem
from tontine.rules.plan_facts import AllJobs
from tontine.rules.plan_graph import PlanGraph

LENGTH = 3
"""Of every result."""
OUTCOMES = ("done", "done", "done", "done", "failed", "cancelled")


@dataclass
class World:
    """One plan and its jobs, without a store: every write lands at once."""

    plan: PlanRecord
    choice: Random
    by_looks: bool = False
    jobs: dict[str, JobFact] = field(default_factory=dict)
    undone: list[str] = field(default_factory=list)
    began: list[PlanPlace] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = PlanGraph(self.plan.steps)

    def advance(self, touched: list[JobFact] | None) -> None:
        """All that is called for, until nothing is."""
        for _ in range(100):
            deeds = self.ask(None if self.by_looks else touched)
            if not deeds:
                return
            plan, jobs = self.plan, dict(self.jobs)
            for deed in deeds:
                self.do(deed)
            if self.plan is not plan:
                touched = None
            elif touched is not None or self.jobs == jobs:
                return
        raise AssertionError(f"it never comes to rest: {deeds}")

    def ask(self, touched: list[JobFact] | None) -> list[plan_deeds.PlanDeed]:
        asking, known = (
            rules.called_for(self.plan, self.graph, touched),
            AllJobs(self.plan, self.jobs.values()),
        )
        answer: Any = None
        try:
            while True:
                question = asking.send(answer)
                is_length = isinstance(question, questions.Length)
                answer = LENGTH if is_length else known.answer(question)
        except StopIteration as end:
            found: list[plan_deeds.PlanDeed] = end.value
            return found

    def move(self, state: PlanState, **fields: Any) -> None:
        assert self.plan.state is not None
        assert state in PLAN_MOVES[self.plan.state]
        self.plan = replace(self.plan, state=state, **fields)

    def do(self, deed: plan_deeds.PlanDeed) -> None:
        if isinstance(deed, plan_deeds.Stop):
            self.move(PlanState.STOPPING, cause="failed", error=deed.error)
        elif isinstance(deed, plan_deeds.Halt):
            self.halt()
        elif isinstance(deed, plan_deeds.PutBack):
            self.put_back()
        elif isinstance(deed, plan_deeds.SetWidth):
            assert deed.step not in self.plan.widths
            self.plan = replace(self.plan, widths={**self.plan.widths, deed.step: deed.width})
        elif isinstance(deed, plan_deeds.Release):
            self.release(deed)
        elif isinstance(deed, plan_deeds.BeginUndo):
            self.move(PlanState.UNDOING, undo=deed.steps)
        elif isinstance(deed, plan_deeds.End):
            if self.plan.closing is not None and self.plan.state is not PlanState.CLOSING:
                self.move(PlanState.CLOSING, outcome=deed.outcome)
            else:
                self.end(deed.outcome)

    def end(self, outcome: PlanState) -> None:
        self.move(outcome)
        if outcome is PlanState.DONE:  # PS7
            assert all(self.ended_well(name) for name in self.graph.steps)
        if outcome is PlanState.UNDONE:
            assert all(self.is_undone(name) for name in self.plan.undo)
        if outcome in (PlanState.FAILED, PlanState.CANCELLED):
            assert all(job.is_final for job in self.jobs.values())

    def halt(self) -> None:
        asks = self.plan.cause == "cancelled" or self.plan.on_failure == "cancel"
        for name, job in self.jobs.items():
            if job.place.kind == "step" and job.state is JobState.QUEUED:
                self.jobs[name] = replace(job, state=JobState.CANCELLED, stopped=True)
            elif job.place.kind == "step" and job.state is JobState.WORKING and asks:
                self.jobs[name] = replace(job, stopped=True)

    def put_back(self) -> None:
        for name, job in self.jobs.items():
            if rules.goes_back(job, self.plan):
                place = replace(job.place, try_=self.plan.try_ or 0)
                self.jobs[name] = replace(
                    job, place=place, state=JobState.QUEUED, stopped=False, error=None
                )

    def release(self, deed: plan_deeds.Release) -> None:
        for item in [None] if deed.items is None else deed.items:
            place = PlanPlace(1, deed.step, deed.kind, item, self.plan.try_ or 0)
            self.jobs.setdefault(place.id, JobFact(place, JobState.QUEUED, len(self.jobs)))

    # What must hold

    def ended_well(self, name: str) -> bool:
        step = self.graph.steps[name]
        if not step.is_mapped:
            return rules.ended_well(self.jobs.get(PlanPlace(1, name).id), step)
        width = self.plan.widths.get(name)
        return width is not None and all(self.item_ended_well(name, i) for i in range(width))

    def item_ended_well(self, name: str, item: int) -> bool:
        found = self.jobs.get(PlanPlace(1, name, item=item).id)
        return rules.ended_well(found, self.graph.steps[name])

    def is_undone(self, name: str) -> bool:
        for job in list(self.jobs.values()):
            if (job.place.step, job.place.kind) == (name, "step") and job.state is JobState.DONE:
                undo = self.jobs.get(replace(job.place, kind="undo").id)
                if undo is None or undo.state is not JobState.DONE:
                    return False
        return True

    def check_start(self, place: PlanPlace) -> None:
        assert self.plan.state not in ENDED_PLAN  # PS5
        if place.kind == "step":
            assert not any(one.kind == "undo" for one in self.began_in_this_life())  # PS3
            step, over = self.graph.steps[place.step], None
            over = rules.mapped_source(step, self.graph)
            assert all(self.ended_well(one) for one in self.graph.before[place.step] - {over})
            if over is not None and place.item is not None:  # PS2
                assert self.item_ended_well(over, place.item)
            if step.at_once and place.item is not None:
                running = [job for job in self.running if job.place.step == place.step]
                assert len(running) <= step.at_once
        elif place.kind == "undo":  # PS4
            assert place.step in self.plan.undo
            later = self.graph.later(place.step) & set(self.plan.undo)
            assert all(self.is_undone(one) for one in later)

    def began_in_this_life(self) -> list[PlanPlace]:
        last = max((n for n, one in enumerate(self.began) if one.step == ""), default=-1)
        return self.began[last + 1 :]

    # What happens

    @property
    def running(self) -> list[JobFact]:
        return [job for job in self.jobs.values() if job.state is JobState.WORKING]

    def claim(self, job: JobFact) -> None:
        if rules.may_start(job.place, self.plan.state, self.plan.try_):
            self.jobs[job.place.id] = replace(job, state=JobState.WORKING, attempt=job.attempt + 1)
            self.check_start(job.place)
            self.began.append(job.place)
        else:
            self.settle(replace(job, attempt=job.attempt + 1, refused=job.refused + 1), "refused")

    def settle(self, job: JobFact, how: str) -> None:
        stopped = job.stopped or how == "refused"
        state = JobState(how) if how in ("done", "failed") else JobState.CANCELLED
        error = JobError("Oops", "it broke") if state is JobState.FAILED else None
        ended = replace(job, state=state, stopped=stopped, error=error)
        if state is JobState.DONE:
            assert job.state is not JobState.DONE  # PS1
        self.jobs[job.place.id] = ended
        self.advance([ended])

    def happen(self) -> bool:
        """Something, if anything can."""
        queued = [job for job in self.jobs.values() if job.state is JobState.QUEUED]
        if not queued and not self.running:
            return False
        if queued and (not self.running or self.choice.random() < 0.5):
            self.claim(self.choice.choice(queued))
        else:
            self.settle(self.choice.choice(self.running), self.choice.choice(OUTCOMES))
        return True

    def cancel(self) -> None:
        if self.plan.state is PlanState.RUNNING:
            self.move(PlanState.STOPPING, cause="cancelled")
            self.advance(None)

    def retry(self) -> None:
        target = rules.retried_to(self.plan)
        if isinstance(target, PlanState):
            self.move(target, try_=(self.plan.try_ or 0) + 1, cause=None, error=None, outcome=None)
            if target is PlanState.RUNNING:
                self.plan = replace(self.plan, undo=())
                self.began.append(PlanPlace(1, ""))
            self.put_back()
            self.advance(None)

    def run(self) -> None:
        for _ in range(1000):
            if not self.happen():
                return
        raise AssertionError("it never ends")


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    steps: dict[str, dict[str, Any]] = {}
    for name in "abcde"[: draw(st.integers(1, 5))]:
        names = sorted(steps)
        earlier = draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
        step: dict[str, Any] = {"task": "t.x", "after": earlier}
        kind = draw(st.sampled_from(["plain", "plain", "array", "over"]))
        if kind == "array":
            step |= {"map": [0] * draw(st.integers(0, 3)), "as": "x"}
        elif kind == "over" and names:
            step |= {"map": draw(st.sampled_from(names)), "as": "x"}
        if "map" in step and draw(st.booleans()):
            step["at_once"] = draw(st.integers(1, 2))
        if draw(st.booleans()):
            step["may_fail"] = draw(st.booleans())
        if draw(st.booleans()):
            when = "done" if "map" in step else draw(st.sampled_from(["done", "begun"]))
            step["undo"] = {"task": "t.y", "when": when}
        steps[name] = step
    document: dict[str, Any] = {"_id": "p", "seq": 1, "steps": steps, "state": "running", "try": 0}
    document["on_failure"] = draw(st.sampled_from(["finish", "cancel"]))
    if draw(st.booleans()):
        document["finally"] = {"task": "t.z"}
    return document


@settings(max_examples=300, deadline=None)
@given(plans(), st.integers(0, 2**32), st.booleans(), st.integers(0, 30))
def test_a_plan_ends_and_nothing_of_it_starts_when_it_must_not(
    document: dict[str, Any], order: int, by_looks: bool, cancelled_after: int
) -> None:
    assert problem(document) is None
    world = World(PlanRecord.from_document(document), Random(order), by_looks)
    world.advance(None)
    for _ in range(cancelled_after):
        world.happen()
    if cancelled_after % 3 == 0:
        world.cancel()
    for _ in range(6):
        world.run()
        assert world.plan.state in ENDED_PLAN
        world.retry()
    world.run()
    assert world.plan.state in ENDED_PLAN


def started(**fields: Any) -> World:
    document = {"_id": "p", "seq": 1, "state": "running", "try": 0, **fields}
    world = World(PlanRecord.from_document(document), Random(1))
    world.advance(None)
    return world


def run(world: World, place: PlanPlace, how: str = "done") -> None:
    world.claim(world.jobs[place.id])
    world.settle(world.jobs[place.id], how)


def seen(world: World) -> str:
    return str(world.plan.state)


def state_of(world: World, place: PlanPlace) -> JobState:
    return world.jobs[place.id].state


def test_items_that_the_stop_ended_run_again_after_a_retry() -> None:
    items = {"task": "t.x", "map": [0, 0], "as": "x", "may_fail": True}
    world = started(steps={"a": {"task": "t.x"}, "b": items})
    first, second = PlanPlace(1, "b", item=0), PlanPlace(1, "b", item=1)
    run(world, first, "failed")
    run(world, PlanPlace(1, "a"), "failed")
    assert seen(world) == "failed"
    assert world.jobs[second.id].stopped
    world.retry()
    assert state_of(world, first) is JobState.FAILED
    assert state_of(world, second) is JobState.QUEUED


def test_finally_has_one_job_for_each_try() -> None:
    world = started(steps={"a": {"task": "t.x"}}, **{"finally": {"task": "t.z"}})
    run(world, PlanPlace(1, "a"), "failed")
    run(world, PlanPlace(1, CLOSING_STEP, "finally"))
    assert seen(world) == "failed"
    world.retry()
    run(world, PlanPlace(1, "a"))
    run(world, PlanPlace(1, CLOSING_STEP, "finally", try_=1))
    assert seen(world) == "done"


def test_an_undo_that_fails_holds_back_only_those_before_it() -> None:
    undo = {"undo": {"task": "t.y"}}
    world = started(
        steps={
            "a": {"task": "t.x", **undo},
            "b": {"task": "t.x", "after": ["a"], **undo},
            "c": {"task": "t.x", **undo},
            "d": {"task": "t.x", "after": ["b", "c"]},
        }
    )
    for step in ("a", "b", "c"):
        run(world, PlanPlace(1, step))
    run(world, PlanPlace(1, "d"), "failed")
    run(world, PlanPlace(1, "b", "undo"), "failed")
    assert PlanPlace(1, "a", "undo").id not in world.jobs
    assert seen(world) == "undoing"
    run(world, PlanPlace(1, "c", "undo"))
    assert seen(world) == "stuck"
    world.retry()
    run(world, PlanPlace(1, "b", "undo"))
    run(world, PlanPlace(1, "a", "undo"))
    assert seen(world) == "undone"


def test_a_map_over_a_step_that_was_allowed_to_fail_and_did_has_no_items() -> None:
    world = started(
        steps={
            "a": {"task": "t.x", "may_fail": True},
            "b": {"task": "t.x", "map": "a", "as": "x"},
            "c": {"task": "t.x", "take": {"x": "b"}},
        }
    )
    run(world, PlanPlace(1, "a"), "failed")
    assert world.plan.widths == {"b": 0}
    run(world, PlanPlace(1, "c"))
    assert seen(world) == "done"


def test_the_item_that_is_undone_last_is_the_one_to_ask_for() -> None:
    """Of ten thousand, all are read again whenever the one that was asked for has been undone."""
    step = {"task": "t.x", "map": [1, 2, 3], "as": "x", "undo": {"task": "t.u"}}
    plan = PlanRecord.from_document({"seq": 1, "steps": {"a": step}, "widths": {"a": 3}})
    items = [PlanPlace(1, "a", item=item) for item in range(3)]
    known = AllJobs(plan, [JobFact(place, JobState.DONE) for place in items])
    assert known.answer(questions.ItemToUndo("a")) == 2


@pytest.mark.parametrize(
    ("state", "kind", "tries", "may"),
    [
        ("running", "step", 0, True),
        ("running", "undo", 0, False),
        ("stopping", "step", 0, False),
        ("undoing", "undo", 0, True),
        ("undoing", "step", 0, False),
        ("closing", "finally", 0, True),
        ("closing", "finally", 1, False),
        ("done", "step", 0, False),
        ("removing", "step", 0, False),
        (None, "step", 0, False),
    ],
)
def test_a_plan_gives_leave_to_start_only_what_its_state_is_for(
    state: str | None, kind: Any, tries: int, may: bool
) -> None:
    found = None if state is None else PlanState(state)
    assert rules.may_start(PlanPlace(1, "a", kind), found, tries) is may


def test_steps_that_added_steps_that_added_steps_are_followed_however_deep() -> None:
    """As deep as a plan may have steps: no call within a call for each."""
    names = ["a"]
    while len(names) < 999:
        names.append(f"{names[-1]}:b")
    steps = {name: {"task": "t.t"} for name in names} | {"z": {"task": "t.t", "after": ["a"]}}
    head = {"_id": 1, "seq": 1, "state": "running", "try": 0, "added": names[:-1]}
    plan = PlanRecord.from_document({**head, "steps": steps})
    jobs = [JobFact(PlanPlace(1, name), JobState.DONE) for name in (*names, "z")]
    counts = PlanCounts()
    for fact in jobs:
        counts.add(fact, plan.steps[fact.place.step])
    world = World(plan, Random(1), by_looks=True, jobs={fact.place.id: fact for fact in jobs})
    assert counts.why_not(plan, world.graph, "done") == ""
    counted = {("step", name): JobCounts(done=1) for name in names[:-1]}
    (why,) = (
        one.sentence
        for one in explain_plan(plan, PlanStatus.of(plan, counted), all_know=True)
        if one.sentence.startswith("Step z")
    )
    assert why == f"Step z waits for {names[-1]} (waiting)."
    del world.jobs[PlanPlace(1, "z").id]
    world.advance(None)
    assert PlanPlace(1, "z").id in world.jobs
