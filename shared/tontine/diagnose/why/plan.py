"""Why a plan is where it is: what each step that has no job waits for, and why that is not done.
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...records.plan import CLOSING_STEP, JobFact, JobKind, PlanPlace, PlanRecord
from ...records.plan_status import WAITING, PlanStatus, StepStatus
from ...records.states import JobState, PlanState
from ...rules.plan_graph import PlanGraph
from .evidence import Finding

_SHOWN = 20


def explain_plan(
    plan: PlanRecord, status: PlanStatus, *, all_know: bool, nobody: Finding | None = None
) -> list[Finding]:
    """The reasons, the most important first; `all_know` says that every live node knows of plans,
    `nobody` why none goes on with anything."""
    return list(_findings(plan, status, all_know, nobody))


def _findings(
    plan: PlanRecord, status: PlanStatus, all_know: bool, nobody: Finding | None
) -> Iterator[Finding]:
    if plan.is_unfinished and nobody is not None:
        yield nobody
    if plan.is_unfinished and not all_know:
        yield Finding(
            "older-nodes",
            "A node that is alive runs a release that knows nothing of plans, and so nobody "
            "accepts plans or releases steps.",
            "stop it, or bring it up to date: `tontine nodes` shows their versions",
        )
    if plan.state is None:
        soon = "; the first member does within a second" if nobody is None else ""
        yield Finding("new", f"No node has accepted it yet{soon}.")
    elif plan.state is PlanState.RUNNING:
        yield from _running(plan, status)
    elif plan.state is PlanState.STOPPING:
        yield Finding("stopping", f"It stops{_because(plan)}; {_drains(status)}.")
    elif plan.state is PlanState.UNDOING:
        yield Finding("undoing", f"It stopped{_because(plan)}.")
        yield from _undoing(plan, status)
    elif plan.state is PlanState.CLOSING:
        yield _closing(plan, status)
    else:
        yield from _ended(plan)


def _because(plan: PlanRecord) -> str:
    if plan.cause is None:
        return ""  # a retry has taken it away: one that was stuck is undone further without
    if plan.cause == "cancelled":
        return " because it was cancelled"
    return " because a step failed" if plan.error is None else f" because of {plan.error}"


def _drains(status: PlanStatus) -> str:
    open_steps = [step.name for step in status.steps.values() if step.jobs.working]
    if not open_steps:
        return "nothing of it runs any more"
    return f"{', '.join(open_steps[:_SHOWN])} still runs, and what runs is waited for"


def _running(plan: PlanRecord, status: PlanStatus) -> Iterator[Finding]:
    graph = PlanGraph(plan.steps)
    steps = status.steps.items()
    under_way = [step for _, step in steps if step.jobs.working or step.jobs.queued]
    waiting = [name for name, step in steps if step.state == WAITING or _is_partly_there(step)]
    for step in under_way[:_SHOWN]:
        yield Finding("step", f"Step {step.name} is under way: {_jobs(step)}.", _ask(plan, step))
    for name in waiting[:_SHOWN]:
        yield from _waiting(name, graph, status)
    if more := len(waiting[_SHOWN:]):
        yield Finding("waits", f"{more:,} more {'steps wait' if more > 1 else 'step waits'}.")


def _is_partly_there(step: StepStatus) -> bool:
    """Whether all jobs of a map that are there have ended, and others have yet to come."""
    jobs = step.jobs
    return not jobs.queued and not jobs.working and 0 < jobs.all < (step.total or 0)


def _waiting(name: str, graph: PlanGraph, status: PlanStatus) -> Iterator[Finding]:
    missing = [
        open_one for one in sorted(graph.before[name]) for open_one in _unended(one, graph, status)
    ]
    if missing:
        those = ", ".join(f"{one} ({status.steps[one].state})" for one in missing[:_SHOWN])
        yield Finding("waits", f"Step {name} waits for {those}.")
    else:
        yield Finding(
            "released",
            f"Step {name} waits for nothing, and is released in a moment; if nobody does, its "
            "plan's owner sees it within five minutes.",
        )


def _unended(name: str, graph: PlanGraph, status: PlanStatus) -> Iterator[str]:
    """What keeps a step from having ended: itself, or steps that it has added (PL3)."""
    for one in graph.with_added(name):
        if not _has_ended(status.steps[one]):
            yield one


def _has_ended(step: StepStatus) -> bool:
    """Whether all of its own jobs have ended well: what the plan's stop ended is run again."""
    jobs = step.jobs
    let_off = jobs.failed + jobs.cancelled - jobs.stopped if step.may_fail else 0
    return step.total is not None and jobs.done + let_off >= step.total


def _jobs(step: StepStatus) -> str:
    if not step.is_mapped:
        return "its job is working" if step.jobs.working else "its job is queued"
    total = "?" if step.total is None else f"{step.total:,}"
    parts = [f"{step.jobs.done:,} of {total} jobs are done"]
    parts += [f"{step.jobs.working:,} run"] if step.jobs.working else []
    parts += [f"{step.jobs.queued:,} are queued"] if step.jobs.queued else []
    return ", ".join(parts)


def _ask(plan: PlanRecord, step: StepStatus, kind: JobKind = "step") -> str:
    if step.is_mapped:
        return f"`tontine plan {plan.seq} --jobs` lists its jobs"
    return _ask_of(PlanPlace(plan.seq or 0, step.name, kind))


def _ask_of(place: PlanPlace) -> str:
    return f"`tontine why {place.id}` tells of its job"


def _closing(plan: PlanRecord, status: PlanStatus) -> Finding:
    last = status.closing
    if last is None or last.state == WAITING:
        how, advice = "is released in a moment", ""
    else:
        place = PlanPlace(plan.seq or 0, CLOSING_STEP, "finally", try_=plan.try_ or 0)
        how, advice = f"is {last.state}", _ask_of(place)
    return Finding("closing", f"Its `finally` {how}; then it is {plan.outcome}.", advice)


def _undoing(plan: PlanRecord, status: PlanStatus) -> Iterator[Finding]:
    findings = [
        finding
        for name in plan.undo
        if name in status.steps and (finding := _undo_of(plan, status.steps[name]))
    ]
    yield from findings[:_SHOWN]


def _undo_of(plan: PlanRecord, step: StepStatus) -> Finding | None:
    """How the undo of a step stands, unless it is done."""
    jobs, advice = step.undo, _ask(plan, step, "undo")
    if jobs is None:
        how, advice = "waits for those of what came after it", ""
    elif jobs.failed or jobs.cancelled:
        how = "failed"
    elif jobs.queued or jobs.working:
        how = "is under way"
    else:
        return None
    return Finding("undo", f"The undo of {step.name} {how}.", advice)


def _ended(plan: PlanRecord) -> Iterator[Finding]:
    if plan.state is PlanState.DONE:
        yield Finding("done", "All of its steps ended well.")
    elif plan.state is PlanState.STUCK:
        yield Finding(
            "stuck",
            "An undo failed, so not all that was done of it is undone.",
            f"put right what keeps it from being undone, then `tontine retry {plan.seq}`",
        )
    elif plan.state is PlanState.UNDONE:
        yield Finding("undone", f"It stopped{_because(plan)}, and was undone.")
    elif plan.state is PlanState.REMOVING:
        yield Finding("removing", "Its time is over: its jobs are removed, then it is.")
    elif plan.try_ is None and plan.error is not None:
        yield Finding("refused", f"It could be no plan: {plan.error.message}.")
    elif plan.try_ is None:
        yield Finding(str(plan.state), "It was cancelled before any node had accepted it.")
    else:
        advice = f"`tontine retry {plan.seq}` goes on with what is not done"
        yield Finding(str(plan.state), f"It ended{_because(plan)}.", advice)


def explain_place(fact: JobFact, graph: PlanGraph | None) -> list[Finding]:
    """Of which plan a job is, why that kept it from running, and what waits for it; of a plan that
    is gone there is no graph."""
    return list(_place_findings(fact, graph))


def _place_findings(fact: JobFact, graph: PlanGraph | None) -> Iterator[Finding]:
    place = fact.place
    item = "" if place.item is None else f", item {place.item}"
    words = {"step": "step", "undo": "the undo of step", "finally": "the `finally`"}
    what = words[place.kind] if place.kind == "finally" else f"{words[place.kind]} {place.step}"
    gone = ", which is gone" if graph is None else ""
    yield Finding("plan", f"It is {what}{item} of plan {place.seq}{gone}.")
    if fact.state is JobState.CANCELLED and fact.stopped:
        stopped = "its plan was gone" if graph is None else "its plan had stopped"
        if fact.refused:
            yield Finding("licence", f"When a node had claimed it, {stopped}: it was not started.")
        else:
            yield Finding("stopped", f"It was cancelled because {stopped}.")
    if graph is not None and place.kind == "step" and place.step in graph.steps:
        after = graph.next_of(place.step)
        waits = f"{', '.join(after)} waits for it" if after else "nothing but its end waits for it"
        yield Finding("plan", f"In the plan, {waits}.")
