"""A pane's edge: a box, a line above, or nothing; with its title, and how far it is scrolled.
Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...draw.glyphs import Glyphs
from ...draw.line import Line, Span, clip, fit, length, plain, size
from ..layout import Box


def inside(box: Box) -> tuple[int, int]:
    """The room for lines: width and height."""
    match box.edge:
        case "framed":
            return max(0, box.width - 2), max(0, box.height - 2)
        case "ruled":
            return box.width, max(0, box.height - 1)
    return box.width, box.height


def enclose(
    body: Sequence[Line],
    box: Box,
    glyphs: Glyphs,
    title: Sequence[Span] = (),
    end: Sequence[Span] = (),
    *,
    is_focused: bool = False,
    thumb: range = range(0),
) -> list[Line]:
    """The lines in their edge; exactly as many and as wide as the box."""
    width, height = inside(box)
    rows = [_inside(line, width, glyphs.more) for line in body[:height]]
    rows += [[(" " * width, "text")] for _ in range(height - len(rows))]
    rule = "rule.focus" if is_focused else "rule"
    if box.edge == "framed" and box.width >= 2 and box.height >= 2:
        top = [
            (glyphs.corners[0], rule),
            *_title(title, end, box.width - 2, glyphs, rule),
            (glyphs.corners[1], rule),
        ]
        bottom = glyphs.corners[2] + glyphs.across * (box.width - 2) + glyphs.corners[3]
        sides = [(glyphs.thumb if row in thumb else glyphs.down) for row in range(height)]
        framed = [
            [(glyphs.down, rule), *line, (side, rule)]
            for line, side in zip(rows, sides, strict=True)
        ]
        return [top, *framed, [(bottom, rule)]]
    if box.edge == "ruled" and box.height:
        return [
            [(glyphs.across, rule), *_title(title, end, box.width - 1, glyphs, rule)],
            *_scrolled(rows, thumb, glyphs),
        ]
    return _scrolled(rows, thumb, glyphs)


def _inside(line: Line, width: int, more: str) -> Line:
    """The line in exactly that many cells; where more than blanks is cut off, that is said."""
    is_cut = length(line) > width and size(plain(line).rstrip()) > width
    return clip(line, width, more) if is_cut else fit(line, width)


def _title(
    title: Sequence[Span], end: Sequence[Span], width: int, glyphs: Glyphs, rule: str
) -> Line:
    start: Line = [(" ", rule), *title, (" ", rule)] if title else []
    finish: Line = [(" ", rule), *end, (" ", rule)] if end else []
    if length(start) + length(finish) > width:
        finish = []
    room = width - length(start) - length(finish)
    return fit([*start, (glyphs.across * max(0, room), rule), *finish], width, rule)


def _scrolled(rows: list[Line], thumb: range, glyphs: Glyphs) -> list[Line]:
    """Without a frame the last column shows where one is in a long list."""
    if not thumb:
        return rows
    return [
        [*fit(line, max(0, length(line) - 1)), (glyphs.thumb, "rule.focus")]
        if number in thumb
        else line
        for number, line in enumerate(rows)
    ]


def thumb(total: int, top: int, shown: int) -> range:
    """The rows of a list's edge that stand for the part that is shown; none when all is."""
    if total <= shown or shown <= 0:
        return range(0)
    size = max(1, shown * shown // total)
    first = min(shown - size, round(top / max(1, total - shown) * (shown - size)))
    return range(first, first + size)
