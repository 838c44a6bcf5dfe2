"""The shares: which member owns which numbers, what waits in each, one cell for every job. Pure."""

from __future__ import annotations

from ...draw.columns import Column
from ...draw.line import Line, Span, size
from ...draw.words import age, short
from ...query.filters import Facts
from ...records.share import ShareRow
from ..layout import SHARES
from .alert import speaks_of
from .scene import Scene
from .states import CELL_ROLES, node_state, runs
from .table import Table

COLUMNS = (
    Column("rank", "RANK", 4, 99, is_right=True),
    Column("owner", "OWNER", 10, 98, most=18),
    Column("oldest", "OLDEST", 6, 60, is_right=True),
    Column("waiting", "QUEUED", 6, 70, is_right=True),
    Column("cells", "JOBS, oldest first", 12, 80, most=500),
)
FIELDS = frozenset({"rank", "node", "owner", "state", "oldest", "waiting", "note"})


def facts(share: ShareRow, _: Scene) -> Facts:
    return {
        "rank": float(share.rank),
        "node": share.name,
        "owner": share.name,
        "state": share.state,
        "oldest": share.oldest_age,
        "waiting": float(share.waiting),
        "note": share.note,
    }


def cells(share: ShareRow, scene: Scene, widths: dict[str, int]) -> dict[str, Span | Line]:
    glyph, role = node_state(share.state, scene.glyphs)
    calm = "text" if share.waiting else "faint"
    if share.is_stalled:
        calm = "bad" if speaks_of(scene, "stalled-share") else "warn"
    waiting = short(share.waiting) + ("+" if share.is_partial else "")
    return {
        "rank": (str(share.rank), "strong"),
        "owner": [
            (f"{glyph[0]} ", role),
            (share.name, role if share.state in ("dead", "missing") else "text"),
        ],
        "oldest": (age(share.oldest_age), calm),
        "waiting": (waiting, calm),
        "cells": _cells(share, scene, widths.get("cells", 0)),
    }


def _cells(share: ShareRow, scene: Scene, width: int) -> Line:
    """The cells, with the note where there is room for it: the note says what the eye must not
    miss."""
    note = f"  {share.note}" if share.note else ""
    room = max(min(6, width), width - size(note))
    codes = share.cells if len(share.cells) <= room else share.cells[: room - 1]
    line: Line = runs(codes, scene.glyphs.cell, CELL_ROLES)
    if len(codes) < len(share.cells):
        line.append((scene.glyphs.more, "muted"))
    if note:
        line.append(
            (note, "bad" if speaks_of(scene, "stalled-share") and share.is_stalled else "warn")
        )
    return line


def _empty(scene: Scene) -> str:
    if scene.view.lists[SHARES].chosen:
        return "no share matches the filter (esc clears it)"
    return "the roster has no member: nobody owns a share"


TABLE: Table[ShareRow] = Table(
    SHARES,
    COLUMNS,
    lambda scene: scene.picture.shares,
    lambda share: str(share.rank),
    facts,
    cells,
    _empty,
    FIELDS,
)
