"""The plans: how far each is, for how long, and what stopped it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tontine.records.states import PlanState
from tontine.rules.plan_shown import PLAN_LOOKS, Piece, state_word

from ...draw.columns import Column
from ...draw.line import Line, Span
from ...draw.words import age
from ...query.filters import Facts
from ...records.plan import PlanRow
from ..layout import PLANS
from .jobs import meter
from .scene import Scene
from .table import Table

COLUMNS = (
    Column("seq", "SEQ", 7, 99, is_right=True, is_whole=True),
    Column("state", "STATE", 11, 98, most=14),
    Column("plan", "PLAN", 10, 90, most=30),
    Column("steps", "STEPS", 7, 95, is_right=True, is_whole=True),
    Column("progress", "DONE", 11, 80, most=26),
    Column("age", "AGE", 5, 85, is_right=True),
    Column("took", "TOOK", 5, 50, is_right=True),
    Column("error", "ERROR", 14, 70, most=200),
)
FIELDS = frozenset({"seq", "state", "plan", "key", "steps", "progress", "age", "took", "error"})
LOOKS = {state_word(state): look for state, look in PLAN_LOOKS.items()}
"""By the words for states."""
_ROLES = {"waiting": "faint", "rail": "rule"}
_PLAIN = ("text", "strong", "muted", "warn")


def facts(row: PlanRow, scene: Scene) -> Facts:
    return {
        "seq": row.seq,
        "state": row.state,
        "plan": row.name,
        "key": row.key,
        "steps": row.steps,
        "progress": row.progress,
        "age": _age(row, scene),
        "took": took(row, scene.seconds),
        "error": row.error,
    }


def _age(row: PlanRow, scene: Scene) -> float | None:
    return None if row.created_at is None else scene.seconds - row.created_at


def took(row: PlanRow, now: float) -> float | None:
    """How long it has taken, or did."""
    return None if row.created_at is None else (row.finished_at or now) - row.created_at


def role_of(role: str) -> str:
    """The role of a piece of a drawn plan on this screen."""
    return role if role in _PLAIN else _ROLES.get(role, f"job.{role}")


def line_of(pieces: Sequence[Piece]) -> Line:
    return [(text, role_of(role)) for text, role in pieces]


def plan_state(state: str) -> Span:
    """A state as people see it; what is not known is shown as it is."""
    sign, role = LOOKS.get(state, ("?", ""))
    return f"{sign} {state}", role_of(role) if role else "bad"


def cells(row: PlanRow, scene: Scene, widths: dict[str, int]) -> dict[str, Span | Line]:
    tries = f" try {row.tries + 1}" if row.tries else ""
    return {
        "seq": (row.title, "strong" if row.seq is not None else "faint"),
        "state": plan_state(row.state),
        "plan": [(row.name or "-", "text" if row.name else "faint"), (tries, "muted")],
        "steps": ("-" if row.steps is None else f"{row.done:,}/{row.steps:,}", "text"),
        "progress": _progress(row, scene, widths.get("progress", 0)),
        "age": (age(_age(row, scene)), "muted"),
        "took": (age(took(row, scene.seconds)), "muted"),
        "error": (row.error, "job.failed" if row.state in _STOPPED else "warn"),
    }


_STOPPED = (PlanState.FAILED.value, PlanState.STUCK.value)


def _progress(row: PlanRow, scene: Scene, width: int) -> Line:
    return meter(row.progress, "", scene, max(3, width - 6)) if row.steps else [("-", "faint")]


def source(scene: Scene) -> Sequence[PlanRow]:
    return scene.ledger.plans or ()


def key_of(row: PlanRow) -> str:
    return row.title if row.seq is not None else repr(row.id)


def _empty(scene: Scene) -> str:
    if problem := scene.ledger.problems.get(PLANS):
        return problem
    if scene.ledger.plans is None:
        return scene.unread
    if scene.view.lists[PLANS].chosen:
        return "no plan matches the filter (esc clears it)"
    return "no plan yet: `tontine submit --plan FILE` adds one"


TABLE: Table[PlanRow] = Table(PLANS, COLUMNS, source, key_of, facts, cells, _empty, FIELDS)
