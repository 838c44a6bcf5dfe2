"""The failures by their kind: how often, since when, until when, what is tried again. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...draw.columns import Column
from ...draw.line import Line, Span
from ...draw.plot import spark
from ...draw.words import age, amount
from ...query.filters import Facts
from ...records.ledger import FailureRow
from ..layout import FAILURES
from .scene import Scene
from .table import Table

COLUMNS = (
    Column("count", "FAILED", 6, 99, is_right=True),
    Column("again", "AGAIN", 5, 50, is_right=True),
    Column("task", "TASK", 11, 97, most=24),
    Column("error", "ERROR", 28, 98, most=76),
    Column("first", "FIRST", 5, 60, is_right=True),
    Column("last", "LAST", 5, 90, is_right=True),
    Column("curve", "WHEN", 12, 40, most=24),
)
FIELDS = frozenset({"count", "again", "task", "error", "first", "last"})


def facts(row: FailureRow, scene: Scene) -> Facts:
    return {
        "count": row.count,
        "again": len(row.again),
        "task": row.task,
        "error": f"{row.kind}: {row.message}",
        "first": _since(row.first, scene),
        "last": _since(row.last, scene),
    }


def cells(row: FailureRow, scene: Scene, widths: dict[str, int]) -> dict[str, Span | Line]:
    curve = row.curve[-widths.get("curve", 0) :] if widths.get("curve") else ()
    return {
        "count": (amount(row.count), "strong" if row.count else "faint"),
        "again": (amount(len(row.again)) if row.again else "-", "warn" if row.again else "faint"),
        "task": (row.task, "text"),
        "error": [(row.kind, "job.failed"), (f": {row.message}" if row.message else "", "text")],
        "first": (age(_since(row.first, scene)), "muted"),
        "last": (age(_since(row.last, scene)), "text"),
        "curve": (spark(curve, len(curve), scene.glyphs, _top(scene)), "spark"),
    }


def _since(at: float | None, scene: Scene) -> float | None:
    return None if at is None else scene.seconds - at


def _top(scene: Scene) -> float:
    """All rows to one scale."""
    rows = source(scene)
    return max((value for row in rows for value in row.curve), default=0.0)


def source(scene: Scene) -> Sequence[FailureRow]:
    return scene.ledger.failures or ()


def _empty(scene: Scene) -> str:
    if problem := scene.ledger.problems.get(FAILURES):
        return problem
    if scene.ledger.failures is None:
        return scene.unread
    if scene.view.lists[FAILURES].chosen:
        return "no failure matches the filter (esc clears it)"
    return "no job has failed in the last day"


TABLE: Table[FailureRow] = Table(
    FAILURES, COLUMNS, source, lambda row: row.key, facts, cells, _empty, FIELDS
)
