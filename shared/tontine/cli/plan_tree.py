"""A plan drawn as lines for a terminal, its steps on rails, and as a graph for Graphviz."""

from __future__ import annotations

import json
from datetime import datetime

from rich.text import Text

from ..legible import legible
from ..records.plan import CLOSING_STEP, PlanRecord
from ..records.plan_status import WAITING, PlanStatus, StepStatus
from ..records.states import JobState, PlanState
from ..rules.plan_rails import next_steps
from ..rules.plan_shown import (
    PLAN_LOOKS,
    Piece,
    drawn_steps,
    jobs_told,
    state_word,
    took,
    undo_told,
)
from .output import JOB_LOOKS

_STYLES = {
    "strong": "bold",
    "muted": "dim",
    "rail": "dim",
    "warn": "yellow",
    WAITING: "bright_black",
    **{str(state): colour for state, (_, colour) in JOB_LOOKS.items()},
}


def plan_state(state: str | None) -> Text:
    """A plan's state: its sign, its word, its colour."""
    known = None if state is None else PlanState(state)
    sign, role = PLAN_LOOKS[known]
    return Text(f"{sign} {state_word(known)}", style=_STYLES[role])


def tree(
    plan: PlanRecord, status: PlanStatus, now: datetime, room: int | None = None
) -> list[Text]:
    """A line for the plan, one for each of its steps, and the errors under these. Of more than
    there is room for, those around the first that has not ended."""
    head = _head(plan, status, now)
    drawn = drawn_steps(plan, status, now, legible)
    blocks = [[_text(line) for line in one.lines] for one in drawn]
    if room is not None and sum(map(len, blocks)) + len(head) > room:
        first = next((place for place, one in enumerate(drawn) if _is_ahead(one.step)), 0)
        blocks = _around(blocks, first, room - len(head))
    return [*head, *(line for block in blocks for line in block)]


def _text(pieces: list[Piece]) -> Text:
    drawn = ((text, _STYLES.get(role, "")) for text, role in pieces)
    return Text.assemble(*drawn, no_wrap=True, overflow="ellipsis")


def _head(plan: PlanRecord, status: PlanStatus, now: datetime) -> list[Text]:
    sign, role = PLAN_LOOKS[plan.state]
    name = f"  {legible(plan.name, 80)}" if plan.name else ""
    tries = f"  try {status.tries + 1}" if status.tries else ""
    time = took(status.created_at, status.finished_at, now)
    head: list[Piece] = [
        (sign, role),
        (" plan" if plan.seq is None else f" plan {plan.seq}", "strong"),
        (f"{name}  ", "text"),
        (state_word(plan.state), role),
        (f"  {status.progress:.0%}{time}{tries}", "text"),
    ]
    error = plan.error
    if error is None or error.step in status.steps:  # that is told under its step
        return [_text(head)]
    return [_text(head), _text([(f"  {legible(str(error), 300)}", "failed")])]


def _is_ahead(step: StepStatus) -> bool:
    return step.state in (WAITING, JobState.QUEUED, JobState.WORKING)


def _around(blocks: list[list[Text]], first: int, room: int) -> list[list[Text]]:
    """The blocks from the one before the first on, as many as there is room for."""
    room = max(1, room - 2)  # how many are above and below is told
    top = max(0, min(first - 1, len(blocks) - room))
    shown, used, end = list[list[Text]](), 0, top
    while end < len(blocks) and (used + len(blocks[end]) <= room or not shown):
        shown.append(blocks[end])
        used += len(blocks[end])
        end += 1
    above = [[Text(f"  ... {top} above", style="dim")]] if top else []
    below = [[Text(f"  ... {len(blocks) - end} below", style="dim")]] if end < len(blocks) else []
    return [*above, *shown, *below]


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
    title = f"plan {plan.seq}" + (f" {plan.name}" if plan.name else "")
    lines = [f"digraph {_quoted(title)} {{", "  rankdir=LR; node [shape=box, style=filled];"]
    for name, step in status.steps.items():
        lines.append(f"  {_quoted(name)} {_box(plan, name, step)};")
    following = next_steps(plan.steps)
    for name, ahead in following.items():
        lines += [f"  {_quoted(name)} -> {_quoted(later)};" for later in ahead]
    if status.closing is not None:
        closing = _quoted(CLOSING_STEP)  # a step may be called finally
        lines.append(f"  {closing} {_box(plan, 'finally', status.closing)};")
        last = [name for name, ahead in following.items() if not ahead]
        lines += [f"  {_quoted(name)} -> {closing} [style=dashed];" for name in last]
    return "\n".join([*lines, "}"])


def _box(plan: PlanRecord, name: str, step: StepStatus) -> str:
    told = [name, ", ".join(text for _, text in jobs_told(step)) if step.is_mapped else step.state]
    told += [undo] if (undo := undo_told(plan, step)) else []
    return f"[label={_quoted(chr(10).join(told))}, fillcolor={_DOT_COLOURS[step.state]}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
