"""A widget that shows lines somebody else drew, and repaints only those that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ...draw.line import Line, as_ascii, length
from ...draw.style import Look


class Sheet(Widget):
    """Plain lines; every segment has a style, and nothing is ever read as markup."""

    DEFAULT_CSS = "Sheet { width: 1fr; height: 1fr; }"
    can_focus = False

    def __init__(self, name: str, look: Look) -> None:
        super().__init__(id=name)
        self._look = look
        self._lines: list[Line] = []
        self._strips: list[Strip] = []

    @property
    def lines(self) -> Sequence[Line]:
        """What is shown at the moment."""
        return self._lines

    def show(self, lines: list[Line], look: Look) -> int:
        """Take new lines; how many of them had to be painted."""
        if look.is_ascii:
            lines = [as_ascii(line) for line in lines]
        if look is not self._look:
            self._look = look
            self._lines = []
            self._strips = []
        before, strips = self._lines, self._strips
        changed = [
            row for row, line in enumerate(lines) if row >= len(before) or line != before[row]
        ]
        if not changed and len(lines) == len(before):
            return 0
        self._strips = [
            strips[row] if row < len(before) and line == before[row] else self._strip(line)
            for row, line in enumerate(lines)
        ]
        self._lines = lines
        rows = changed if len(lines) >= len(before) else [*changed, *range(len(lines), len(before))]
        width = self.size.width
        self.refresh(*(Region(0, first, width, count) for first, count in _runs(rows)))
        return len(rows)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        strip = (
            self._strips[y]
            if y < len(self._strips)
            else Strip.blank(width, self._look.style("text"))
        )
        return (
            strip
            if strip.cell_length == width
            else strip.adjust_cell_length(width, self._look.style("text"))
        )

    def _strip(self, line: Line) -> Strip:
        style = self._look.style
        return Strip([Segment(text, style(role)) for text, role in line if text], length(line))


def _runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring rows together: (first, how many)."""
    first = last = -2
    for row in sorted(rows):
        if row != last + 1:
            if first >= 0:
                yield first, last - first + 1
            first = row
        last = row
    if first >= 0:
        yield first, last - first + 1
