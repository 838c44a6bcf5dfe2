"""Choose one of several things by typing part of its name, by arrows, or by its key."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from ...draw.line import Line, cut, left, on, right
from ...draw.style import Look
from ...stage.palette import Option
from ..widgets.entry import TextEntry
from .dialog import Dialog

Find = Callable[[str], list[Option]]
"""What is called like what was typed, the likeliest first."""


class Choose(Dialog[Option | None]):
    """Returns what was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "choose", "choose"),
        ("up", "step(-1)", "the one above"),
        ("down", "step(1)", "the one below"),
        ("pageup", "step(-10)", "a page up"),
        ("pagedown", "step(10)", "a page down"),
    ]
    AT_ONCE: ClassVar[frozenset[str]] = frozenset(
        {"escape", "enter", "up", "down", "pageup", "pagedown"}
    )
    CSS = "Choose TextEntry { position: absolute; }"

    def __init__(self, title: str, find: Find, look: Look, *, is_asking: bool = False) -> None:
        """Where it is asking, nothing is chosen before something was typed or pointed at."""
        super().__init__(title, look, 74)
        self._find = find
        self._place = 0
        self._sought = ""
        self._has_chosen = not is_asking
        self._entry = TextEntry("choice", "type to find")

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield self._entry

    def on_mount(self) -> None:
        self.draw()
        self.set_focus(self._entry)  # now: keys may have been typed ahead

    @property
    def found(self) -> list[Option]:
        if self._entry.value != self._sought:
            self._sought, self._place = self._entry.value, 0
        return self._find(self._sought)

    def body(self, width: int) -> list[Line]:
        found = self.found
        self._place = max(0, min(self._place, len(found) - 1))
        room = max(1, self.app.size.height - 4)
        first = max(0, self._place - room + 1)
        lines: list[Line] = [[("", "text")]]
        for number, option in list(enumerate(found))[first : first + room]:
            title = left(cut(option.title, width - 16, self._look.glyphs.more), width - 16)
            line: Line = [
                (" ", "text"),
                (title, "text"),
                (right(option.note, 13), "key"),
                (" ", "text"),
            ]
            lines.append(on(line, "cursor") if number == self._place else line)
        return lines if found else [*lines, [(" nothing is called that", "muted")]]

    def draw(self) -> None:
        super().draw()
        self._entry.styles.offset = (self.box.x + 2, self.box.y + 1)
        self._entry.styles.width = max(1, self.box.width - 4)

    def on_input_changed(self, _: Input.Changed) -> None:
        self.draw()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        self._choose()

    async def action_choose(self) -> None:
        await self._entry.catch_up()
        self._choose()

    def _choose(self) -> None:
        found = self.found
        if self._has_chosen or self._sought.strip():
            self.dismiss(found[min(self._place, len(found) - 1)] if found else None)

    async def action_step(self, by: int) -> None:
        await self._entry.catch_up()
        self._has_chosen = bool(self.found)
        self._place = max(0, self._place + by)
        self.draw()
