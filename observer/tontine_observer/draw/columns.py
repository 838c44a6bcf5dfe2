"""Columns of a table: which of them fit, how wide each is, and a row's cells set into them.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .line import Line, Span, clip, cut, length, size

GAP = 2
WHOLE = 24
"""As wide as a column can become by what is in it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `keep` orders which stay when there is no room for all: the lowest goes first."""

    name: str
    title: str
    width: int
    keep: int
    is_right: bool = False
    most: int = 0
    """How wide it may grow where there is room; 0: no wider than `width`."""
    key: str = ""
    """The fact that sorts it, where that is not its name."""
    is_whole: bool = False
    """Half of it would say something else: numbers, states. It is as wide as what is in it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A column that is shown, and how wide."""

    column: Column
    width: int


def arrange(
    columns: Sequence[Column], width: int, needed: Mapping[str, int] | None = None
) -> list[Place]:
    """The columns that fit into `width` cells, the least important left out, and what is left given
    to the growing. `needed` is how wide they must be for what is in them."""
    needs = {
        column.name: max(column.width, min(WHOLE, (needed or {}).get(column.name, 0)))
        for column in columns
    }
    shown = list(columns)
    while len(shown) > 1 and _total([needs[column.name] for column in shown]) > width:
        shown.remove(min(shown, key=lambda column: column.keep))
    widths = {column.name: min(needs[column.name], width) for column in shown}
    spare = width - _total(list(widths.values()))
    for column in sorted(
        (column for column in shown if column.most), key=lambda column: -column.keep
    ):
        grown = min(spare, max(0, column.most - widths[column.name]))
        widths[column.name] += grown
        spare -= grown
    return [Place(column, widths[column.name]) for column in shown]


def needs(columns: Sequence[Column], rows: Iterable[Mapping[str, Span | Line]]) -> dict[str, int]:
    """How wide columns must be whose cells are not to be cut."""
    whole = [column.name for column in columns if column.is_whole or column.is_right]
    found = dict.fromkeys(whole, 0)
    for cells in rows:
        for name in whole:
            if name in cells:
                found[name] = max(found[name], _size(cells[name]))
    return found


def _size(cell: Span | Line) -> int:
    return length(cell) if isinstance(cell, list) else size(cell[0])


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * max(0, len(widths) - 1)


def heading(places: Sequence[Place], sort: str, is_reversed: bool, marks: str = "▲▼") -> Line:
    """The columns' titles; the one that sorts says so."""
    line: Line = []
    for number, place in enumerate(places):
        is_sorting = sort == (place.column.key or place.column.name)
        title = place.column.title + (marks[is_reversed] if is_sorting and sort else "")
        line.extend(_cell((title, "head.sort" if is_sorting else "head"), place, number))
    return line


def row(places: Sequence[Place], cells: Mapping[str, Span | Line]) -> Line:
    """A row's cells under their titles."""
    line: Line = []
    for number, place in enumerate(places):
        line.extend(_cell(cells.get(place.column.name, ("", "text")), place, number))
    return line


def _cell(span: Span | Line, place: Place, number: int) -> Line:
    if isinstance(span, list):
        return [(" " * GAP if number else "", "text"), *clip(span, place.width)]
    text = cut(span[0], place.width)
    blank = " " * (place.width - size(text))
    gap = " " * GAP if number else ""
    return (
        [(gap + blank + text, span[1])]
        if place.column.is_right
        else [(gap, "text"), (text + blank, span[1])]
    )
