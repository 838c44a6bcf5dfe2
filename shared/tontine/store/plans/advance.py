"""Advance and look: what a plan calls for is done, again and again until nothing is (PL6, PL8).

Run it causally (PL0): a plan is read after the settlement was written, its jobs after the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import StoreUnavailable
from ...records.plan import JobFact, PlanError, PlanPlace, PlanRecord
from ...records.states import UNFINISHED_PLAN, JobState, PlanState
from ...rules import plan as rules
from ...rules import plan_deeds
from ...rules import plan_questions as questions
from ...rules.plan import Touched
from ...rules.plan_facts import AllJobs
from ...rules.plan_graph import PlanGraph
from ..call import Operation
from ..counter import Reserve
from ..retention import Retention
from . import writes
from .control import put_back
from .facts import Asked, PlanMemory, read_facts
from .more import read_more
from .read import read_heads, read_jobs, read_whole, with_head
from .release import Claim, make_one, put, release_items, sources, unclaim
from .values import InvalidStep, Results

ROUNDS = 100
HALT_EVERY = MARK_EVERY = 1.0
_PUT_BYTES = 8 * 1024 * 1024
_NOTHING_NEW: Touched = ()


@dataclass(slots=True)
class _Course:
    """One plan in one round."""

    plan: PlanRecord
    graph: PlanGraph
    touched: Touched
    asked: Asked
    deeds: list[plan_deeds.PlanDeed] = field(default_factory=list)
    singles: list[plan_deeds.Release] = field(default_factory=list)

    @property
    def seq(self) -> int:
        return self.plan.seq or 0


@dataclass(slots=True)
class Advanced:
    """What became of some advances."""

    states: dict[int, PlanState] = field(default_factory=dict)
    """The plans as they were last seen."""
    failed: dict[int, Exception] = field(default_factory=dict)
    """Those that could not be advanced: their next look will see."""
    left: set[int] = field(default_factory=set)
    """Those of which more is to be done than one advance does."""
    claimed: list[int] = field(default_factory=list)
    """The numbers of jobs that were released and claimed at once."""


@dataclass(slots=True)
class Advancer:
    """Carries plans on for one node."""

    memory: PlanMemory
    retention: Retention
    now: float
    """Of this process's own stopwatch."""
    may_release: bool = True
    """False while there are nodes that know nothing of plans (PL1)."""
    owns: Callable[[int], bool] = lambda _: False
    """Whether the marks of a plan are this node's to move (PL7)."""
    reserve: Reserve | None = None
    """Where a step that is released alone gets its number from."""
    claim: Claim = lambda _: None
    """Who claims a step's job with its release."""
    _unfit: dict[int, dict[str, PlanError]] = field(default_factory=dict)
    """By plan the undos that cannot be released, and why."""

    def advance(self, wanted: Mapping[int, Touched]) -> Operation[Advanced]:
        """Go on with plans by number: with the jobs that were settled just now, or (None) with all
        that there is."""
        done = Advanced()
        left = dict(wanted)
        for _ in range(ROUNDS):
            courses = yield from self._read(left)
            done.states |= {one.seq: one.plan.state for one in courses if one.plan.state}
            courses = yield from self._decide(courses, done)
            left = yield from self._carry_out(courses, done)
            yield from self._move_marks(courses, done)
            if not left:
                break
        done.left.update(left)
        return done

    # Reading

    def _read(self, wanted: Mapping[int, Touched]) -> Operation[list[_Course]]:
        plans = yield from self._plans(wanted)
        courses = []
        for seq, settled in wanted.items():
            if seq not in plans or plans[seq][0].state not in UNFINISHED_PLAN:
                continue
            plan, graph = plans[seq]
            everything = None
            # What was ready before a retry is touched by nothing.
            touched = None if self.memory.is_new_try(plan) else settled
            if touched is None:
                facts, has_expiring = yield from read_jobs(seq)
                everything = AllJobs(plan, facts)
                if has_expiring:
                    yield from writes.keep_jobs(seq)
            known = [fact for fact in touched or () if fact.state is JobState.DONE]
            asked = Asked(plan, self.memory, everything, known)
            courses.append(_Course(plan, graph, touched, asked))
        return courses

    def _plans(self, seqs: Mapping[int, Any]) -> Operation[dict[int, tuple[PlanRecord, PlanGraph]]]:
        """The plans as they are now; their steps are read only where they are not known."""
        plans: dict[int, tuple[PlanRecord, PlanGraph]] = {}
        known = [seq for seq in seqs if seq in self.memory.plans]
        heads = (yield from read_heads(known)) if known else {}
        for seq, head in heads.items():
            old, graph = self.memory.plans[seq]
            plan = with_head(old, head)
            if plan.rev == old.rev:
                plans[seq] = (plan, graph)
        # Of those that are known and were not found, nothing is left.
        unknown = [seq for seq in seqs if seq not in plans and (seq in heads or seq not in known)]
        if unknown:
            for seq, plan in (yield from read_whole(unknown)).items():
                plans[seq] = (plan, self.memory.keep(plan))
        return plans

    def _move_marks(self, courses: list[_Course], done: Advanced) -> Operation[None]:
        """How far the items of mapped steps have all ended: for who asks next, at most once a
        second for a plan (PL7)."""
        for course in courses:
            marked_at = self.memory.marked_at.get(course.seq, float("-inf"))
            is_early = self.now - marked_at < MARK_EVERY
            if not course.plan.widths or is_early or not self.owns(course.seq):
                continue
            self.memory.marked_at[course.seq] = self.now
            with _apart(course, done):
                if marks := (yield from course.asked.marks()):
                    yield from writes.mark(course.plan, marks)

    # Deciding

    def _decide(self, courses: list[_Course], done: Advanced) -> Operation[list[_Course]]:
        """Run the rules of many plans side by side: the jobs that they ask for are one read."""
        decided: list[_Course] = []
        running = [
            (
                one,
                rules.called_for(one.plan, one.graph, one.touched, self._unfit.get(one.seq, ())),
                None,
            )
            for one in courses
        ]
        while running:
            asking = []
            for course, inquiry, value in running:
                with _apart(course, done):
                    try:
                        asking.append((course, inquiry, inquiry.send(value)))
                    except StopIteration as end:
                        course.deeds = end.value
                        decided.append(course)
            yield from _read_together([(course.asked, asked) for course, _, asked in asking])
            running = []
            for course, inquiry, asked in asking:
                with _apart(course, done):
                    running.append((course, inquiry, (yield from course.asked.answer(asked))))
        return decided

    # Doing

    def _carry_out(self, courses: list[_Course], done: Advanced) -> Operation[dict[int, Touched]]:
        """What was called for; the plans that are to be gone through again, and with what."""
        again: dict[int, Touched] = {}
        for course in courses:
            with _apart(course, done):
                again |= yield from self._do_all(course)
        again |= yield from self._release_singles(courses, done)
        return again

    def _do_all(self, course: _Course) -> Operation[dict[int, Touched]]:
        again: dict[int, Touched] = {}
        for deed in course.deeds:
            try:
                following = yield from self._do(course, deed)
            except InvalidStep as error:
                following = yield from self._invalid(course, deed, error)
            if following is None:
                continue
            before, after = again.get(course.seq, ()), following[0]
            again[course.seq] = None if before is None or after is None else (*before, *after)
            if not _goes_on(deed, after):
                break  # it is in another state, or somebody has just done the same
        return again

    def _do(self, course: _Course, deed: plan_deeds.PlanDeed) -> Operation[tuple[Touched] | None]:
        """One deed; with what to go through the plan again, if it is to be."""
        plan = course.plan
        if isinstance(deed, plan_deeds.Stop):
            yield from writes.stop(plan, deed.error)
            return (_NOTHING_NEW,)
        if isinstance(deed, plan_deeds.Halt):
            return (yield from self._halt(plan))
        if isinstance(deed, plan_deeds.PutBack):
            yield from put_back(plan)
            return None
        if isinstance(deed, plan_deeds.BeginUndo):
            yield from writes.begin_undo(plan, deed.steps)
            return (_NOTHING_NEW,)
        if isinstance(deed, plan_deeds.End):
            unfit = self._unfit.get(course.seq, {})
            error = next(iter(unfit.values()), None) if plan.state is PlanState.UNDOING else None
            yield from writes.end(plan, deed.outcome, self.retention, error)
            return (_NOTHING_NEW,)
        if not self.may_release:
            return None
        if isinstance(deed, plan_deeds.AddSteps):
            return (yield from self._add(course, deed))
        if isinstance(deed, plan_deeds.SetWidth):
            return (yield from self._set_width(course, deed))
        if deed.items is None:
            course.singles.append(deed)
        else:
            yield from release_items(plan, deed, Results(), self.reserve)
        return None

    def _halt(self, plan: PlanRecord) -> Operation[tuple[Touched] | None]:
        """At most once a second for a plan (PL10)."""
        seq = plan.seq or 0
        if self.now - self.memory.halted_at.get(seq, float("-inf")) < HALT_EVERY:
            return None
        self.memory.halted_at[seq] = self.now
        changed = yield from writes.halt(plan)
        return (_NOTHING_NEW,) if changed else None

    def _set_width(
        self, course: _Course, deed: plan_deeds.SetWidth
    ) -> Operation[tuple[Touched] | None]:
        if not (yield from writes.set_width(course.plan, deed.step, deed.width)):
            return (None,)  # somebody has, perhaps this very call: what is missing is looked for
        widths = {**course.plan.widths, deed.step: deed.width}
        course.plan = replace(course.plan, widths=widths)
        if deed.width:
            return None
        empty = JobFact(PlanPlace(course.seq, deed.step), JobState.DONE)  # it has ended with that
        return ((empty,),)

    def _add(self, course: _Course, deed: plan_deeds.AddSteps) -> Operation[tuple[Touched] | None]:
        steps = yield from read_more(course.plan, deed.step)
        yield from writes.add_steps(course.plan, deed.step, steps)
        return (None,)

    def _invalid(
        self, course: _Course, deed: plan_deeds.PlanDeed, error: InvalidStep
    ) -> Operation[tuple[Touched] | None]:
        """A step that cannot be released at all stops its plan (PL9). An undo holds back those that
        come after it, as one that has failed; at the end the plan is stuck (PL12)."""
        why = PlanError(rules.INVALID_STEP, str(error), error.step, error.item)
        if isinstance(deed, plan_deeds.Release) and deed.kind == "undo":
            self._unfit.setdefault(course.seq, {})[deed.step] = why
        elif isinstance(deed, plan_deeds.Release) and deed.kind == "finally":
            outcome = course.plan.outcome or PlanState.FAILED
            yield from writes.end(course.plan, outcome, self.retention, why)
        else:
            yield from writes.stop(course.plan, why)
        return (_NOTHING_NEW,)

    def _release_singles(
        self, courses: list[_Course], done: Advanced
    ) -> Operation[dict[int, Touched]]:
        """The single jobs of many plans: one read of what they take, and one insert."""
        again: dict[int, Touched] = {}
        singles = [(course, deed) for course in courses for deed in course.singles]
        results = Results()
        wanted: list[str] = []
        for course, deed in singles:
            with _apart(course, done):
                wanted += sources(course.plan, deed)
        if wanted:
            results.know(fact for course, _ in singles for fact in course.touched or ())
        yield from results.fetch(wanted)
        made: list[tuple[_Course, plan_deeds.Release, dict[str, Any]]] = []
        for course, deed in singles:
            with _apart(course, done):
                try:
                    document = yield from make_one(course.plan, deed, results)
                    made.append((course, deed, document))
                except InvalidStep as error:
                    following = yield from self._invalid(course, deed, error)
                    if following:
                        again[course.seq] = following[0]
        if not made:
            return again
        try:
            documents = [document for _, _, document in made]
            done.claimed += yield from put(documents, self.reserve, self.claim)
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 - one of them may have anything in it
            again |= yield from self._release_each(made, done)
        return again

    def _release_each(
        self, made: list[tuple[_Course, plan_deeds.Release, dict[str, Any]]], done: Advanced
    ) -> Operation[dict[int, Touched]]:
        """One by one, after one of them was refused."""
        again: dict[int, Touched] = {}
        for course, deed, document in made:
            with _apart(course, done):
                try:
                    unclaim(document)
                    yield from put([document], self.reserve)
                except InvalidStep as error:
                    following = yield from self._invalid(course, deed, error)
                    if following:
                        again[course.seq] = following[0]
        return again


@contextmanager
def _apart(course: _Course, done: Advanced) -> Iterator[None]:
    """What goes wrong with one plan is told of it, and the others go on; not what goes wrong with
    the store. Anybody may have changed a plan's document, so that may be any error."""
    try:
        yield
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - as said above
        done.failed[course.seq] = error


def _goes_on(deed: plan_deeds.PlanDeed, following: Touched) -> bool:
    """Whether what else was called for still is: a mapped step without items has only ended."""
    is_empty = isinstance(deed, plan_deeds.SetWidth) and deed.width == 0
    return is_empty and bool(following)


def _read_together(asking: list[tuple[Asked, questions.Question]]) -> Operation[None]:
    """The jobs that many plans ask for, in one read."""
    wanted = [(asked, asked.job_to_read(question)) for asked, question in asking]
    ids = {name for _, name in wanted if name is not None}
    if len(ids) < 2:
        return
    facts = yield from read_facts(ids)
    for asked, name in wanted:
        if name is not None:
            asked.tell(name, facts.get(name))
