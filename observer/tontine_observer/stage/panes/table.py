"""A list with columns, a cursor, a filter and an order: what all of them have in common. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...draw.columns import Column, Place, arrange, heading, needs, row
from ...draw.line import Line, Span, fit, on
from ...query.filters import Facts
from ...query.sifting import Sieve
from ...query.sorting import Order, ordered, place_of
from ..layout import CHANGES, FAILURES, JOBS, MODULES, Box
from .frame import enclose, inside, thumb
from .scene import Scene
from .searched import progress, told
from .view import FOLLOWING, KINDS, TITLES, ListView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """One kind of list."""

    pane: str
    columns: tuple[Column, ...]
    source: Callable[[Scene], Sequence[T]]
    key: Callable[[T], str]
    facts: Callable[[T, Scene], Facts]
    cells: Callable[[T, Scene, dict[str, int]], dict[str, Span | Line]]
    """A row's cells; gets the widths of the columns."""
    empty: Callable[[Scene], str]
    fields: frozenset[str]
    """What filters may ask for."""
    has_heading: bool = True
    is_found: Callable[[T, Scene], bool] | None = None
    """Whether a row meets the filter by the word of the store."""
    is_over: Callable[[T], bool] | None = None
    """Whether a row has ended, and is listed after those that have not."""

    @property
    def sortable(self) -> list[str]:
        return [
            column.key or column.name
            for column in self.columns
            if (column.key or column.name) in self.fields
        ]

    def sieve(self, scene: Scene) -> Sieve[T]:
        """Finds the rows that the filter keeps."""
        chosen, found = scene.view.lists[self.pane].chosen, self.is_found

        def keeps(row: T) -> bool:
            return chosen.matches(self.facts(row, scene)) or (
                found is not None and found(row, scene)
            )

        return Sieve(self.source(scene), keeps)

    def ordered(self, rows: list[T], scene: Scene) -> list[T]:
        order = scene.view.lists[self.pane].order
        return ordered(rows, lambda one: self.facts(one, scene), order)


def settle(view: ListView, keys: Sequence[str], height: int) -> None:
    """Keep the cursor on its row wherever that went, at the same place of the screen, and inside
    the list."""
    if not keys:
        view.place = view.top = 0
        return
    before = view.place - view.top
    if view.chosen.text != view.settled:
        _choose_anew(view, keys)
    view.place = place_of(keys, view.key, view.place) if view.key else 0
    if view.key and view.key != keys[view.place]:
        view.key = keys[view.place]
    view.top = view.place - max(0, min(before, height - 1))
    view.top = max(0, min(view.top, len(keys) - height))


def _stay(table: Table[T], view: ListView, rows: Sequence[T]) -> None:
    """A row that ends goes down to the others that did; the cursor stays among those that go on,
    where it was."""
    if table.is_over is None or not rows or not view.key or view.key != view.living:
        return
    keys = Keys(rows, table.key)
    here = place_of(keys, view.key, view.place)
    living = [number for number, row in enumerate(rows) if not table.is_over(row)]
    if living and keys[here] == view.key and table.is_over(rows[here]):
        view.place = min(living, key=lambda number: abs(number - view.place))
        view.key = keys[view.place]


def _choose_anew(view: ListView, keys: Sequence[str]) -> None:
    """Under another filter: to the first row where the cursor's own is hidden, and back to it when
    it is there again."""
    view.settled = view.chosen.text
    view.newest, view.newer = keys[0], 0
    wanted = view.key or view.lost
    if wanted and keys[place_of(keys, wanted, view.place)] == wanted:
        view.key, view.lost = wanted, ""
    elif wanted:
        view.key, view.lost, view.place = "", wanted, 0


def move(view: ListView, keys: Sequence[str], by: int) -> None:
    """Move the cursor; at the very first row it follows the first row again."""
    if not keys:
        return
    shift = view.place - view.top
    if not view.key:
        view.newest, view.newer = keys[0], 0
    view.place = max(0, min(len(keys) - 1, view.place + by))
    view.key = keys[view.place] if view.place else ""
    view.lost = ""
    view.top = max(0, view.place - max(0, shift + by)) if by else view.top


def newer(view: ListView, keys: Sequence[str]) -> int:
    """How many rows have come since the cursor stopped following the first one."""
    if not view.key or not keys or view.order != Order():
        return 0
    view.newer = place_of(keys, view.newest, view.newer)
    view.newest = keys[view.newer]
    return view.newer


def draw(table: Table[T], scene: Scene, rows: Sequence[T], box: Box) -> list[Line]:
    """The visible part of a list in its box."""
    view = scene.view.lists[table.pane]
    is_focused = scene.view.focus == table.pane
    width, height = inside(box)
    head = 1 if table.has_heading and height > 2 else 0
    room = max(0, height - head)
    _stay(table, view, rows)
    settle(view, Keys(rows, table.key), room)
    if table.is_over is not None and rows:
        view.living = "" if table.is_over(rows[view.place]) else view.key
    visible = [rows[number] for number in range(view.top, min(len(rows), view.top + room))]
    places, drawn = _laid_out(table, scene, visible, width - 2)
    lines: list[Line] = []
    if head:
        marks = "^v" if scene.look.is_ascii else "▲▼"
        lines.append(
            [(" ", "text"), *heading(places, view.order.fact, view.order.is_reversed, marks)]
        )
    for number, cells in enumerate(drawn, view.top):
        is_here = number == view.place and is_focused
        cursor = scene.glyphs.cursor if number == view.place and (is_focused or view.key) else " "
        line = fit([(cursor, "key"), *row(places, cells)], width)
        lines.append(on(line, "cursor") if is_here else line)
    if not rows:
        lines.append([("  " + table.empty(scene), "muted")])
    return enclose(
        lines,
        box,
        scene.glyphs,
        title(table, scene, rows),
        is_focused=is_focused,
        thumb=_shifted(thumb(len(rows), view.top, room), head),
    )


def _laid_out(
    table: Table[T], scene: Scene, visible: Sequence[T], width: int
) -> tuple[list[Place], list[dict[str, Span | Line]]]:
    """The columns and the cells in them; wider than usual where a number needs it."""
    places = arrange(table.columns, width)
    widths = {place.column.name: place.width for place in places}
    drawn = [table.cells(one, scene, widths) for one in visible]
    needed = needs(table.columns, drawn)
    if any(needed.get(name, 0) > wide for name, wide in widths.items()):
        places = arrange(table.columns, width, needed)
        widths = {place.column.name: place.width for place in places}
        drawn = [table.cells(one, scene, widths) for one in visible]
    return places, drawn


def _shifted(rows: range, by: int) -> range:
    return range(rows.start + by, rows.stop + by) if rows else rows


def title(table: Table[T], scene: Scene, rows: Sequence[T]) -> list[Span]:
    """The pane's name, how much of it is shown, and the filter that hides the rest."""
    view = scene.view.lists[table.pane]
    role = "title.focus" if scene.view.focus == table.pane else "title"
    spans: list[Span] = [(TITLES[table.pane], role)]
    shown, total = len(rows), len(table.source(scene))
    search = progress(scene) if table.pane == JOBS else None
    count = f"{shown:,} of {total:,}" if shown != total else f"{total:,}"
    spans.append((f" {told(search, shown) if search else count}", "muted"))
    if table.pane == FAILURES and scene.ledger.failures_note:
        spans.append((f"  {scene.ledger.failures_note}", "muted"))
    if table.pane == MODULES and (problem := scene.ledger.problems.get(MODULES)):
        spans.append((f"  what jobs wait for cannot be read: {problem}", "warn"))
    if table.pane == CHANGES and scene.view.kinds:
        spans.append((f"  {KINDS[scene.view.kinds][0]}", "info"))
    if new := newer(view, Keys(rows, table.key)) if table.pane in FOLLOWING else 0:
        spans.append((f"  {scene.glyphs.up} {new:,} newer", "info"))
    if view.chosen.text:
        spans += [("  ", "text"), (view.chosen.text, "match" if not view.chosen.problem else "bad")]
    return spans


class Keys(Sequence[str]):
    """The keys of rows, made when they are asked for: a list of thousands is not keyed for a screen
    of twenty."""

    def __init__(self, rows: Sequence[T], key: Callable[[T], str]) -> None:
        self._rows = rows
        self._key: Callable[[T], str] = key

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> str:  # type: ignore[override]
        return self._key(self._rows[place])
