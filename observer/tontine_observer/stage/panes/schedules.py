"""The schedules: when they are due next, how they went last, and which of them are off. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tontine.legible import ago

from ...draw.columns import Column
from ...draw.line import Line, Span
from ...query.filters import Facts
from ...records.ledger import ScheduleRow
from ..layout import SCHEDULES
from .scene import Scene
from .states import job_state
from .table import Table

COLUMNS = (
    Column("schedule", "SCHEDULE", 12, 99, most=30),
    Column("next", "NEXT", 10, 98, is_whole=True),
    Column("last", "LAST", 20, 90, most=34),
    Column("when", "WHEN", 12, 80, most=24),
    Column("task", "TASK", 12, 85, most=24),
    Column("note", "NOTE", 8, 40, most=200),
)
FIELDS = frozenset({"schedule", "task", "when", "state", "note"})


def facts(row: ScheduleRow, _: Scene) -> Facts:
    return {
        "schedule": row.name,
        "task": row.task,
        "when": row.when,
        "state": row.last_state,
        "note": row.note,
    }


def cells(row: ScheduleRow, scene: Scene, _: dict[str, int]) -> dict[str, Span | Line]:
    return {
        "schedule": (row.name, "strong" if row.is_usable else "warn"),
        "next": _next(row, scene),
        "last": _last(row, scene),
        "when": (row.when, "muted"),
        "task": (row.task, "text"),
        "note": (row.note, "warn"),
    }


def _next(row: ScheduleRow, scene: Scene) -> Span:
    if not row.is_usable:
        return "never", "warn"
    if row.is_off:
        return "off", "warn"
    return ago(row.next_at, scene.picture.at), "text"


def _last(row: ScheduleRow, scene: Scene) -> Span | Line:
    if not row.last_state:
        return "-", "faint"
    state, role = job_state(row.last_state, scene.glyphs)
    return [(state, role), (f" {ago(row.last_at, scene.picture.at)}", "muted")]


def source(scene: Scene) -> Sequence[ScheduleRow]:
    return scene.ledger.schedules or ()


def _empty(scene: Scene) -> str:
    if problem := scene.ledger.problems.get(SCHEDULES):
        return problem
    if scene.ledger.schedules is None:
        return scene.unread
    if scene.view.lists[SCHEDULES].chosen:
        return "no schedule matches the filter (esc clears it)"
    return "no schedule yet: `tontine schedule add` makes one"


TABLE: Table[ScheduleRow] = Table(
    SCHEDULES, COLUMNS, source, lambda row: row.name, facts, cells, _empty, FIELDS
)
