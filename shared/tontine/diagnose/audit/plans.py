"""Judges a plan by its document and its jobs, which come a page at a time and are only counted.

Both are read while nodes go on: whatever is found is a suspicion, and stands if the next looks find
it again. Times are the server's; those of two servers are taken to agree to a second.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ...records.plan import JobFact, PlanPlace, PlanRecord, StepRecord
from ...records.states import ENDED_PLAN, JobState, PlanState
from ...rules.plan import mapped_source
from ...rules.plan_graph import PlanGraph
from .invariant import Finding
from .plan_counts import PlanCounts

_TOLERANCE = timedelta(seconds=1)
_OVER = ENDED_PLAN | {PlanState.REMOVING}
_RAN = (JobState.DONE, JobState.FAILED)
_NEVER_ACCEPTED = (PlanState.FAILED, PlanState.CANCELLED, PlanState.REMOVING)

Suspicion = tuple[Hashable, Finding]


@dataclass(slots=True)
class _Times:
    """When jobs of one kind and step began and ended, as far as that is told."""

    first_start: datetime | None = None
    last_end: datetime | None = None
    began: int = 0
    """Jobs that had more attempts than were refused."""

    def see(self, fact: JobFact, document: Mapping[str, Any]) -> None:
        self.began += fact.attempt > fact.refused
        started, ended = (_moment(document.get(name)) for name in ("started_at", "finished_at"))
        if fact.state in _RAN:
            self.first_start = min(filter(None, (self.first_start, started)), default=None)
            self.last_end = max(filter(None, (self.last_end, ended)), default=None)


class PlanAudit:
    """One plan as it was read, before its jobs."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.plan = PlanRecord.from_document(document)
        self._graph = PlanGraph(self.plan.steps)
        self._counts = PlanCounts()
        self._times: dict[tuple[str, str], _Times] = {}
        self._done: dict[str, bytearray] = {}
        """Which items are done, of mapped steps that can be undone."""
        self._found: dict[Hashable, Finding] = {}

    @property
    def seq(self) -> int:
        return self.plan.seq or 0

    def see(self, document: Mapping[str, Any]) -> None:
        """One of its jobs, in the order of their `_id`s."""
        fact = JobFact.from_document(document)
        if fact is None:
            return  # somebody else's: the step whose name it has stops the plan
        place = fact.place
        self._counts.add(fact, self.plan.steps.get(place.step))
        self._times.setdefault((place.kind, place.step), _Times()).see(fact, document)
        self._note(_judge_place(self.plan, place), place.id)
        self._note(self._judge_item(fact), place.id)
        self._note(self._judge_life(fact, document), (place.id, fact.attempt))

    def suspicions(self) -> dict[Hashable, Finding]:
        """What looks wrong, under keys that stay the same as long as it does."""
        self._note(_judge_document(self.plan), "document")
        if why := self._counts.why_not(self.plan, self._graph, self.plan.state):
            self._note([("PS7", why)], "end")
        for name in self._graph.steps:
            self._note(self._judge_start(name), ("start", name))
            self._note(self._judge_undo(name), ("undo", name))
        return self._found

    def _note(self, faults: Iterator[tuple[str, str]] | list[tuple[str, str]], key: Any) -> None:
        for invariant, fact in faults:
            told = (invariant, self.seq, self.plan.try_, key)
            self._found[told] = Finding(invariant, fact, plan=self.plan.seq)

    def _judge_item(self, fact: JobFact) -> Iterator[tuple[str, str]]:
        """Only what is done is undone, of a mapped step item by item; its own jobs come first."""
        place, step = fact.place, self.plan.steps.get(fact.place.step)
        if step is None or not step.is_mapped or step.undo is None or place.item is None:
            return
        done = self._done.setdefault(place.step, bytearray())
        if place.kind == "step":
            done.extend(bytes(max(0, place.item + 1 - len(done))))
            done[place.item] = fact.state is JobState.DONE
        elif place.item >= len(done) or not done[place.item]:
            yield "PS4", f"{place.id} undoes what is not done"

    def _judge_life(self, fact: JobFact, document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """What one job must not do in its plan's state."""
        plan, job = self.plan, fact.place.id
        if fact.state is JobState.WORKING and plan.state in _OVER:
            yield "PS7", f"{job} works at attempt {fact.attempt}, and its plan is {plan.state}"
        is_late = fact.place.kind == "step" and plan.state is PlanState.UNDOING
        if fact.state is JobState.WORKING and is_late:
            yield "PS3", f"{job} works at attempt {fact.attempt}, and its plan is undoing"
        if plan.finished_at is None or plan.state not in _OVER or fact.state not in _RAN:
            return
        over = plan.finished_at + _TOLERANCE
        started, ended = (_moment(document.get(name)) for name in ("started_at", "finished_at"))
        if started is not None and started > over:
            yield "PS5", f"{job} started at {started}, and its plan ended at {plan.finished_at}"
        elif ended is not None and ended > over:
            yield "PS7", f"{job} ended at {ended}, and its plan at {plan.finished_at}"

    def _judge_start(self, name: str) -> Iterator[tuple[str, str]]:
        """A step began after all that it comes after, and before anything was undone."""
        own = self._times.get(("step", name), _Times())
        over = mapped_source(self.plan.steps[name], self._graph)
        for earlier in sorted(self._graph.before[name] if own.began else ()):
            if earlier == over:
                if self._counts.steps[earlier].well < self._counts.steps[name].well:
                    yield "PS2", f"more items of {name} than of {earlier} have ended well"
            elif not self._counts.has_ended_well(self.plan, self._graph, earlier):
                yield "PS2", f"{name} has begun, and {earlier} has not ended well"
            elif _is_after(self._times.get(("step", earlier), _Times()).last_end, own.first_start):
                yield "PS2", f"{name} began at {own.first_start}, before {earlier} had ended"
        for (kind, undone), times in self._times.items():
            if kind == "undo" and _is_after(own.last_end, times.first_start):
                yield "PS3", f"{name} ended at {own.last_end}, after the undo of {undone} began"

    def _judge_undo(self, name: str) -> Iterator[tuple[str, str]]:
        times = self._times.get(("undo", name))
        if times is None:
            return
        if name not in self.plan.undo:
            yield "PS4", f"{name} is undone, and is not among the steps that are to be"
        for later in sorted(self._graph.later(name) & set(self.plan.undo)):
            if times.began and not self._counts.is_undone(self._graph, later):
                yield "PS4", f"{name} is being undone, and {later} is not undone"


def judge_name(document: Mapping[str, Any]) -> Iterator[Finding]:
    """A plan's job has the `_id` of its place, and no other may be one."""
    place = PlanPlace.from_document(document.get("plan"))
    attempt = document.get("attempt")
    if place is not None and place.id != document["_id"] and isinstance(attempt, int) and attempt:
        fact = f"{document['_id']!r} was run as {place.id}"
        yield Finding("PS1", fact, document.get("seq"), plan=place.seq)


def judge_orphan(document: Mapping[str, Any]) -> Iterator[Suspicion]:
    """A job whose plan is not there: it may have come late, but it must not have started."""
    fact = JobFact.from_document(document)
    if fact is not None and fact.attempt > fact.refused:
        what = f"{fact.place.id} started, and there is no such plan"
        yield ("PS5", fact.place.id, fact.attempt), Finding("PS5", what, plan=fact.place.seq)


def _judge_document(plan: PlanRecord) -> Iterator[tuple[str, str]]:
    if plan.state is None:
        return
    if plan.state in ENDED_PLAN and plan.finished_at is None:
        yield "PS8", f"{plan.state} without finished_at"
    if plan.state not in _OVER and plan.finished_at is not None:
        yield "PS8", f"{plan.state} with finished_at {plan.finished_at}"
    if plan.try_ is None and plan.state not in _NEVER_ACCEPTED:
        yield "PS8", f"{plan.state}, and never accepted"
    if plan.state is PlanState.CLOSING and plan.outcome is None:
        yield "PS8", "closing, and it is not said what for"


def _judge_place(plan: PlanRecord, place: PlanPlace) -> Iterator[tuple[str, str]]:
    if place.try_ > (plan.try_ or 0):
        yield "PS6", f"{place.id} is of try {place.try_}, and its plan in {plan.try_}"
    if place.kind == "finally":
        if plan.closing is None:
            yield "PS1", f"{place.id} is there, and the plan has no `finally`"
        return
    step = plan.steps.get(place.step)
    if step is None or (place.kind == "undo" and step.undo is None):
        yield "PS1", f"{place.id} is no job of this plan"
    elif not _has_item(plan, step, place.item):
        width = plan.widths.get(place.step)
        yield "PS1", f"{place.id} is no item of {width if step.is_mapped else 'a single step'}"


def _has_item(plan: PlanRecord, step: StepRecord, item: int | None) -> bool:
    if item is None or not step.is_mapped:
        return item is None and not step.is_mapped
    width = plan.widths.get(step.name)
    return width is not None and 0 <= item < width


def _is_after(end: datetime | None, start: datetime | None) -> bool:
    return end is not None and start is not None and end > start + _TOLERANCE


def _moment(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None
