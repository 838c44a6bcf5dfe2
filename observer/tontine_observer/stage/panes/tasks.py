"""The tasks: what of each waits, how fast it goes and how often it fails, and who has it. Pure."""

from __future__ import annotations

from ...draw.columns import Column
from ...draw.line import Line, Span
from ...draw.words import age, amount, rate
from ...query.filters import Facts
from ...records.ledger import TaskRow
from ..layout import TASKS
from .scene import Scene
from .table import Table

COLUMNS = (
    Column("task", "TASK", 14, 99, most=30),
    Column("queued", "QUEUED", 7, 98, is_right=True),
    Column("working", "WORK", 4, 80, is_right=True),
    Column("rate", "RATE/s", 6, 90, is_right=True),
    Column("failing", "FAIL", 4, 95, is_right=True),
    Column("wait", "WAIT p50/95", 11, 70, is_right=True),
    Column("run", "RUN p50/95", 11, 75, is_right=True),
    Column("nodes", "NODES", 5, 60, is_right=True),
    Column("version", "VERSIONS", 8, 40, most=24),
)
FIELDS = frozenset({"task", "queued", "working", "rate", "failing", "wait", "run", "nodes"})


def facts(row: TaskRow, _: Scene) -> Facts:
    return {
        "task": row.name,
        "queued": row.queued,
        "working": row.working,
        "rate": row.rate,
        "failing": row.failing,
        "wait": row.wait_p95,
        "run": row.run_p95,
        "nodes": len(row.nodes),
    }


def cells(row: TaskRow, _: Scene, __: dict[str, int]) -> dict[str, Span | Line]:
    is_lost = bool(row.queued) and not row.nodes
    queued = "-" if row.queued is None else amount(row.queued) + ("+" if row.is_partial else "")
    return {
        "task": (row.name, "warn" if is_lost else "strong"),
        "queued": (queued, "text" if row.queued else "faint"),
        "working": (amount(row.working), "good" if row.working else "faint"),
        "rate": (rate(row.rate), "text" if row.rate else "faint"),
        "failing": _share(row.failing),
        "wait": (_two(row.wait_p50, row.wait_p95), "muted"),
        "run": (_two(row.run_p50, row.run_p95), "text"),
        "nodes": (str(len(row.nodes)) if row.nodes else "none", "warn" if is_lost else "muted"),
        "version": (", ".join(row.versions) or "-", "warn" if len(row.versions) > 1 else "muted"),
    }


def _share(part: float | None) -> Span:
    if part is None:
        return "-", "faint"
    return f"{part:.0%}", "warn" if part else "faint"


def _two(first: float | None, second: float | None) -> str:
    return "-" if first is None else f"{age(first)}/{age(second)}"


def _empty(scene: Scene) -> str:
    if scene.view.lists[TASKS].chosen:
        return "no task matches the filter (esc clears it)"
    return "no node has a task, and no job is there"


TABLE: Table[TaskRow] = Table(
    TASKS, COLUMNS, lambda scene: scene.tasks, lambda row: row.name, facts, cells, _empty, FIELDS
)
