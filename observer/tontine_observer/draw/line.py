"""Lines of styled text: spans of (text, role). A role is a name; a theme gives it colours. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size

Span: TypeAlias = tuple[str, str]
Line: TypeAlias = list[Span]


def size(text: str) -> int:
    """How many cells of a terminal a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def length(line: Iterable[Span]) -> int:
    """How many cells a line takes."""
    return sum(size(text) for text, _ in line)


def cut(text: str, width: int, more: str = "…") -> str:
    """The text in at most `width` cells; what does not fit is announced by its last one."""
    if size(text) <= width:
        return text
    if width < size(more) + 1:
        return set_cell_size(text, max(0, width))
    return set_cell_size(text, width - size(more)).rstrip() + more


def left(text: str, width: int, more: str = "…") -> str:
    """The text in exactly `width` cells, at the left."""
    short = cut(text, width, more)
    return short + " " * (width - size(short))


def right(text: str, width: int, more: str = "…") -> str:
    """The text in exactly `width` cells, at the right."""
    short = cut(text, width, more)
    return " " * (width - size(short)) + short


def fit(line: Iterable[Span], width: int, role: str = "text") -> Line:
    """The line in exactly `width` cells: cut at the right, or filled up."""
    fitted: Line = []
    room = width
    for text, its_role in line:
        taken = size(text)
        if taken > room:
            fitted.append((set_cell_size(text, room), its_role))
            return fitted
        if taken:
            fitted.append((text, its_role))
        room -= taken
    if room:
        fitted.append((" " * room, role))
    return fitted


def clip(line: Iterable[Span], width: int, more: str = "…", role: str = "text") -> Line:
    """The line in exactly `width` cells; what is cut off is announced."""
    spans = list(line)
    if length(spans) <= width:
        return fit(spans, width, role)
    short = fit(spans, max(0, width - size(more)), role)
    return fit([*short, (more, short[-1][1] if short else role)], width, role)


def pack(parts: Iterable[tuple[int, Line]], width: int) -> Line:
    """The parts side by side, each whole: where there is no room, the least heavy are left out."""
    kept = list(parts)
    while len(kept) > 1 and sum(length(line) for _, line in kept) > width:
        kept.remove(min(kept, key=lambda part: part[0]))
    return [span for _, line in kept for span in line]


def justify(start: Sequence[Span], end: Sequence[Span], width: int, role: str = "text") -> Line:
    """Two parts at both ends of a line; the end is whole as long as there is room for it."""
    room = width - length(end)
    if room < 1:
        return fit(end, width, role)
    return [*fit(start, room, role), *end]


def on(line: Iterable[Span], ground: str) -> Line:
    """The same line on another ground."""
    return [(text, f"{role.partition('/')[0]}/{ground}") for text, role in line]


_NEAREST = {
    "…": "~",
    "→": ">",
    "·": "-",
    "≠": "#",
    "°": "o",
    **dict(zip("│─├╭╰┤╮╯┴┼", "|-++++++++", strict=True)),  # rails of a plan
    **dict(zip("█▓░○●◐◑◌✓✗⊘↶↩", "#=:o****+x/<<", strict=True)),  # and the signs of its steps
}


def as_ascii(line: Line) -> Line:
    """The line in ASCII, in as many cells: what has no likeness becomes question marks."""
    if all(text.isascii() for text, _ in line):
        return line
    return [(text if text.isascii() else "".join(map(_nearest, text)), role) for text, role in line]


def _nearest(character: str) -> str:
    return character if character.isascii() else _NEAREST.get(character, "?" * size(character))


def plain(line: Iterable[Span]) -> str:
    """The text alone."""
    return "".join(text for text, _ in line)


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, broken at spaces where there are any."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        rest = paragraph
        while size(rest) > width > 0:
            head = set_cell_size(rest, width)
            place = head.rfind(" ")
            # A wide character on the edge was replaced by a blank; never take less than one
            # character.
            keep = place if place > width // 2 else max(1, len(head.rstrip(" ")) or width)
            lines.append(rest[:keep].rstrip())
            rest = rest[keep:].lstrip(" ")
        lines.append(rest)
    return lines
