"""What changed: nodes, epochs, errors and requests, newest first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...draw.columns import Column
from ...draw.line import Line, Span
from ...draw.words import moment
from ...query.filters import Facts
from ...records.change import Change, ChangeKind
from ..layout import CHANGES
from .scene import Scene
from .table import Table

COLUMNS = (
    Column("time", "TIME", 8, 99),
    Column("subject", "WHO", 8, 90, most=16),
    Column("text", "WHAT", 20, 95, most=300),
)
FIELDS = frozenset({"kind", "node", "text"})
ROLES = {
    ChangeKind.NODE: "text",
    ChangeKind.EPOCH: "epoch",
    ChangeKind.ERROR: "warn",
    ChangeKind.REQUEST: "info",
    ChangeKind.JOB: "muted",
    ChangeKind.GAP: "warn",
    ChangeKind.NOTE: "time",
}
_STATES = ("dead", "paused", "working", "waiting", "initializing")


def facts(change: Change, _: Scene) -> Facts:
    return {"kind": change.kind.value, "node": change.subject, "text": change.text}


def cells(change: Change, scene: Scene, _: dict[str, int]) -> dict[str, Span | Line]:
    times = f"{change.times:,} times, last {change.last}: " if change.times > 1 else ""
    return {
        "time": (moment(change.at, scene.zone), "muted"),
        "subject": (
            change.subject,
            "strong" if change.kind is ChangeKind.NODE else ROLES[change.kind],
        ),
        "text": [(times, "muted"), *_tinted(change, scene)],
    }


def _tinted(change: Change, scene: Scene) -> Line:
    """A node's move in the hues of its states; other changes in their own."""
    text = change.text.replace("→", scene.glyphs.arrow)
    if change.kind is not ChangeKind.NODE:
        return [(text, "text" if change.kind is ChangeKind.EPOCH else ROLES[change.kind])]
    line: Line = []
    for word in _pieces(text):
        line.append((word, f"node.{word}" if word in _STATES else "muted"))
    return line


def _pieces(text: str) -> list[str]:
    """The words, and the blanks between them as they are."""
    pieces, word = [], ""
    for character in text:
        if word and (character == " ") != (word[-1] == " "):
            pieces.append(word)
            word = ""
        word += character
    return [*pieces, word] if word else pieces


def newest_first(scene: Scene) -> Sequence[Change]:
    return scene.changes[::-1]


def change_key(change: Change) -> str:
    return f"{change.at.timestamp():.6f} {change.kind} {change.subject} {change.text}"


def _empty(scene: Scene) -> str:
    return (
        "nothing matches (esc clears the filter, f chooses the kinds)"
        if _is_chosen(scene)
        else "nothing changed yet"
    )


def _is_chosen(scene: Scene) -> bool:
    return bool(scene.view.lists[CHANGES].chosen) or bool(scene.view.kinds)


TABLE: Table[Change] = Table(
    CHANGES, COLUMNS, newest_first, change_key, facts, cells, _empty, FIELDS, has_heading=False
)
