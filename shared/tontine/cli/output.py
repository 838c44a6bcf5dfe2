"""What commands write: tables and lines for people, JSON lines for programs. Nothing from a
document reaches a terminal but through `legible`."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import click
import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..legible import legible
from ..records.states import JobState, NodeState

# JSON escapes C0 itself; a terminal also obeys these.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_GAP = 2
_LEAST_WIDTH = 16

NODE_LOOKS: dict[str, tuple[str, str]] = {  # glyph and word, never colour alone
    NodeState.INITIALIZING: ("◌", "cyan"),
    NodeState.WAITING: ("○", "blue"),
    NodeState.WORKING: ("●", "green"),
    NodeState.PAUSED: ("‖", "yellow"),
    NodeState.DEAD: ("✕", "red"),
    "silent": ("◇", "yellow"),
    "gone": ("⊗", "red"),
}
JOB_LOOKS: dict[str, tuple[str, str]] = {
    JobState.QUEUED: ("·", "blue"),
    JobState.WORKING: ("●", "cyan"),
    JobState.DONE: ("✓", "green"),
    JobState.FAILED: ("✗", "red"),
    JobState.CANCELLED: ("⊘", "yellow"),
}


def console(*, stderr: bool = False) -> Console:
    """Where to write: plain and as wide as its content when it is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=not stream.isatty(),
        safe_box=True,
    )


def node_state(name: Any) -> Text:
    """A node's state: its glyph, its word, its colour."""
    glyph, colour = NODE_LOOKS.get(str(name), ("?", ""))
    return Text(f"{glyph} {legible(name, 40)}", style=colour)


def job_state(name: Any) -> Text:
    """A job's state: its glyph, its word, its colour."""
    glyph, colour = JOB_LOOKS.get(str(name), ("?", ""))
    return Text(f"{glyph} {legible(name, 40)}", style=colour)


def write_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
) -> None:
    """A table with the most important columns first.

    On a terminal the columns in `cut` are shortened and then columns are left out from the right
    until it fits; to a pipe or file everything is written.
    """
    cells = [
        [cell if isinstance(cell, Text) else Text(legible(cell)) for cell in row] for row in rows
    ]
    widths = [
        max([len(name), *(row[place].cell_len for row in cells)])
        for place, name in enumerate(columns)
    ]
    out = console()
    if out.is_terminal:
        out.print(_fitting(columns, cells, right, _cut(columns, widths, cut, out.width), out.width))
        return
    for row in [[Text(name) for name in columns], *cells]:
        padded = [
            " " * (width - cell.cell_len) + cell.plain
            if name in right
            else cell.plain + " " * (width - cell.cell_len)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def _cut(
    columns: Sequence[str], widths: Sequence[int], cut: Sequence[str], width: int
) -> list[int]:
    """The columns' widths after those in `cut` gave, in that order, what is too much."""
    kept = list(widths)
    for name in cut:
        excess = sum(kept) + _GAP * (len(kept) - 1) - width
        place = columns.index(name)
        if excess > 0:
            kept[place] = min(kept[place], max(_LEAST_WIDTH, kept[place] - excess))
    return kept


def _fitting(
    columns: Sequence[str],
    rows: Sequence[Sequence[Text]],
    right: Sequence[str],
    widths: Sequence[int],
    width: int,
) -> Table:
    shown = list(range(len(columns)))
    while len(shown) > 2 and sum(widths[place] + _GAP for place in shown) - _GAP > width:
        shown.pop()
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for place in shown:
        justify: Literal["left", "right"] = "right" if columns[place] in right else "left"
        table.add_column(
            Text(columns[place]),
            justify=justify,
            no_wrap=True,
            overflow="ellipsis",
            max_width=widths[place],
        )
    for row in rows:
        table.add_row(*(row[place] for place in shown))
    return table


def write_json(value: Any) -> None:
    """One line of JSON."""
    click.echo(json_text(value))


def json_text(value: Any, *, indent: bool = False) -> str:
    """JSON of a document: what JSON lacks becomes text (ids, decimals, dates in ISO 8601, bytes in
    base64)."""
    options = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    text = orjson.dumps(value, default=_as_text, option=options).decode()
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _as_text(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return str(value)


def note(message: str) -> None:
    """A remark for people, on stderr so that it never mixes with results."""
    click.echo(message, err=True)
