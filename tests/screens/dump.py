"""A screen as text: what stands where, and in which styles. Small enough to keep, exact enough to
compare."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

from rich.style import Style
from textual.pilot import Pilot

from tests.screens.still import StillBoard, StillSource
from tontine_observer.draw.themes import DARK, Theme
from tontine_observer.terminal.app import ObserverApp
from tontine_observer.terminal.settings import Settings

KEPT = Path(__file__).parent / "snapshots"
WRITING = "TONTINE_WRITE_SNAPSHOTS"


@asynccontextmanager
async def shown(
    size: tuple[int, int] = (80, 24),
    board: StillBoard | None = None,
    theme: Theme = DARK,
    source: StillSource | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[ObserverApp, Pilot[None]]]:
    """The screen of a board that stands still, drawn once."""
    source = source or StillSource(board or StillBoard())
    app = ObserverApp(source, Settings(theme=theme, zone=UTC, **settings))
    async with app.run_test(size=size) as pilot:
        # Frames are drawn when a test wants them: the rate of a loaded machine is not part of the
        # picture.
        app.workers.cancel_group(app.overview, "flush")
        app.stage.fps = 10.0
        app.stage.touch()
        await settle(app, pilot)
        yield app, pilot


async def settle(app: ObserverApp, pilot: Pilot[None]) -> None:
    """Draw what is to be drawn, and wait until it is on the screen."""
    await pilot.pause()
    app.overview.flush()
    await pilot.pause()


async def press(app: ObserverApp, pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await settle(app, pilot)


async def drawn_until(app: ObserverApp, pilot: Pilot[None], check: Callable[[], object]) -> None:
    """Draw frame after frame until it is so: one frame sifts a list only for so long."""
    for _ in range(600):
        if check():
            return
        await settle(app, pilot)
    raise AssertionError(f"not after 600 frames: {check}")


def text(app: ObserverApp) -> str:
    """The characters on the screen."""
    return "".join(f"{strip.text.rstrip()}\n" for strip in app.screen._compositor.render_strips())


def dump(app: ObserverApp, *, has_styles: bool = True) -> str:
    """The characters, then for each row the runs of cells of one style, by letters that a legend
    explains."""
    strips = app.screen._compositor.render_strips()
    if not has_styles:
        return text(app)
    letters: dict[str, str] = {}
    runs = []
    for strip in strips:
        row: list[tuple[str, int]] = []
        for segment in strip:
            name = letters.setdefault(_style(segment.style), _letter(len(letters)))
            if row and row[-1][0] == name:
                row[-1] = (name, row[-1][1] + segment.cell_length)
            else:
                row.append((name, segment.cell_length))
        runs.append(" ".join(f"{name}{length}" for name, length in row))
    legend = [f"{letter} {style}" for style, letter in letters.items()]
    return text(app) + "\n" + "\n".join(runs) + "\n\n" + "\n".join(legend) + "\n"


def _letter(number: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[number] if number < 26 else letters[number // 26 - 1] + letters[number % 26]


def _style(style: Style | None) -> str:
    assert style is not None, "a segment without a style"
    words = [style.color.name if style.color else "-", style.bgcolor.name if style.bgcolor else "-"]
    words += [word for word in ("bold", "dim", "underline", "reverse") if getattr(style, word)]
    return " ".join(words)


def compare(name: str, found: str) -> None:
    """The same as the one kept; with TONTINE_WRITE_SNAPSHOTS it is kept instead."""
    file = KEPT / f"{name}.txt"
    if os.environ.get(WRITING):
        KEPT.mkdir(exist_ok=True)
        file.write_text(found)
    assert found == file.read_text(), (
        f"{name} looks different: look at it, then set {WRITING}=1 to keep it"
    )
