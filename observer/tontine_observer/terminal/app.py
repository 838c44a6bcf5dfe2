"""The app: wires a source, the stage and the screens together. What there is to show is the board's
business."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import App
from textual.binding import BindingType

from ..draw.style import Look
from ..feed.source import Source
from ..stage.commands import DEMO_COMMANDS, What, hints
from ..stage.stage import Stage
from .carry_out import Hands
from .crash import write_crash
from .demo import DemoLink
from .ledgers import keep
from .screens.overview import Overview
from .settings import Settings
from .signals import end_on_signals, end_with_terminal
from .theming import leaves_colours_to_terminal, name_of, register

_WITH_ESCAPE = dict(zip("¡™£¢∞§¶•ªº≠", "1234567890=", strict=True))
"""What the toolkit makes of an escape and one of these keys, where they come in one read."""


class ObserverApp(App[None]):
    """The live board on a terminal."""

    TITLE = "tontine"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+z", "suspend_process", "suspend")]
    CSS = """
    Screen { layers: below above; overflow: hidden; }
    Overview { background: $background; }
    TextEntry { layer: above; }
    """

    def __init__(
        self, source: Source, settings: Settings | None = None, demo: DemoLink | None = None
    ) -> None:
        settings = settings or Settings()
        if demo is not None:
            settings = replace(settings, commands=(*settings.commands, *DEMO_COMMANDS))
        super().__init__(ansi_color=leaves_colours_to_terminal(settings.theme))
        self.source = source
        self.settings = settings
        self.animation_level = "none"
        look = Look(settings.theme, is_ascii=settings.is_ascii)
        self.stage = Stage(
            source.board, look, monotonic, partial(hints, settings.commands), settings.zone
        )
        self.overview = Overview(
            self.stage, settings.commands, self._carry_out, self._search, self._call_off
        )
        self.stage.demo = demo
        self.hands = Hands(self, self.stage, self.overview, source, settings, demo)
        register(self)
        self.theme = name_of(settings.theme)

    async def on_mount(self) -> None:
        end_on_signals(self.exit)
        if not self.is_headless:
            end_with_terminal()
        await self.push_screen(self.overview)
        self.run_worker(self._run_source(), group="source", exit_on_error=True)
        self.run_worker(keep(self.stage, self.source), group="ledgers", exit_on_error=True)

    async def _run_source(self) -> None:
        """Let the source run for as long as the screen does; it stops when the screen ends."""
        try:
            await self.source.start()
            await asyncio.Event().wait()
        finally:
            await self.source.stop()

    async def _carry_out(self, what: What) -> str | None:
        return await self.hands.carry_out(what)

    def _call_off(self) -> None:
        self.hands.pages.call_off()

    async def on_event(self, event: events.Event) -> None:
        """An enter is one, also where it was typed before the screen had the terminal: that makes a
        new line of it, which is ctrl+j. An escape is one, also where the next key came with it:
        both together are what alt and that key are."""
        if isinstance(event, events.Key):
            if event.key == "ctrl+j":
                event = events.Key("enter", "\r")
            elif self.focused is None and (second := _second(event)):
                await super().on_event(events.Key("escape", "\x1b"))
                event = events.Key(second, second)
        await super().on_event(event)

    def _search(self) -> None:
        self.run_worker(self.hands.search, group="search", exclusive=True)  # type: ignore[arg-type]

    def _fatal_error(self) -> None:
        """A crash: the terminal is given back, and the traceback, without local variables, goes to
        a file."""
        error: BaseException = self._exception or RuntimeError("unknown")
        error = getattr(error, "error", error)  # of a worker that failed, the reason
        file = write_crash(error, self.settings.crashes, datetime.now(UTC), self.source.hide)
        where = f"the traceback is in {file}" if file else "the traceback could not be written"
        self._exit_renderables.append(
            Text(f"tontine: the observer crashed ({type(error).__name__}): {where}")
        )
        self._close_messages_no_wait()


def _second(event: events.Key) -> str | None:
    """The key that came together with an escape."""
    if event.key.startswith("alt+"):
        return event.character
    return _WITH_ESCAPE.get(event.character or "")
