"""Small plots of one or two rows of characters: sparklines, bars. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .glyphs import Glyphs


def spark(
    values: Sequence[float | None], width: int, glyphs: Glyphs, top: float | None = None
) -> str:
    """The newest values as one row, newest at the right; what is not known is blank, nothing at all
    is lowest."""
    levels = glyphs.sparks
    shown = list(values[-width:]) if width > 0 else []
    highest = (
        top
        if top is not None
        else max((value for value in shown if value is not None), default=0.0)
    )
    cells = (
        " " if value is None else levels[_level(value, highest, len(levels))] for value in shown
    )
    return "".join(cells).rjust(max(0, width))


def _level(value: float, highest: float, levels: int) -> int:
    if highest <= 0 or value <= 0:
        return 0
    return min(levels - 1, max(1, round(value / highest * (levels - 1))))


def tall_spark(
    values: Sequence[float | None], width: int, rows: int, glyphs: Glyphs, top: float | None = None
) -> list[str]:
    """The same over several rows, the upper first."""
    shown = list(values[-width:]) if width > 0 else []
    highest = (
        top
        if top is not None
        else max((value for value in shown if value is not None), default=0.0)
    )
    steps = len(glyphs.sparks)
    heights = [None if value is None else _height(value, highest, rows * steps) for value in shown]
    lines = []
    for row in range(rows - 1, -1, -1):
        cells = []
        for height in heights:
            part = -1 if height is None else min(steps, height - row * steps) - 1
            cells.append(glyphs.sparks[part] if part >= 0 else " ")
        lines.append("".join(cells).rjust(max(0, width)))
    return lines


def _height(value: float, highest: float, most: int) -> int:
    if highest <= 0 or value <= 0:
        return 1
    return min(most, max(2, round(value / highest * most)))


def bar(value: float, top: float, width: int, glyphs: Glyphs) -> str:
    """A bar of at most `width` cells; something is never drawn as nothing."""
    if width <= 0 or value <= 0 or top <= 0:
        return ""
    parts = glyphs.parts
    filled = max(1, min(width * len(parts), round(value / top * width * len(parts))))
    whole, rest = divmod(filled, len(parts))
    return parts[-1] * whole + (parts[rest - 1] if rest else "")


def squeeze(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` values: each the mean of those known in its stretch."""
    if len(values) <= width or width <= 0:
        return list(values)
    squeezed: list[float | None] = []
    for place in range(width):
        first, last = place * len(values) // width, (place + 1) * len(values) // width
        known = [value for value in values[first:last] if value is not None]
        squeezed.append(sum(known) / len(known) if known else None)
    return squeezed
