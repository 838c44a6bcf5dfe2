"""What is shown, in a file: a pane as CSV or JSON lines, the screen as SVG or text."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from textual.app import App

from ..draw.line import Line, as_ascii, fit, plain, size
from ..query.filters import ARGS, TIMES
from ..stage.layout import Plan
from ..stage.panes.scene import Scene
from ..stage.panes.table import Table
from ..stage.stage import TABLES, Stage

_FONT_FACE = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
_TEXT = re.compile(
    r'(<text [^>]*?x=")([\d.]+)(" y="[\d.]+" textLength=")[\d.]+("[^>]*>)([^<]*)</text>'
)
CELL = 12.2
"""How wide the drawing's cells are."""
_FAMILY = re.compile(r"font-family:\s*(?:Fira Code|Rich Fira Code|arial)[^;]*;")
MONOSPACE = 'ui-monospace, "DejaVu Sans Mono", "Cascadia Mono", Menlo, Consolas, monospace'


def as_csv(table: Table[Any], rows: Iterable[Any], scene: Scene) -> str:
    """The rows as they are shown, with a heading. Text that a spreadsheet would calculate is made
    plain text."""
    out = io.StringIO()
    names = sorted(table.fields - {ARGS, *TIMES})  # words of filters that no row has
    writer = csv.writer(out)
    writer.writerow(names)
    for row in rows:
        facts = table.facts(row, scene)
        writer.writerow([_plain(facts.get(name)) for name in names])
    return out.getvalue()


def _plain(value: object) -> object:
    return (
        f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
    )


def as_json_lines(table: Table[Any], rows: Iterable[Any], scene: Scene) -> str:
    return "".join(json.dumps(dict(table.facts(row, scene)), sort_keys=True) + "\n" for row in rows)


def as_text(drawn: dict[str, list[Line]], boxes: Plan, width: int, height: int) -> str:
    """The screen as text."""
    rows = [[" "] * width for _ in range(height)]
    for name, lines in drawn.items():
        box = boxes[name]
        for number, line in enumerate(lines[: box.height]):
            rows[box.y + number][box.x : box.x + box.width] = _cells(
                plain(fit(line, box.width)), box.width
            )
    return "".join("".join(row).rstrip() + "\n" for row in rows)


def _cells(text: str, width: int) -> list[str]:
    """One entry for each cell; the second cell of a wide character is empty."""
    cells: list[str] = []
    for character in text:
        wide = size(character)
        if wide == 0 and cells:
            cells[-1] += character
        else:
            cells += [character, *[""] * (wide - 1)]
    return (cells + [" "] * width)[:width]


def self_contained(svg: str) -> str:
    """The drawing without fonts from elsewhere, so that whoever opens it tells nobody; every word
    in its own place, since not every viewer keeps blanks."""
    svg = _FAMILY.sub(f"font-family: {MONOSPACE};", _FONT_FACE.sub("", svg))
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    # The advance of the usual fonts is 0.602 of their size: at this size viewers that ignore
    # textLength agree too.
    return _TEXT.sub(_words, svg.replace("font-size: 20px;", "font-size: 20.26px;"))


def _words(match: re.Match[str]) -> str:
    before, x, middle, after, text = match.groups()
    place = float(x)
    placed = []
    for piece in re.split(r"((?:&#160;)+)", text):
        if piece and not piece.startswith("&#160;"):
            wide = size(html.unescape(piece)) * CELL
            placed.append(f"{before}{place:.1f}{middle}{wide:.1f}{after}{piece}</text>")
        place += size(html.unescape(piece)) * CELL
    return "".join(placed)


def screen(app: App[None], stage: Stage, ending: str) -> str:
    """What is on the screen now, as a drawing or as text."""
    if ending == ".txt":
        drawn = stage.whole()
        if stage.look.is_ascii:
            drawn = {name: [as_ascii(line) for line in lines] for name, lines in drawn.items()}
        return as_text(drawn, stage.boxes, *app.size)
    title = f"tontine {stage.scene.picture.status.database}"
    return self_contained(app.export_screenshot(title=title, simplify=True))


def deliver(app: App[None], stage: Stage, pane: str, kind: str, directory: Path) -> str:
    """Write a pane or the screen to a file, or hand it to the browser; what became of it."""
    match kind:
        case "csv":
            text = as_csv(TABLES[pane], stage.rows(pane), stage.scene)
        case "jsonl":
            text = as_json_lines(TABLES[pane], stage.rows(pane), stage.scene)
        case _:
            text = screen(app, stage, f".{kind}")
    what = pane if kind in ("csv", "jsonl") else "screen"
    return deliver_text(app, text, file_name(what, kind, stage.scene.picture.at), directory)


def deliver_text(app: App[None], text: str, name: str, directory: Path) -> str:
    """Write a text to a file, or hand it to the browser; what became of it."""
    if app.is_web:
        app.deliver_text(io.StringIO(text), save_filename=name)
        return f"sent {name}"
    try:
        return f"wrote {write(directory, name, text)}"
    except OSError as error:
        return f"cannot write {name}: {error.strerror}"


def file_name(what: str, ending: str, now: datetime) -> str:
    return f"tontine-{what}-{now:%Y%m%d-%H%M%S}.{ending}"


def write(directory: Path, name: str, text: str) -> Path:
    """Write a new file; one that exists is never written over."""
    path = directory / name
    for number in range(2, 100):
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            path = directory / f"{Path(name).stem}-{number}{Path(name).suffix}"
        else:
            return path
    raise FileExistsError(str(path))
