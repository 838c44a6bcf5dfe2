"""A plan inline: its steps one after another, in the order in which nodes could run them, without
MongoDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import bson

from .. import verdict
from ..current import CurrentJob
from ..errors import ConfigError
from ..function import is_async
from ..module import Library, Module, load
from ..offspring import send_nowhere
from ..plan import More, Plan
from ..records.job import JobError
from ..records.plan import (
    TAKEN_AT_MOST,
    JobFact,
    PlanError,
    PlanPlace,
    PlanRecord,
    Source,
    StepRecord,
    Taken,
)
from ..records.plan_status import JobCounts, PlanStatus, result_step
from ..records.states import ENDED_PLAN, JobState, PlanState
from ..rules import plan as rules
from ..rules import plan_deeds
from ..rules import plan_questions as questions
from ..rules.plan_added import added, too_many
from ..rules.plan_check import problem
from ..rules.plan_facts import AllJobs
from ..rules.plan_graph import PlanGraph
from ..streamed import Stream
from . import calling

_SEQ = 1
_ROUNDS = 1_000_000
_BSON_TYPES = {dict: "object", str: "string", type(None): "null", float: "double"}
"""What the server calls what results are made of, where that is not its name in Python."""


def run_plan(
    plan: Plan | Mapping[str, Any], modules: Sequence[Module | str], *, retries: int = 0
) -> PlanStatus:
    """Run a plan to its end, each task once and in this process; how it ended.

    What a task raises fails its step at once. With `retries` a plan that failed is retried so
    often, as an operator would.
    """
    inline = _InlinePlan.of(plan, _library(modules))
    inline.run()
    for _ in range(retries):
        if not inline.retry():
            break
        inline.run()
    return inline.status()


def _library(modules: Sequence[Module | str]) -> Library:
    given = [one for one in modules if isinstance(one, Module)]
    named = load([one for one in modules if isinstance(one, str)])
    return Library((*given, *(one for one in named.modules if one not in given)))


@dataclass(slots=True)
class _InlineJob:
    """One job of it."""

    fact: JobFact
    task: str
    args: dict[str, Any]
    result: Any = None
    more: Mapping[str, Any] | None = None


@dataclass(slots=True)
class _InlinePlan:
    """A plan and its jobs, in memory."""

    plan: PlanRecord
    library: Library
    jobs: dict[str, _InlineJob] = field(default_factory=dict)
    unfit: dict[str, PlanError] = field(default_factory=dict)
    """Steps whose undo cannot be released, and why."""

    @classmethod
    def of(cls, plan: Plan | Mapping[str, Any], library: Library) -> _InlinePlan:
        document = plan.document() if isinstance(plan, Plan) else dict(plan)
        if reason := problem(document):
            raise ConfigError(f"this cannot be a plan: {reason}")
        started = {"_id": "inline", "seq": _SEQ, "state": "running", "try": 0}
        return cls(PlanRecord.from_document({**document, **started}), library)

    def run(self) -> None:
        """One job after another, until nothing is left to do."""
        for _ in range(_ROUNDS):
            self._advance()
            queued = [one for one in self.jobs.values() if one.fact.state is JobState.QUEUED]
            if not queued:
                return
            for job, following in zip_longest(queued, queued[1:]):
                self._work(job)
                if following is None or not self._waits_for_nobody(job, following):
                    break

    def _waits_for_nobody(self, job: _InlineJob, following: _InlineJob) -> bool:
        """Whether nothing is called for yet: what was done is one of many items, of which another
        follows."""
        place, next_ = job.fact.place, following.fact.place
        if job.fact.state is not JobState.DONE or place.item is None or place.kind != "step":
            return False
        if (next_.step, next_.kind) != (place.step, "step") or self.plan.steps[place.step].at_once:
            return False
        graph = PlanGraph(self.plan.steps)
        over = (
            rules.mapped_source(self.plan.steps[name], graph) for name in graph.after[place.step]
        )
        return place.step not in over

    def retry(self) -> bool:
        """As an operator would; False where there is nothing to run again."""
        target = rules.retried_to(self.plan)
        if not isinstance(target, PlanState):
            return False
        undo = () if target is PlanState.RUNNING else self.plan.undo
        tries = (self.plan.try_ or 0) + 1
        self.plan = replace(
            self.plan, state=target, try_=tries, cause=None, error=None, outcome=None, undo=undo
        )
        return True

    def status(self) -> PlanStatus:
        counts: dict[tuple[str, str], JobCounts] = {}
        for job in self.jobs.values():
            fact, place = job.fact, job.fact.place
            step = f"{place.step}/{place.try_}" if place.kind == "finally" else place.step
            before = counts.get((place.kind, step), JobCounts())
            state = fact.state.value
            after = replace(before, **{state: getattr(before, state) + 1})
            if fact.is_unsuccessful:
                after = replace(after, stopped=after.stopped + fact.stopped)
            if fact.state is JobState.FAILED:
                after = replace(after, failure=rules.why_stopped(fact))
            counts[(place.kind, step)] = after
        return PlanStatus.of(self.plan, counts, self._result())

    def _result(self) -> Any:
        name = result_step(self.plan, PlanGraph(self.plan.steps).last)
        if self.plan.state is not PlanState.DONE or name is None:
            return None
        if self.plan.widths.get(name, 0) > TAKEN_AT_MOST:
            return None
        return self._value(Source(name), None)

    # What is called for

    def _advance(self) -> None:
        while self.plan.state not in ENDED_PLAN:
            plan, jobs, unfit = self.plan, len(self.jobs), len(self.unfit)
            facts = [job.fact for job in self.jobs.values()]
            for deed in self._called_for():
                self._do(deed)
            are_same = facts == [job.fact for job in list(self.jobs.values())[: len(facts)]]
            is_same_plan = self.plan is plan and len(self.unfit) == unfit
            if is_same_plan and len(self.jobs) == jobs and are_same:
                return

    def _called_for(self) -> list[plan_deeds.PlanDeed]:
        known = AllJobs(self.plan, [job.fact for job in self.jobs.values()])
        asking = rules.called_for(self.plan, PlanGraph(self.plan.steps), unfit=self.unfit)
        answer: Any = None
        try:
            while True:
                asked = asking.send(answer)
                if isinstance(asked, questions.Length):
                    answer = self._length(asked.source)
                else:
                    answer = known.answer(asked)
        except StopIteration as end:
            deeds: list[plan_deeds.PlanDeed] = end.value
            return deeds

    def _length(self, source: Source) -> int | str:
        try:
            value = self._value(source, None)
        except _InvalidInline:
            kind = "missing"
        else:
            if isinstance(value, list):
                return len(value)
            kind = _BSON_TYPES.get(type(value), type(value).__name__)
        return f"it maps over {source}, which must be an array, and is {kind}"

    def _do(self, deed: plan_deeds.PlanDeed) -> None:
        if isinstance(deed, plan_deeds.Stop):
            self.plan = replace(
                self.plan, state=PlanState.STOPPING, cause="failed", error=deed.error
            )
        elif isinstance(deed, plan_deeds.SetWidth):
            self.plan = replace(self.plan, widths={**self.plan.widths, deed.step: deed.width})
        elif isinstance(deed, plan_deeds.BeginUndo):
            self.plan = replace(self.plan, state=PlanState.UNDOING, undo=deed.steps)
        elif isinstance(deed, plan_deeds.End):
            if self.unfit and deed.outcome is PlanState.STUCK:
                self.plan = replace(self.plan, error=next(iter(self.unfit.values())))
            self._end(deed.outcome)
        elif isinstance(deed, plan_deeds.AddSteps):
            self._add(deed.step)
        elif isinstance(deed, plan_deeds.Release):
            self._release(deed)
        else:
            self._change_all(deed)

    def _end(self, outcome: PlanState) -> None:
        if self.plan.closing is not None and self.plan.state is not PlanState.CLOSING:
            self.plan = replace(self.plan, state=PlanState.CLOSING, outcome=outcome)
        else:
            self.plan = replace(self.plan, state=outcome)

    def _change_all(self, deed: plan_deeds.Halt | plan_deeds.PutBack) -> None:
        """Nothing runs while another does: to halt is to cancel what is queued."""
        for job in self.jobs.values():
            fact = job.fact
            if isinstance(deed, plan_deeds.Halt):
                if fact.place.kind == "step" and fact.state is JobState.QUEUED:
                    job.fact = replace(fact, state=JobState.CANCELLED, stopped=True)
            elif rules.goes_back(fact, self.plan):
                place = replace(fact.place, try_=self.plan.try_ or 0)
                job.fact = replace(fact, place=place, state=JobState.QUEUED, stopped=False)

    def _add(self, by: str) -> None:
        more = self.jobs[PlanPlace(_SEQ, by).id].more or {}
        if reason := too_many(len(self.plan.steps), len(more)):
            self._do(plan_deeds.Stop(PlanError(rules.INVALID_STEP, reason, by)))
            return
        documents = added(more, by).items()
        steps = {name: StepRecord.from_document(name, step) for name, step in documents}
        self.plan = replace(
            self.plan, steps={**self.plan.steps, **steps}, added=self.plan.added | {by}
        )

    # Jobs

    def _release(self, deed: plan_deeds.Release) -> None:
        for item in [None] if deed.items is None else deed.items:
            try:
                task, args = self._arguments(deed, item)
            except _InvalidInline as error:
                at = item if deed.kind == "undo" else error.item
                why = PlanError(rules.INVALID_STEP, str(error), deed.step, at)
                if deed.kind == "step":
                    self._do(plan_deeds.Stop(why))
                    return
                self.unfit.setdefault(deed.step, why)
                continue
            outcome = str(self.plan.outcome) if deed.kind == "finally" else None
            tries = self.plan.try_ or 0
            place = PlanPlace(_SEQ, deed.step, deed.kind, item, tries, outcome)
            fact = JobFact(place, JobState.QUEUED, seq=len(self.jobs) + 2)
            self.jobs.setdefault(place.id, _InlineJob(fact, task, args))

    def _arguments(self, deed: plan_deeds.Release, item: int | None) -> tuple[str, dict[str, Any]]:
        if deed.kind == "finally":
            closing = self.plan.closing
            return (closing.task, dict(closing.args)) if closing else ("", {})
        step = self.plan.steps[deed.step]
        if deed.kind == "undo" and step.undo is not None:
            undo = step.undo
            own = (deed.step, item)
            return undo.task, {**undo.args, **self._taken(undo.take, own)}
        streams = {arg: Stream.of(self._value(source, None)) for arg, source in step.stream.items()}
        args = {**step.args, **self._taken(step.take, None), **streams}
        if item is not None:
            args[step.as_] = self._element(step, item)
        return step.task, args

    def _taken(
        self, take: Mapping[str, Taken], own: tuple[str, int | None] | None
    ) -> dict[str, Any]:
        return {
            arg: self._argument(taken, own)
            if isinstance(taken, Source)
            else [self._argument(one, own) for one in taken]
            for arg, taken in take.items()
        }

    def _argument(self, source: Source, own: tuple[str, int | None] | None) -> Any:
        """The value, if it has no more items than one argument may have."""
        is_own = own is not None and own[0] == source.step
        width = 0 if is_own else self.plan.widths.get(source.step, 0)
        if width > TAKEN_AT_MOST:
            raise _InvalidInline(
                f"it takes the results of {source.step}, which has {width:,} items, and "
                f"{TAKEN_AT_MOST:,} fit into one argument: use `stream`"
            )
        return self._value(source, own)

    def _value(self, source: Source, own: tuple[str, int | None] | None) -> Any:
        if own is not None and own[0] == source.step:
            return self._field(PlanPlace(_SEQ, source.step, item=own[1]), source)
        if not self.plan.steps[source.step].is_mapped:
            return self._field(PlanPlace(_SEQ, source.step), source)
        width = self.plan.widths.get(source.step, 0)
        return [
            self._field(PlanPlace(_SEQ, source.step, item=item), source) for item in range(width)
        ]

    def _field(self, place: PlanPlace, source: Source) -> Any:
        job = self.jobs.get(place.id)
        if job is None or job.fact.state is not JobState.DONE or source.field is None:
            return None if job is None else job.result
        if isinstance(job.result, Mapping) and source.field in job.result:
            return job.result[source.field]
        raise _InvalidInline(
            f"it takes {source}, but the result of {source.step} has no field {source.field!r}"
        )

    def _element(self, step: StepRecord, item: int) -> Any:
        if isinstance(step.over, Source) and self.plan.steps[step.over.step].is_mapped:
            try:
                return self._field(PlanPlace(_SEQ, step.over.step, item=item), step.over)
            except _InvalidInline as error:
                error.item = item
                raise
        elements = self._value(step.over, None) if isinstance(step.over, Source) else step.over
        some = list(elements or ())[item * step.chunk : (item + 1) * step.chunk]
        return some if step.chunk > 1 else some[0]

    def _work(self, job: _InlineJob) -> None:
        """Run one job, if the plan lets it start."""
        fact = replace(job.fact, attempt=job.fact.attempt + 1)
        if not rules.may_start(fact.place, self.plan.state, self.plan.try_):
            refused = fact.refused + 1
            job.fact = replace(fact, state=JobState.CANCELLED, stopped=True, refused=refused)
            return
        try:
            result = self._call(job, fact)
        except Exception as error:  # noqa: BLE001 - a task may raise anything
            why = JobError(type(error).__name__, str(error))
            job.fact = replace(fact, state=JobState.FAILED, error=why)
            return
        kept = _kept(result, fact.place)
        if isinstance(kept, JobError):
            job.fact = replace(fact, state=JobState.FAILED, error=kept)
            return
        job.result, job.more = kept
        has_more = job.more is not None
        job.fact = replace(fact, state=JobState.DONE, error=None, has_more=has_more)

    def _call(self, job: _InlineJob, fact: JobFact) -> Any:
        task = self.library.find(job.task)
        if reason := task.misfit(job.args):
            raise TypeError(reason)
        current = CurrentJob(
            fact.place.id,
            fact.seq,
            job.task,
            fact.attempt,
            lambda *_: None,
            document={"plan": fact.place.to_document()},
            submit=send_nowhere,
        )
        steps = calling.alone(task.function, job.args)
        result, error = calling.call(steps, current, is_async=is_async(task.function))
        if error is not None:
            raise error
        return result


def _kept(result: Any, place: PlanPlace) -> tuple[Any, Mapping[str, Any] | None] | JobError:
    """What is stored of what a task returned, with the steps that it adds; an error where a worker
    would fail the attempt for it."""
    more: Mapping[str, Any] | None = None
    if isinstance(result, More):
        if place.kind != "step" or place.item is not None:
            why = "only the task of a plan's step can return More, and of none that is mapped"
            return JobError("InvalidMore", why)
        try:
            more = result.steps()
        except (ConfigError, AttributeError) as error:
            return JobError("InvalidMore", f"the steps to add cannot be: {error}")
        result = result.result
    encoded = verdict.encode(result)
    if not isinstance(encoded, bytes):
        return JobError(encoded.type, encoded.message)
    return bson.decode(encoded, verdict.CODEC)["r"], more


class _InvalidInline(Exception):
    """A step that cannot be released at all, because of one of its items or of all."""

    item: int | None = None
