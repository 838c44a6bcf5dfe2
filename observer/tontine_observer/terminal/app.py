"""The screen: wires a source, the stage and the screens together. What there is to show is the board's business."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import BindingType
from textual.theme import BUILTIN_THEMES
from textual.theme import Theme as Palette

from ..draw.style import Look
from ..draw.themes import THEMES, Kind, Theme
from ..feed.source import Source
from ..stage.stage import Stage
from .carry_out import Deeds
from .screens.overview import Overview
from .screens.page import Page
from .settings import Settings
from .signals import end_on_signals, write_crash


class ObserverApp(App[None]):
    """The live board on a terminal."""

    TITLE = "tontine"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+z", "suspend_process", "suspend")]
    CSS = """
    Screen { layers: below above; overflow: hidden; }
    Overview { background: $background; }
    Entry { layer: above; }
    """

    def __init__(self, source: Source, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        # Both kinds leave colours to the terminal; converted to RGB they would not be its own any more.
        super().__init__(ansi_color=settings.theme.kind is not Kind.RGB)
        self.source = source
        self.settings = settings
        self.animation_level = "none"
        look = Look(settings.theme, is_ascii=settings.is_ascii)
        self.stage = Stage(source.board, look, monotonic, settings.commands, settings.zone)
        self.overview = Overview(self.stage)
        self.deeds = Deeds(self)
        for theme in THEMES.values():
            self.register_theme(_palette(theme))
        self.theme = f"tontine-{settings.theme.name}"

    async def on_mount(self) -> None:
        end_on_signals(self.exit)
        await self.push_screen(self.overview)
        self.run_worker(self._run_source(), group="source", exit_on_error=True)

    async def _run_source(self) -> None:
        """Let the source run for as long as the screen does; it stops when the screen ends."""
        try:
            await self.source.start()
            await asyncio.Event().wait()
        finally:
            await self.source.stop()

    async def carry_out(self, name: str) -> str | None:
        """A command that needs more than the view; what there is to say about it."""
        return await self.deeds.do(name)

    def notify_page(self, text: str) -> None:
        """Say it on the page that is open, which hides the footer."""
        if isinstance(self.screen, Page):
            self.screen.say(text)

    def search(self) -> None:
        """Ask the store for jobs that the filter is about and the board does not hold."""
        self.run_worker(self.deeds.search(), group="search", exclusive=True)

    def use_theme(self, theme: Theme) -> None:
        """Another theme, at once."""
        self.ansi_color = theme.kind is not Kind.RGB
        self.theme = f"tontine-{theme.name}"
        self.stage.set_look(Look(theme, is_ascii=self.settings.is_ascii))
        self.refresh(layout=True)

    def _fatal_error(self) -> None:
        """A crash: the terminal is given back, and the traceback, without local variables, goes to a file."""
        error: BaseException = self._exception or RuntimeError("unknown")
        error = getattr(error, "error", error)  # of a worker that failed, the reason
        file = write_crash(error, self.settings.crashes, datetime.now(UTC), self.source.hide)
        where = f"the traceback is in {file}" if file else "the traceback could not be written"
        self._exit_renderables.append(Text(f"tontine: the observer crashed ({type(error).__name__}): {where}"))
        self._close_messages_no_wait()


def _palette(theme: Theme) -> Palette:
    """The same hues for what Textual draws itself: lines to type in."""
    hues = theme.hues
    if theme.kind is not Kind.RGB:
        return replace(BUILTIN_THEMES["ansi-dark"], name=f"tontine-{theme.name}")
    return Palette(
        f"tontine-{theme.name}",
        primary=hues["blue"],
        background=hues["ground"],
        surface=hues["bar"],
        panel=hues["bar"],
        foreground=hues["text"],
        warning=hues["amber"],
        error=hues["red"],
        success=hues["green"],
        dark=theme.is_dark,
    )
