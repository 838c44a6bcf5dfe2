"""A plan drawn as a tree of its steps, as lines for a terminal, and as a graph for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich.text import Text

from ..legible import duration, legible
from ..records.plan import PlanRecord
from ..records.plan_status import WAITING, JobCounts, PlanStatus, StepStatus
from ..records.states import JobState, PlanState
from ..rules.plan_graph import PlanGraph
from .output import JOB_LOOKS

PLAN_LOOKS: dict[PlanState | None, tuple[str, str]] = {  # glyph and word, never colour alone
    None: ("◌", "cyan"),
    PlanState.RUNNING: ("●", "cyan"),
    PlanState.STOPPING: ("◐", "yellow"),
    PlanState.UNDOING: ("↶", "yellow"),
    PlanState.CLOSING: ("◑", "cyan"),
    PlanState.DONE: ("✓", "green"),
    PlanState.FAILED: ("✗", "red"),
    PlanState.CANCELLED: ("⊘", "yellow"),
    PlanState.UNDONE: ("↩", "yellow"),
    PlanState.STUCK: ("!", "red"),
    PlanState.REMOVING: ("…", "dim"),
}
_STEP_LOOKS = {WAITING: ("○", "dim"), **{str(state): look for state, look in JOB_LOOKS.items()}}
_BAR = 20


def plan_state(state: PlanState | None) -> Text:
    """A plan's state: its glyph, its word, its colour."""
    glyph, colour = PLAN_LOOKS[state]
    return Text(f"{glyph} {'new' if state is None else state.value}", style=colour)


def tree(plan: PlanRecord, status: PlanStatus, now: datetime) -> list[Text]:
    """A line for the plan, and one for each of its steps."""
    name = f"  {legible(plan.name, 80)}" if plan.name else ""
    head = Text.assemble((f"plan {plan.seq}", "bold"), f"{name}  ", plan_state(plan.state))
    head.append(f"  {status.progress:.0%}{_took(status.created_at, status.finished_at, now)}")
    lines = [head]
    if plan.error is not None:
        lines.append(Text(f"  {legible(str(plan.error), 300)}", style="red"))
    lines += [_line(status.steps[name], depth, now) for name, depth in _ordered(plan)]
    return lines


def _ordered(plan: PlanRecord) -> Iterator[tuple[str, int]]:
    """Steps in an order in which they can run, each under the deepest of those that it comes
    after."""
    graph = PlanGraph(plan.steps)
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in depths:
            parent = graph.steps[name].parent
            before = [*graph.before[name], *([parent] if parent in graph.steps else [])]
            depths[name] = 1 + max((depth(str(one)) for one in before), default=-1)
        return depths[name]

    names = list(graph.steps)
    yield from sorted(((name, depth(name)) for name in names), key=lambda one: one[1])


def _line(step: StepStatus, depth: int, now: datetime) -> Text:
    glyph, colour = _STEP_LOOKS.get(step.state, ("?", ""))
    line = Text(f"  {'  ' * min(depth, 20)}")
    line.append(f"{glyph} {step.name}", style=colour)
    line.append(f"  {step.state}", style="dim")
    if step.is_mapped:
        line.append(
            f"  {_bar(step)} {step.done:,}/{'?' if step.total is None else f'{step.total:,}'}"
        )
        if step.jobs.failed:
            line.append(f" {step.jobs.failed:,} failed", style="red")
    line.append(_took(step.jobs.started_at, _until(step), now), style="dim")
    if step.undo is not None:
        line.append(f"  {_undone(step.undo)}", style="yellow")
    return line


def _until(step: StepStatus) -> datetime | None:
    return None if step.jobs.working or step.jobs.queued else step.jobs.finished_at


def _bar(step: StepStatus) -> str:
    filled = 0 if not step.total else round(_BAR * step.done / step.total)
    return "█" * filled + "·" * (_BAR - filled)


def _undone(undo: JobCounts) -> str:
    if undo.failed or undo.cancelled:
        return "undo failed"
    return "undone" if undo.all == undo.done else f"undoing {undo.done}/{undo.all}"


def _took(start: datetime | None, end: datetime | None, now: datetime) -> str:
    if start is None:
        return ""
    return f"  {duration(max(0.0, ((end or now) - start).total_seconds()))}"


_DOT_COLOURS = {
    WAITING: "gray90",
    JobState.QUEUED.value: "lightblue",
    JobState.WORKING.value: "lightcyan",
    JobState.DONE.value: "palegreen",
    JobState.FAILED.value: "lightpink",
    JobState.CANCELLED.value: "khaki",
}


def dot(plan: PlanRecord, status: PlanStatus) -> str:
    """The plan as a graph in the language of Graphviz."""
    graph = PlanGraph(plan.steps)
    lines = [f'digraph "plan {plan.seq}" {{', "  rankdir=LR; node [shape=box, style=filled];"]
    for name, step in status.steps.items():
        label = name if not step.is_mapped else f"{name}\\n{step.done}/{step.total or '?'}"
        lines.append(f'  "{name}" [label="{label}", fillcolor={_DOT_COLOURS[step.state]}];')
    for name in graph.steps:
        lines += [
            f'  "{name}" -> "{later}";' for later in [*graph.after[name], *graph.children[name]]
        ]
    return "\n".join([*lines, "}"])
