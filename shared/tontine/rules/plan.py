"""What a plan calls for, from its document and what is known of its jobs (PL2 to PL15). Pure.

A rule is a generator: it yields questions about the plan's jobs (plan_questions.py), gets the
answers, and returns deeds (plan_deeds.py). A node asks the store, a test has all the answers;
`touched` are the jobs that were settled just now, and without it (a look) the whole plan is gone
through.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..records.plan import (
    CLOSING_STEP,
    ITEMS_AT_MOST,
    JobFact,
    JobKind,
    PlanError,
    PlanPlace,
    PlanRecord,
    Source,
    StepRecord,
)
from ..records.states import JobState, PlanState
from .plan_deeds import AddSteps, BeginUndo, End, Halt, PlanDeed, PutBack, Release, SetWidth, Stop
from .plan_graph import PlanGraph
from .plan_questions import (
    AboutJob,
    DoneItems,
    EndedItems,
    Inquiry,
    ItemToUndo,
    Length,
    OpenStepJob,
    PresentItems,
    UndoJobs,
    UnendedItem,
    Unsuccessful,
    WithMore,
)

INVALID_STEP = "InvalidStep"
"""The type of the error of a step that cannot be released at all."""
Touched = Sequence[JobFact] | None


def called_for(
    plan: PlanRecord, graph: PlanGraph, touched: Touched = None, unfit: Collection[str] = ()
) -> Inquiry[list[PlanDeed]]:
    """What is to be done for a plan in the state in which it was read; `unfit` are steps whose undo
    cannot be released."""
    if plan.state is PlanState.RUNNING:
        return (yield from _running(plan, graph, touched))
    if plan.state is PlanState.STOPPING:
        return (yield from _stopping(plan, graph))
    if plan.state is PlanState.UNDOING:
        return (yield from _undoing(plan, graph, touched, unfit))
    if plan.state is PlanState.CLOSING:
        return (yield from _closing(plan))
    return []


def ended_well(fact: JobFact | None, step: StepRecord) -> bool:
    """PL3, of one job."""
    if fact is None:
        return False
    if fact.state is JobState.DONE:
        return True
    return step.may_fail and fact.is_unsuccessful and not fact.stopped


def stops(fact: JobFact, plan: PlanRecord) -> bool:
    """Whether the end of a step's job stops the plan (PL9)."""
    step = plan.steps.get(fact.place.step)
    if fact.place.kind != "step" or step is None or step.may_fail:
        return False
    return fact.is_unsuccessful and fact.place.try_ == plan.try_


def goes_back(fact: JobFact, plan: PlanRecord) -> bool:
    """Whether a job of an earlier try is to be run again in this one (PL15)."""
    if not fact.is_unsuccessful or fact.place.try_ >= (plan.try_ or 0):
        return False
    if plan.state is PlanState.UNDOING:
        return fact.place.kind == "undo"
    step = plan.steps.get(fact.place.step)
    is_to_run = step is not None and (not step.may_fail or fact.stopped)
    return fact.place.kind == "step" and is_to_run and plan.state is PlanState.RUNNING


def why_stopped(fact: JobFact) -> PlanError:
    """The error of a plan that this job stops."""
    kind, message = "Cancelled", "it was cancelled by its own number"
    if fact.error is not None:
        kind, message = fact.error.type, fact.error.message
    elif fact.state is JobState.FAILED:
        kind, message = "Failed", "it failed"
    return PlanError(kind, message, fact.place.step, fact.place.item, fact.seq or None)


# Running


def _running(plan: PlanRecord, graph: PlanGraph, touched: Touched) -> Inquiry[list[PlanDeed]]:
    unsuccessful = yield from _unsuccessful("step", touched)
    for fact in unsuccessful:
        if stops(fact, plan):
            return [Stop(why_stopped(fact))]
    deeds: list[PlanDeed] = []
    if any(goes_back(fact, plan) for fact in unsuccessful):
        deeds.append(PutBack("step"))
    adding = yield from _with_more(plan, touched)
    if adding:
        return [*deeds, *(AddSteps(step) for step in sorted(adding))]
    for name in _candidates(graph, touched):
        released = yield from _release(plan, graph, name, touched)
        stop = next((deed for deed in released if isinstance(deed, Stop)), None)
        if stop is not None:
            return [stop]
        deeds += released
    if not _may_be_over(graph, touched):
        return deeds
    for name in graph.last:
        if not (yield from step_ended_well(plan, graph, name)):
            return deeds
    return [End(PlanState.DONE)]  # what was to be released was, by others, and has ended


def _unsuccessful(kind: JobKind, touched: Touched) -> Inquiry[list[JobFact]]:
    """Jobs that failed or were cancelled. Of those just settled only `done` is for ever: what
    became of the others is asked."""
    if touched is None:
        return (yield Unsuccessful(kind))  # type: ignore[no-any-return]
    found: list[JobFact] = []
    for fact in touched:
        if fact.place.kind == kind and fact.state is not JobState.DONE:
            now: JobFact | None = yield AboutJob(_plain(fact.place))
            if now is not None and now.is_unsuccessful:
                found.append(now)
    return found


def _with_more(plan: PlanRecord, touched: Touched) -> Inquiry[Collection[str]]:
    """The steps that have added some which are not in the plan yet (PL13)."""
    if touched is None:
        return (yield WithMore())  # type: ignore[no-any-return]
    return {fact.place.step for fact in touched if fact.has_more} - plan.added


def _candidates(graph: PlanGraph, touched: Touched) -> list[str]:
    """Steps that may be released now and could not be before."""
    if touched is None:
        return list(graph.steps)
    found: dict[str, None] = {}
    for fact in touched:
        name = fact.place.step
        if fact.place.kind == "step" and name in graph.steps:
            found.update(dict.fromkeys(graph.next_of(name)))
            if graph.steps[name].at_once:
                found[name] = None
    return list(found)


def _may_be_over(graph: PlanGraph, touched: Touched) -> bool:
    return touched is None or any(
        fact.place.step in graph.steps and graph.is_last(fact.place.step) for fact in touched
    )


def step_ended_well(plan: PlanRecord, graph: PlanGraph, name: str) -> Inquiry[bool]:
    """PL3 and PL7, of a whole step with all that it added."""
    for one in graph.with_added(name):
        step = graph.steps[one]
        if step.is_mapped:
            width = plan.widths.get(one)
            if width is None or (width and (yield UnendedItem(one)) is not None):
                return False
        else:
            fact: JobFact | None = yield AboutJob(PlanPlace(plan.seq or 0, one))
            if fact is None or not ended_well(fact, step):
                return False
            if fact.has_more and one not in plan.added:
                return False
    return True


def mapped_source(step: StepRecord, graph: PlanGraph) -> str | None:
    """The mapped step that a step maps over. What was refused may name a step that is none."""
    over = graph.steps.get(step.over.step) if isinstance(step.over, Source) else None
    return over.name if over is not None and over.is_mapped else None


def _release(
    plan: PlanRecord, graph: PlanGraph, name: str, touched: Touched
) -> Inquiry[list[PlanDeed]]:
    """What may be released of one step (PL2, PL4)."""
    step = graph.steps[name]
    if not step.is_mapped:
        is_there = touched is None and (yield AboutJob(PlanPlace(plan.seq or 0, name))) is not None
        if is_there or not (yield from _all_ended(plan, graph, graph.before[name])):
            return []
        return [Release("step", name)]
    over = mapped_source(step, graph)
    width = plan.widths.get(name)
    if touched is not None and width is not None:
        wanted = _touched_items(step, over, touched)
        return (yield from _release_some(plan, graph, step, over, wanted, width))
    whole = graph.before[name] if over is None else step.named
    if not (yield from _all_ended(plan, graph, whole)):
        return []
    deeds: list[PlanDeed] = []
    present: Collection[int] = ()
    if width is None:
        found = yield from _width(plan, graph, step)
        if isinstance(found, str):
            return [Stop(PlanError(INVALID_STEP, found, name))]
        if found is None:
            return []
        width = found
        deeds.append(SetWidth(name, width))
    else:
        present = yield PresentItems(name)
    items = yield from _releasable(step, over, width, present)
    return [*deeds, Release("step", name, items)] if items else deeds


def _all_ended(plan: PlanRecord, graph: PlanGraph, names: Collection[str]) -> Inquiry[bool]:
    for name in sorted(names):
        if not (yield from step_ended_well(plan, graph, name)):
            return False
    return True


def _touched_items(step: StepRecord, over: str | None, touched: Sequence[JobFact]) -> set[int]:
    """Items that wait for one of those that were just settled."""
    wanted: set[int] = set()
    for fact in touched:
        item = fact.place.item
        if fact.place.kind != "step" or item is None:
            continue
        if fact.place.step == over:
            wanted.add(item)
        if fact.place.step == step.name and step.at_once:
            wanted.add(item + step.at_once)
    return wanted


def _release_some(
    plan: PlanRecord,
    graph: PlanGraph,
    step: StepRecord,
    over: str | None,
    wanted: Collection[int],
    width: int,
) -> Inquiry[list[PlanDeed]]:
    """Those of the wanted items that may be released; that the step has a width says that all else
    has ended that it comes after."""
    items = []
    for item in sorted(item for item in wanted if item < width):
        needed = [] if over is None else [(over, item)]
        if step.at_once and item >= step.at_once:
            needed.append((step.name, item - step.at_once))
        may_be = True
        for name, earlier in needed:
            fact = yield AboutJob(PlanPlace(plan.seq or 0, name, item=earlier))
            may_be = may_be and ended_well(fact, graph.steps[name])
        if may_be:
            items.append(item)
    return [Release("step", step.name, tuple(items))] if items else []


def _width(plan: PlanRecord, graph: PlanGraph, step: StepRecord) -> Inquiry[int | str | None]:
    """How many jobs a mapped step has; None while nobody can know, a text where it can have
    none."""
    if not isinstance(step.over, Source):
        length: int | str = len(step.over or ())
    elif graph.steps[step.over.step].is_mapped:
        return plan.widths.get(step.over.step)
    else:
        fact: JobFact | None = yield AboutJob(PlanPlace(plan.seq or 0, step.over.step))
        if fact is None or fact.state is not JobState.DONE:
            return 0  # it was allowed to fail, and did
        length = yield Length(step.over)
    if isinstance(length, str):
        return length
    width = -(-length // step.chunk)
    if width > ITEMS_AT_MOST:
        return f"it maps over {length:,} items, and {ITEMS_AT_MOST:,} are allowed: use `chunk`"
    return width


def _releasable(
    step: StepRecord, over: str | None, width: int, present: Collection[int]
) -> Inquiry[tuple[int, ...]]:
    items: Collection[int] = range(width)
    if over is not None:
        items = sorted((yield EndedItems(over)))
    if step.at_once is not None and width > step.at_once:
        ended: Collection[int] = yield EndedItems(step.name)
        items = [item for item in items if item < step.at_once or item - step.at_once in ended]
    return tuple(item for item in items if item < width and item not in present)


def _plain(place: PlanPlace) -> PlanPlace:
    """The place without its try, which is not part of the name of any job but `finally`'s."""
    return PlanPlace(place.seq, place.step, place.kind, place.item)


# Stopping


def _stopping(plan: PlanRecord, graph: PlanGraph) -> Inquiry[list[PlanDeed]]:
    if (yield OpenStepJob()) is not None:
        return [Halt()]
    steps: list[str] = []
    if not plan.no_undo:
        for name, step in graph.steps.items():
            if step.undo is not None and (yield from _is_to_undo(plan, step)):
                steps.append(name)
    if steps:
        return [BeginUndo(tuple(steps))]
    return [End(PlanState.CANCELLED if plan.cause == "cancelled" else PlanState.FAILED)]


def _is_to_undo(plan: PlanRecord, step: StepRecord) -> Inquiry[bool]:
    if step.is_mapped:
        return bool((yield DoneItems(step.name)))
    fact: JobFact | None = yield AboutJob(PlanPlace(plan.seq or 0, step.name))
    if fact is None:
        return False
    # One that is not final was released late, and is claimed just now: it gets no licence.
    was_begun = fact.is_final and fact.attempt > fact.refused
    is_enough = step.undo is not None and step.undo.when == "begun" and was_begun
    return fact.state is JobState.DONE or is_enough


# Undoing


def _undoing(
    plan: PlanRecord, graph: PlanGraph, touched: Touched, unfit: Collection[str]
) -> Inquiry[list[PlanDeed]]:
    deeds: list[PlanDeed] = []
    if touched is None and (yield OpenStepJob()) is not None:
        deeds.append(Halt())  # it was released late; it would get no licence either
    if touched and (yield from _has_more_to_undo(graph, touched)):
        return deeds
    names = [name for name in plan.undo if name in graph.steps]
    standing: dict[str, _UndoStanding] = {}
    for name in names:
        standing[name] = yield from _undo_standing(graph.steps[name])
    facts = [fact for one in standing.values() for fact in one.jobs]
    if any(goes_back(fact, plan) for fact in facts):
        return [*deeds, PutBack("undo")]
    if all(one.is_done for one in standing.values()):
        return [*deeds, End(PlanState.UNDONE)]
    free = [
        name
        for name in names
        if all(standing[one].is_done for one in graph.later(name) if one in standing)
    ]
    releases = [
        Release("undo", name, standing[name].missing)
        for name in free
        if standing[name].is_incomplete and name not in unfit
    ]
    if releases:
        return [*deeds, *releases]
    is_settled = all(_is_settled(fact, plan) for name in free for fact in standing[name].jobs)
    has_failed = any(fact.is_unsuccessful and fact.place.try_ == plan.try_ for fact in facts)
    has_failed = has_failed or any(name in unfit for name in free)
    return [*deeds, End(PlanState.STUCK)] if has_failed and is_settled else deeds


@dataclass(frozen=True, slots=True)
class _UndoStanding:
    """How far the undo of one step is."""

    jobs: tuple[JobFact, ...]
    is_done: bool
    missing: tuple[int, ...] | None
    """Items whose undo has no job; None for a step that is not mapped."""

    @property
    def is_incomplete(self) -> bool:
        """Whether an undo is not there yet."""
        return not self.jobs if self.missing is None else bool(self.missing)


def _has_more_to_undo(graph: PlanGraph, touched: Sequence[JobFact]) -> Inquiry[bool]:
    """Whether what was just undone is only a part of a mapped step, of which more is left."""
    for fact in touched:
        step = graph.steps.get(fact.place.step)
        if fact.state is not JobState.DONE or step is None or not step.is_mapped:
            return False
        if (yield ItemToUndo(step.name)) is None:
            return False
    return True


def _undo_standing(step: StepRecord) -> Inquiry[_UndoStanding]:
    jobs: dict[int | None, JobFact] = yield UndoJobs(step.name)
    facts = tuple(jobs.values())
    undone = {item for item, fact in jobs.items() if fact.state is JobState.DONE}
    if not step.is_mapped:
        return _UndoStanding(facts, None in undone, None)
    items: Collection[int] = yield DoneItems(step.name)
    missing = tuple(sorted(item for item in items if item not in jobs))
    return _UndoStanding(facts, all(item in undone for item in items), missing)


def _is_settled(fact: JobFact, plan: PlanRecord) -> bool:
    if fact.is_unsuccessful:
        return fact.place.try_ == plan.try_
    return fact.state is JobState.DONE


# Closing


def _closing(plan: PlanRecord) -> Inquiry[list[PlanDeed]]:
    place = PlanPlace(plan.seq or 0, CLOSING_STEP, "finally", try_=plan.try_ or 0)
    fact: JobFact | None = yield AboutJob(place)
    if fact is None:
        return [Release("finally", CLOSING_STEP)]
    return [End(plan.outcome or PlanState.FAILED)] if fact.is_final else []


# What others decide


_LICENSED: dict[PlanState, JobKind] = {
    PlanState.RUNNING: "step",
    PlanState.UNDOING: "undo",
    PlanState.CLOSING: "finally",
}


def may_start(place: PlanPlace, state: PlanState | None, try_: int | None) -> bool:
    """Whether a plan gives its leave to start one of its jobs (PL5)."""
    if state is None or _LICENSED.get(state) != place.kind:
        return False
    return place.kind != "finally" or place.try_ == try_


def retried_to(plan: PlanRecord) -> PlanState | str:
    """The state to which an operator's retry brings a plan (PL15), or why there is none."""
    if plan.state in (PlanState.FAILED, PlanState.CANCELLED, PlanState.STUCK):
        if plan.try_ is None:
            if plan.error is None:
                early = "was cancelled before any node had accepted it"
                return f"plan {plan.seq} {early}: submit it again"
            return f"plan {plan.seq} was refused, and cannot be run at all: {plan.error.message}"
        return PlanState.UNDOING if plan.state is PlanState.STUCK else PlanState.RUNNING
    if plan.is_unfinished:
        return f"plan {plan.seq} has not ended: it is {plan.state or 'not accepted yet'}"
    if plan.state is PlanState.REMOVING:
        return f"plan {plan.seq} is being removed: its time is over"
    return f"plan {plan.seq} is {plan.state}: there is nothing to run again"
