"""A page about one thing: drawn anew every second, with the keys that apply to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType

from ...draw.keys import written
from ...draw.line import Line
from ...draw.style import Look
from ...stage.commands import Command
from ...stage.panes.frame import inside
from .dialog import Dialog

Body = Callable[[int], list[Line]]
Act = Callable[[Command], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Offer:
    """A command that applies to what the page is about, and what it is called there."""

    command: Command
    label: str


class Page(Dialog[None]):
    """Lines that are asked for again and again until it is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "leave", "close")]

    def __init__(
        self, title: str, look: Look, body: Body, offers: Sequence[Offer], act: Act
    ) -> None:
        super().__init__(title, look, 112)
        self._body = body
        self._offers = {offer.command.name: offer for offer in offers}
        self._act = act
        self._said = ""
        for name, offer in self._offers.items():
            for key in offer.command.keys:
                self._bindings.bind(key, f"act('{name}')", show=False)

    def on_mount(self) -> None:
        self.draw()
        self.set_interval(1.0, self.draw)

    def body(self, width: int) -> list[Line]:
        return self._body(width)

    def fixed(self, _: int) -> list[Line]:
        line: Line = [(" ", "text")]
        for offer in filter(lambda one: one.label, self._offers.values()):
            line += [(written(offer.command.keys[0]), "key"), (f" {offer.label}   ", "muted")]
        return [[(f" {self._said}", "bad")], [*line, ("esc", "key"), (" close", "muted")]]

    def say(self, text: str) -> None:
        """Something to tell, above the keys."""
        self._said = text
        self.draw()

    async def action_act(self, name: str) -> None:
        self._said = ""
        await self._act(self._offers[name].command)
        if not self._has_left:
            self.draw()


class ListPage(Page):
    """A page with rows: a cursor goes through them, and enter opens one."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "open", "open")]

    def __init__(
        self,
        title: str,
        look: Look,
        body: Callable[[int, int], list[Line]],
        offers: Sequence[Offer],
        act: Act,
        rows: Callable[[], int],
        open: Callable[[int], None],
    ) -> None:
        super().__init__(title, look, lambda width: body(width, self._place), offers, act)
        self._rows = rows
        self._open = open
        self._place = 0

    def fixed(self, width: int) -> list[Line]:
        said, keys = super().fixed(width)
        return [said, [(" enter", "key"), (" its job  ", "muted"), *keys]]

    def action_scroll_lines(self, by: int) -> None:
        """A line is a row, as long as there is a next one."""
        if abs(by) > 1 or not 0 <= self._place + by < self._rows():
            super().action_scroll_lines(by)
            return
        self._place += by
        width, height = inside(self.box)
        here = _place_of_cursor(self.body(width)) if self._place else 0
        self._top = min(max(self._top, here - height + len(self.fixed(width)) + 1), here)
        self.draw()

    def action_open(self) -> None:
        if self._rows():
            self._open(min(self._place, self._rows() - 1))


def _place_of_cursor(lines: Sequence[Line]) -> int:
    return next(
        number for number, line in enumerate(lines) if line and line[0][1].endswith("/cursor")
    )


class Sentences(Dialog[None]):
    """Some sentences, until any of the closing keys."""

    def __init__(self, title: str, look: Look, sentences: list[Line]) -> None:
        super().__init__(title, look, 90)
        self._sentences = sentences

    def body(self, _: int) -> list[Line]:
        return self._sentences
