"""Judges each change of a plan, and of its jobs, against what came before it (PS1 to PS8).

What starts is not told by a claim: a job that was claimed and got no licence is cancelled again. It
started if a change says when; then its plan must have allowed it at some moment since its claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...records.change import Delta, DeltaKind
from ...records.plan import JobFact, PlanPlace, PlanRecord
from ...records.states import ENDED_PLAN, PLAN_MOVES, JobState, PlanState
from ...rules.plan import mapped_source, may_start
from ...rules.plan_graph import PlanGraph
from .invariant import Finding
from .plan_counts import PlanCounts

Faults = Iterator[tuple[str, str]]

_ACCEPTED = {PlanState.RUNNING, PlanState.FAILED, PlanState.CANCELLED}
_OVER = ENDED_PLAN | {PlanState.REMOVING}


@dataclass(slots=True)
class _Job:
    fact: JobFact
    may_run: bool = True
    """Whether its plan has allowed it since it was claimed."""


@dataclass(slots=True)
class _Plan:
    """A plan that was seen from its insertion on."""

    document: dict[str, Any]
    record: PlanRecord
    graph: PlanGraph
    jobs: dict[str, _Job] = field(default_factory=dict)
    counts: PlanCounts = field(default_factory=PlanCounts)
    held: set[str] = field(default_factory=set)
    """Jobs that somebody has claimed."""
    closed_in: set[int | None] = field(default_factory=set)
    """The tries in which its `finally` was due."""


class PlanChanges:
    """What is known of each plan that was inserted since."""

    def __init__(self) -> None:
        self._plans: dict[str, _Plan] = {}
        self._by_seq: dict[int, _Plan] = {}

    def see_plan(self, change: Delta) -> Iterator[Finding]:
        key = repr(change.id)
        known = self._plans.get(key)
        if change.kind is DeltaKind.GONE:
            self._plans.pop(key, None)
            if known is not None:
                yield from self._forget(known)
        elif change.kind is DeltaKind.INSERTED:
            document = dict(change.fields)
            record = PlanRecord.from_document(document)
            self._keep(key, _Plan(document, record, PlanGraph(record.steps)))
        elif known is not None:
            was = known.record
            _apply(known.document, change)
            known.record = PlanRecord.from_document(known.document)
            if "steps" in change.touched:
                known.graph = PlanGraph(known.record.steps)
            self._keep(key, known)
            for job in map(known.jobs.__getitem__, known.held):
                job.may_run = job.may_run or _is_allowed(job.fact, known.record)
            for invariant, fact in _judge_change(change, was, known):
                yield Finding(invariant, fact, plan=known.record.seq)

    def _keep(self, key: str, plan: _Plan) -> None:
        self._plans[key] = plan
        if plan.record.seq is not None and plan.record.state is not None:
            self._by_seq[plan.record.seq] = plan

    def _forget(self, plan: _Plan) -> Iterator[Finding]:
        """Its jobs are judged on: nothing of what is gone may start."""
        state = plan.record.state
        if state is not None and state is not PlanState.REMOVING:
            yield Finding("PS8", f"it was removed while {state}", plan=plan.record.seq)
        plan.record = replace(plan.record, state=PlanState.REMOVING, steps={})
        plan.document, plan.graph = {}, PlanGraph({})

    def see_job(self, change: Delta) -> Iterator[Finding]:
        seq = plan_of(change.id)
        plan = self._by_seq.get(seq) if seq is not None else None
        if plan is None:
            return
        for invariant, fact in self._see_job(plan, change):
            yield Finding(invariant, f"its job {change.id} {fact}", plan=seq)

    def _see_job(self, plan: _Plan, change: Delta) -> Faults:
        known = plan.jobs.get(change.id)
        if change.kind is DeltaKind.GONE:
            yield from _judge_removal(plan, change.id)
        elif change.is_whole:
            fact = JobFact.from_document({"_id": change.id, **change.fields})
            if fact is None or known is not None:
                return  # nobody's job, or one that somebody has replaced
            yield from _judge_release(plan, fact)
            _count(plan, change.id, None, fact)
        elif known is not None:
            was = known.fact
            now = _changed(was, change)
            if was.state is not JobState.WORKING and now.state is JobState.WORKING:
                known.may_run = _is_allowed(now, plan.record)
            yield from _judge_job(plan, known, now, change)
            _count(plan, change.id, known, now)


def plan_of(id: Any) -> int | None:
    """Whose job it is, by its `_id`."""
    if not isinstance(id, str) or not id.startswith("plan/"):
        return None
    number = id.split("/", 2)[1]
    return int(number) if number.isascii() and number.isdigit() else None


def _is_allowed(fact: JobFact, plan: PlanRecord) -> bool:
    return may_start(fact.place, plan.state, plan.try_)


def _count(plan: _Plan, id: str, known: _Job | None, now: JobFact) -> None:
    step = plan.graph.steps.get(now.place.step)
    if known is None:
        plan.jobs[id] = _Job(now)
    else:
        plan.counts.add(known.fact, step, -1)
        known.fact = now
    plan.counts.add(now, step)
    (plan.held.add if now.state is JobState.WORKING else plan.held.discard)(id)


# Plans


def _apply(document: dict[str, Any], change: Delta) -> None:
    """The document after a change of some of its paths; none of its names has a dot."""
    if change.is_whole:
        document.clear()
        document.update(change.fields)
        return
    for path, value in change.fields.items():
        *way, last = path.split(".")
        inner: Any = document
        for name in way:
            if isinstance(inner, list):
                break
            if not isinstance(inner.get(name), dict | list):
                inner[name] = {}
            inner = inner[name]
        if isinstance(inner, list):
            inner[int(last) :] = [value]  # lists of a plan only grow
        else:
            inner[last] = value
    for path in change.removed:
        if "." not in path:
            document.pop(path, None)


def _judge_change(change: Delta, was: PlanRecord, plan: _Plan) -> Faults:
    now = plan.record
    if was.state is None:
        if now.state is not None and now.state not in _ACCEPTED:
            yield "PS8", f"it was {now.state} as soon as it was accepted"
        return
    if (now.try_ or 0) < (was.try_ or 0):
        yield "PS6", f"its try fell from {was.try_} to {now.try_}"
    if was.state is now.state:
        if was.state in _OVER and (touched := change.touched - {"expire_at"}):
            yield "PS8", f"{was.state}, and then changed: {', '.join(sorted(touched))}"
        return
    if now.state not in PLAN_MOVES[was.state]:
        yield "PS8", f"{was.state} became {now.state}"
        return
    is_retry = was.state in ENDED_PLAN and now.state is not PlanState.REMOVING
    if (now.try_ or 0) != (was.try_ or 0) + is_retry:
        yield "PS8", f"{was.state} in try {was.try_} became {now.state} in try {now.try_}"
    if was.undo != now.undo and now.state not in (PlanState.UNDOING, PlanState.RUNNING):
        yield "PS4", f"what is to be undone became {', '.join(now.undo)} while {now.state}"
    if now.state is PlanState.CLOSING:
        plan.closed_in.add(now.try_)
    yield from _judge_end(was, plan)


def _judge_end(was: PlanRecord, plan: _Plan) -> Faults:
    """What must be over when a plan moves on."""
    now = plan.record
    if now.state in (PlanState.STOPPING, PlanState.RUNNING, PlanState.REMOVING):
        return
    if runs := sorted(one for one in plan.held if _runs_on(plan.jobs[one], was)):
        invariant = "PS3" if now.state is PlanState.UNDOING else "PS7"
        yield invariant, f"{was.state} became {now.state} while {runs[0]} runs"
    outcome = now.outcome if now.state is PlanState.CLOSING else now.state
    if why := plan.counts.why_not(now, plan.graph, outcome):
        yield "PS7", why


def _runs_on(job: _Job, was: PlanRecord) -> bool:
    """Whether a claimed job had leave to run, and was to be waited for."""
    return job.may_run and (was.state is not PlanState.UNDOING or job.fact.place.kind == "undo")


# Jobs


def _judge_removal(plan: _Plan, id: str) -> Faults:
    known = plan.jobs.pop(id, None)
    plan.held.discard(id)
    if known is None or plan.record.state is PlanState.REMOVING:
        return
    plan.counts.add(known.fact, plan.graph.steps.get(known.fact.place.step), -1)
    yield "PS1", f"was removed while its plan is {plan.record.state}"


def _judge_release(plan: _Plan, fact: JobFact) -> Faults:
    place, graph = fact.place, plan.graph
    if place.try_ > (plan.record.try_ or 0):
        yield "PS6", f"is of try {place.try_}, and its plan in {plan.record.try_}"
    if plan.record.state is PlanState.REMOVING:
        return  # it came late, and must not start
    if place.kind == "finally":
        if place.try_ not in plan.closed_in:
            yield "PS5", "was released before anything but it was over"
    elif place.step not in graph.steps:
        yield "PS1", "is of no step"
    elif place.kind == "step":
        yield from _judge_step(plan, place)
    else:
        yield from _judge_undo(plan, place)


def _judge_step(plan: _Plan, place: PlanPlace) -> Faults:
    graph, step = plan.graph, plan.graph.steps[place.step]
    over = mapped_source(step, graph)
    for name in sorted(graph.before[place.step]):
        if name == over:
            if not _item_is_well(plan, name, place.item):
                yield "PS2", f"was released before item {place.item} of {name} had ended well"
        elif not plan.counts.has_ended_well(plan.record, graph, name):
            yield "PS2", f"was released before step {name} had ended well"
    width = plan.record.widths.get(place.step)
    if step.is_mapped and (place.item is None or width is None or place.item >= width):
        yield "PS1", f"is none of {width} items"
    earlier = -1 if step.at_once is None or place.item is None else place.item - step.at_once
    if earlier >= 0 and not _item_is_well(plan, place.step, earlier):
        yield "PS2", f"was released before item {earlier} had ended well"


def _item_is_well(plan: _Plan, name: str, item: int | None) -> bool:
    job = plan.jobs.get(PlanPlace(plan.record.seq or 0, name, item=item).id)
    if job is None:
        return False
    may_fail = plan.graph.steps[name].may_fail
    failed_alone = job.fact.is_unsuccessful and not job.fact.stopped
    return job.fact.state is JobState.DONE or (may_fail and failed_alone)


def _judge_undo(plan: _Plan, place: PlanPlace) -> Faults:
    listed = plan.record.undo
    if place.step not in listed:
        yield "PS4", f"was released, and only {', '.join(listed) or 'nothing'} is to be undone"
        return
    own = plan.jobs.get(PlanPlace(place.seq, place.step, item=place.item).id)
    if place.item is not None and (own is None or own.fact.state is not JobState.DONE):
        yield "PS4", "was released, and there is nothing to undo"
    for name in sorted(plan.graph.later(place.step) & set(listed)):
        if not plan.counts.is_undone(plan.graph, name):
            yield "PS4", f"was released before step {name} was undone"


def _changed(was: JobFact, change: Delta) -> JobFact:
    fields, place = change.fields, was.place
    whole = fields.get("plan")
    tries = fields.get("plan.try", whole.get("try") if isinstance(whole, Mapping) else place.try_)
    if isinstance(tries, int):
        place = replace(place, try_=tries)
    state = fields.get("state", was.state)
    removed = set(change.removed)
    return replace(
        was,
        place=place,
        state=JobState(state) if state in tuple(JobState) else was.state,
        stopped="stopped" not in removed and bool(fields.get("stopped", was.stopped)),
        has_more=was.has_more or "more" in fields,
    )


def _judge_job(plan: _Plan, job: _Job, now: JobFact, change: Delta) -> Faults:
    was, record = job.fact, plan.record
    if was.state is JobState.DONE and now.state is not JobState.DONE:
        yield "PS1", f"was done, and then {now.state}"
    is_back = was.is_unsuccessful and now.state is JobState.QUEUED
    if is_back and not was.place.try_ < now.place.try_ <= (record.try_ or 0):
        yield "PS6", f"was put back in try {now.place.try_}, and its plan is in {record.try_}"
    if now.place.try_ < was.place.try_:
        yield "PS6", f"went from try {was.place.try_} to {now.place.try_}"
    is_newer = now.place.try_ == record.try_ and record.state is PlanState.RUNNING
    if now.stopped and not was.stopped and is_newer:
        yield "PS6", "was stopped, and its plan runs"
    has_begun = was.state is JobState.WORKING and change.fields.get("started_at") is not None
    if has_begun and not job.may_run:
        job.may_run = True  # said once
        yield _misstart(now, record), f"started, and its plan is {record.state}"


def _misstart(fact: JobFact, plan: PlanRecord) -> str:
    if fact.place.kind == "step" and plan.state is PlanState.UNDOING:
        return "PS3"
    return "PS5"
