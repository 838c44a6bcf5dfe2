"""A plan as people see it: its steps on rails, each with its state, the jobs of a map as a bar, the
way back, why it failed. Pure; the command and the observer draw the same.

Lines are pieces of text with a role each: a state's name, or `text`, `strong`, `muted`, `rail`,
`warn`. Who draws them gives roles a colour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..legible import duration
from ..records.plan import PlanError, PlanRecord
from ..records.plan_status import WAITING, JobCounts, PlanStatus, StepStatus
from ..records.states import ENDED_PLAN, JobState, PlanState
from .plan_rails import RailRow, rails

Piece = tuple[str, str]
"""Text, and its role."""
Show = Callable[[str, int], str]
"""Makes a text from the store fit for a terminal, at most so long."""

PLAN_LOOKS: dict[PlanState | None, tuple[str, str]] = {
    None: ("◌", "queued"),
    PlanState.RUNNING: ("●", "working"),
    PlanState.STOPPING: ("◐", "warn"),
    PlanState.UNDOING: ("↶", "warn"),
    PlanState.CLOSING: ("◑", "working"),
    PlanState.DONE: ("✓", "done"),
    PlanState.FAILED: ("✗", "failed"),
    PlanState.CANCELLED: ("⊘", "cancelled"),
    PlanState.UNDONE: ("↩", "cancelled"),
    PlanState.STUCK: ("!", "failed"),
    PlanState.REMOVING: ("…", "muted"),
}
"""The sign of a state, and its role; the word is always beside them."""
STEP_SIGNS: dict[str, str] = {
    WAITING: "○",
    JobState.QUEUED: "·",
    JobState.WORKING: "●",
    JobState.DONE: "✓",
    JobState.FAILED: "✗",
    JobState.CANCELLED: "⊘",
}
_BAR = 20
_NAME = 32
_STATE = max(len(state) for state in JobState)

BAR_SIGNS = {"done": "█", "failed": "x", "working": "▓", "queued": "░", WAITING: "·"}
"""By what they stand for: jobs that ended well, those that did not, and those to come."""


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """The lines of one step: itself, and what went wrong."""

    step: StepStatus
    lines: list[list[Piece]]


def state_word(state: PlanState | None) -> str:
    """The state in a word, also where there is none yet."""
    return "new" if state is None else state.value


def drawn_steps(plan: PlanRecord, status: PlanStatus, now: datetime, show: Show) -> list[DrawnStep]:
    """All steps in an order in which they can run, and `finally` after them."""
    rows = rails(plan.steps)
    steps = [(row, status.steps[row.name]) for row in rows]
    if status.closing is not None:
        blank = " " * len(rows[0].left + rows[0].right) if rows else ""
        steps.append((RailRow("finally", "", blank, f"{blank} "), status.closing))
    names = [show(row.name, 80) for row, _ in steps]
    wide = min(_NAME, max(map(len, names), default=0))
    return [
        DrawnStep(step, _lines(plan, step, row, f"{name:<{wide}}", now, show))
        for (row, step), name in zip(steps, names, strict=True)
    ]


def _lines(
    plan: PlanRecord, step: StepStatus, row: RailRow, name: str, now: datetime, show: Show
) -> list[list[Piece]]:
    state = step.state
    line: list[Piece] = [
        (row.left, "rail"),
        (STEP_SIGNS.get(state, "?"), state),
        (row.right, "rail"),
        (f" {name}  ", "text"),
        (f"{state:<{_STATE}}", state),
    ]
    if step.is_mapped:
        line.append(("  ", "text"))
        line += [(BAR_SIGNS[kind] * cells, kind) for kind, cells in bar_parts(step, _BAR)]
        told = jobs_told(step)
        line += [
            (f"{',' if place else ''} {text}", "failed" if kind == "failed" else "text")
            for place, (kind, text) in enumerate(told)
        ]
    line.append((took(step.jobs.started_at, _until(step), now), "muted"))
    if undo := undo_told(plan, step):
        line.append((f"  ↶ {undo}", "failed" if "failed" in undo else "warn"))
    may = step.may_fail and not step.undo
    why = [show(text, 300) for text in failures(plan, step)]
    return [
        line,
        *([(f"{row.below}   ", "rail"), (text, "warn" if may else "failed")] for text in why),
    ]


def _until(step: StepStatus) -> datetime | None:
    return None if step.jobs.working or step.jobs.queued else step.jobs.finished_at


def took(start: datetime | None, end: datetime | None, now: datetime) -> str:
    """How long, after two blanks; empty where it has not begun."""
    if start is None:
        return ""
    return f"  {duration(max(0.0, ((end or now) - start).total_seconds()))}"


def bar_parts(step: StepStatus, width: int) -> list[tuple[str, int]]:
    """How many cells of a bar each kind of jobs gets; what there is is never drawn as nothing."""
    jobs = step.jobs
    counts = {
        "done": jobs.done,
        "failed": jobs.failed + jobs.cancelled,
        "working": jobs.working,
        "queued": jobs.queued,
    }
    total = max(step.total or 0, jobs.all)
    if not total:
        return [("done" if step.total == 0 else WAITING, width)]
    counts[WAITING] = total - jobs.all
    cells = {kind: max(1, number * width // total) for kind, number in counts.items() if number}
    while (over := sum(cells.values()) - width) and cells:
        largest = max(cells, key=lambda kind: (cells[kind], counts[kind]))
        if over > 0 and cells[largest] == 1:
            break  # a bar this short has no room for all kinds
        cells[largest] -= 1 if over > 0 else over
    return [(kind, cells[kind]) for kind in BAR_SIGNS if cells.get(kind)]


def jobs_told(step: StepStatus) -> list[tuple[str, str]]:
    """The jobs of a map in words, each with the state that it is about."""
    jobs = step.jobs
    of = "?" if step.total is None else f"{step.total:,}"
    told = [("done", f"{step.done:,} of {of}")]
    told += [("failed", f"{jobs.failed:,} failed")] if jobs.failed else []
    told += [("cancelled", f"{jobs.cancelled:,} cancelled")] if jobs.cancelled else []
    told += [("working", f"{jobs.working:,} working")] if jobs.working else []
    return [*told, *([("queued", f"{jobs.queued:,} queued")] if jobs.queued else [])]


def undo_told(plan: PlanRecord, step: StepStatus) -> str:
    """How far the way back of a step is; empty where there is none."""
    undo = step.undo or JobCounts()
    if undo.failed or undo.cancelled:
        return f"undo {'failed' if undo.failed else 'cancelled'}"
    if not undo.all and step.name not in plan.undo:
        return ""
    total = max(undo.all, step.done if step.is_mapped else 1)
    if undo.done == total:
        return "undone"
    if not undo.all:
        return "not undone" if plan.state in ENDED_PLAN else "to be undone"
    return f"undoing, {undo.done:,} of {total:,}" if total > 1 else "undoing"


def failures(plan: PlanRecord, step: StepStatus) -> Sequence[str]:
    """Why jobs of a step did not end well: what stopped the plan, else what failed last; and why
    its undo failed."""
    told: list[str] = []
    why = step.jobs.failure
    if plan.error is not None and plan.error.step == step.name:
        why = plan.error
    if why is not None:
        told.append(_failure(why))
    if step.undo is not None and step.undo.failure is not None:
        told.append(f"undo: {_failure(step.undo.failure)}")
    return told


def _failure(error: PlanError) -> str:
    what = f"{error.type}: {error.message}" if error.type else error.message
    item = "" if error.item is None else f"item {error.item:,}"
    where = " ".join([*([item] if item else []), *([f"#{error.seq}"] if error.seq else [])])
    return f"{where}: {what}" if where else what
