"""The modules: which versions which nodes have, and which versions jobs wait for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...draw.columns import Column
from ...draw.line import Line, Span
from ...draw.words import amount
from ...query.filters import Facts
from ...records.ledger import VersionRow
from ..layout import MODULES
from .scene import Scene
from .states import loaded_state
from .table import Table

COLUMNS = (
    Column("module", "MODULE", 10, 99, most=14),
    Column("version", "VERSION", 9, 98, most=12),
    Column("state", "STATE", 10, 97, most=20),
    Column("count", "NODES", 5, 95, is_right=True),
    Column("queued", "WAIT", 6, 94, is_right=True),
    Column("digest", "DIGEST", 8, 80, most=12),
    Column("tasks", "TASKS", 5, 50, is_right=True),
    Column("nodes", "ON", 10, 60, most=18),
    Column("note", "NOTE", 12, 90, most=200),
)
FIELDS = frozenset(
    {"module", "version", "state", "count", "queued", "digest", "task", "node", "note"}
)
DIGEST_SHOWN = 12


def facts(row: VersionRow, _: Scene) -> Facts:
    return {
        "module": row.module,
        "version": row.version,
        "state": row.state,
        "count": len(row.nodes),
        "queued": row.wanted.jobs if row.wanted else None,
        "digest": " ".join(row.digests),
        "task": " ".join(row.tasks),
        "node": " ".join(row.nodes),
        "note": row.note,
    }


def cells(row: VersionRow, scene: Scene, _: dict[str, int]) -> dict[str, Span | Line]:
    is_wanted = row.wanted is not None
    return {
        "module": (row.module, "strong"),
        "version": (row.version, "warn" if is_wanted else "text"),
        "state": _state(row, scene),
        "count": (str(len(row.nodes)) if row.nodes else "none", "warn" if is_wanted else "text"),
        "queued": _queued(row),
        "digest": _digest(row),
        "tasks": (str(len(row.tasks)), "muted"),
        "nodes": (", ".join(row.nodes) or "-", "muted"),
        "note": (row.note, "warn"),
    }


def _state(row: VersionRow, scene: Scene) -> Line:
    others = f", {', '.join(row.others)}" if row.others else ""
    return [loaded_state(row.state, scene.glyphs), (others, "muted")]


def _queued(row: VersionRow) -> Span:
    if row.wanted is None:
        return "-", "faint"
    return amount(row.wanted.jobs) + ("+" if row.wanted.is_partial else ""), "warn"


def _digest(row: VersionRow) -> Span:
    if len(row.digests) > 1:
        return f"{len(row.digests)} differ", "warn"
    return (row.digests[0][:DIGEST_SHOWN], "muted") if row.digests else ("-", "faint")


def source(scene: Scene) -> Sequence[VersionRow]:
    return scene.modules


def _empty(scene: Scene) -> str:
    if scene.view.lists[MODULES].chosen:
        return "no module matches the filter (esc clears it)"
    return scene.ledger.problems.get(MODULES) or "no live node has a module"


TABLE: Table[VersionRow] = Table(
    MODULES, COLUMNS, source, lambda row: row.key, facts, cells, _empty, FIELDS
)
