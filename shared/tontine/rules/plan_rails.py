"""The order of a plan's steps as rails beside their rows, for whoever draws a plan in a terminal.
Pure.

Every step has one row, after those of all steps that it comes after. A rail leads down from a step
to those that come next; steps with the same ones next share one, at their right. What follows from
other rails is not drawn:

    ●       open
    ├─●─╮   fetch
    ╰─●─┤   look
    ●───╯   pack
    ●       mail
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..records.plan import StepRecord
from .plan_graph import PlanGraph

WIDEST = 12
"""Columns of rails: what is further to the right is not drawn."""


@dataclass(frozen=True, slots=True)
class RailRow:
    """One step, and what is drawn to the left and to the right of its own sign."""

    name: str
    left: str
    right: str
    below: str
    """What goes on beside a further line of this step."""


@dataclass(slots=True)
class _Rail:
    """Leads from one or more steps to others; it is there until the last of these has its row."""

    column: int
    targets: tuple[str, ...]
    ahead: set[str]
    is_shared: bool = False

    @property
    def is_branching(self) -> bool:
        return len(self.targets) > 1


def next_steps(steps: Mapping[str, StepRecord]) -> dict[str, list[str]]:
    """What comes next after each step, in an order in which they can run, without what follows from
    the rest: all that a step added comes before what comes after it."""
    graph = PlanGraph(steps)
    direct: dict[str, set[str]] = {}
    for name in steps:
        direct[name] = {*graph.after[name], *graph.children[name]}
        parent = steps[name].parent
        while parent in steps:
            direct[name].update(graph.after[str(parent)])
            parent = steps[str(parent)].parent
    names = _ordered(direct)
    places = {name: place for place, name in enumerate(names)}
    reached = [0] * len(names)  # bits, as there may be a thousand steps
    found: dict[str, list[str]] = {}
    for place in reversed(range(len(names))):
        ahead = sorted(places[one] for one in direct[names[place]] if places[one] > place)
        through = 0
        for one in ahead:
            through |= reached[one]
        reached[place] = through | sum(1 << one for one in ahead)
        found[names[place]] = [names[one] for one in ahead if not through >> one & 1]
    return {name: found[name] for name in names}


def _ordered(after: Mapping[str, Iterable[str]]) -> list[str]:
    """An order in which steps can run, one branch to its end before the next begins; what waits for
    itself, which no node accepts, comes last."""
    waits = dict.fromkeys(after, 0)
    for names in after.values():
        for name in names:
            waits[name] += 1
    given = {name: place for place, name in enumerate(after)}
    ready = [name for name in reversed(given) if not waits[name]]
    found: dict[str, None] = {}
    while ready:
        found[(name := ready.pop())] = None
        for later in sorted(after[name], key=given.__getitem__, reverse=True):
            waits[later] -= 1
            if not waits[later]:
                ready.append(later)
    return [*found, *(name for name in after if name not in found)]


def rails(steps: Mapping[str, StepRecord]) -> list[RailRow]:
    """The rows of all steps; where several can run first, a rail from above leads to these."""
    following = next_steps(steps)
    drawing = _Drawing(following)
    rows = [drawing.draw(name) for name in following]
    if rows:
        rows[0] = replace(rows[0], left=rows[0].left.replace("├", "╭"))  # nothing is above it
    width = max((len(row.left) + len(row.right) for row in rows), default=0)
    return [
        RailRow(
            row.name, row.left, row.right.ljust(width - len(row.left)), row.below.ljust(width + 1)
        )
        for row in rows
    ]


class _Drawing:
    """Which rails there are, row by row."""

    def __init__(self, following: Mapping[str, list[str]]) -> None:
        self._following = following
        self._sources = Counter(tuple(ahead) for ahead in following.values())
        """How many steps with the same ones next have yet to be drawn."""
        later = {one for ahead in following.values() for one in ahead}
        first = tuple(name for name in following if name not in later)
        self._rails = [_Rail(0, first, set(first))] if len(first) > 1 else []

    def draw(self, name: str) -> RailRow:
        coming = [rail for rail in self._rails if name in rail.ahead]
        for rail in coming:
            rail.ahead.discard(name)
        column = self._place(coming)
        cells = {rail.column: "│" for rail in self._rails}
        reach = [column, *(rail.column for rail in coming)]
        for rail in coming:
            cells[rail.column] = _joint(rail.column, column, reach, ends=not rail.ahead)
        self._rails = [rail for rail in self._rails if rail.ahead]
        bus = self._lead_on(name, column, may_share=max(reach) == column)
        if bus is not None:
            cells[bus.column] = "┤" if bus.column in cells else "╮"
            reach.append(bus.column)
        line = _line(cells, min(reach), max(reach))
        below = _line({rail.column: "│" for rail in self._rails}, 0, 0)
        edge = 2 * min(column, WIDEST)
        return RailRow(
            name,
            line[: 2 * column][:edge].ljust(edge),
            line[2 * column + 1 : 2 * WIDEST],
            below[: 2 * WIDEST],
        )

    def _place(self, coming: list[_Rail]) -> int:
        """The column of a step: under the only step before it, beside a rail that leads to others,
        too, and else as far to the left as there is room."""
        if len(coming) == 1 and not coming[0].is_branching and not coming[0].is_shared:
            return coming[0].column
        branching = [rail.column for rail in coming if rail.is_branching]
        ending = {rail.column for rail in coming if not rail.ahead and not rail.is_branching}
        taken = {rail.column for rail in self._rails} - ending
        return _free(taken, max(branching, default=-1) + 1)

    def _lead_on(self, name: str, column: int, *, may_share: bool) -> _Rail | None:
        """Lead to what comes next; the shared rail at the right, if it is that."""
        targets = tuple(self._following[name])
        if not targets:
            return None
        self._sources[targets] -= 1
        for rail in self._rails:
            if may_share and rail.is_shared and rail.targets == targets and rail.column > column:
                return rail
        is_shared = may_share and self._sources[targets] > 0
        taken = {rail.column for rail in self._rails}
        place = _free(taken, column + 1) if is_shared else column
        rail = _Rail(place, targets, set(targets), is_shared)
        self._rails.append(rail)
        return rail if is_shared else None


def _free(taken: set[int], first: int) -> int:
    while first in taken:
        first += 1
    return first


def _joint(column: int, own: int, reach: list[int], *, ends: bool) -> str:
    """Where a rail meets the line to a step; the line may go on beyond it."""
    if column == own:
        return "│"  # the step's own sign covers it
    if min(reach) < column < max(reach):
        return "┴" if ends else "┼"
    if column < own:
        return "╰" if ends else "├"
    return "╯" if ends else "┤"


def _line(cells: Mapping[int, str], first: int, last: int) -> str:
    """The cells of a row; from the first to the last column there is a line, which passes below
    rails that it does not meet."""
    columns = range(max([*cells, last], default=-1) + 1)
    text = ""
    for place in columns:
        is_inside = first <= place <= last
        text += cells.get(place, "─" if is_inside and first != last else " ")
        text += "─" if first <= place < last else " "
    return text.rstrip()
