"""Something that opens over the overview: lines in a frame, in the middle of the screen, that can
be scrolled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from ...draw.line import Line, on
from ...draw.style import Look
from ...stage.layout import Box
from ...stage.panes.frame import enclose, inside, thumb
from ..widgets.sheet import Sheet

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """Lines that others draw; what it returns is up to them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up,k", "scroll_lines(-1)", "up"),
        ("down,j", "scroll_lines(1)", "down"),
        ("pageup", "scroll_lines(-10)", "a page up"),
        ("pagedown,space", "scroll_lines(10)", "a page down"),
        ("g,home", "scroll_lines(-100000)", "to the top"),
        ("G,end", "scroll_lines(100000)", "to the end"),
        ("escape,q", "leave", "close"),
    ]
    AT_ONCE: ClassVar[frozenset[str]] = frozenset({"escape"})
    """Keys that mean something here even while something is typed."""
    AUTO_FOCUS = ""
    CSS = """
    Dialog { background: transparent; }
    Dialog Sheet { position: absolute; }
    """

    def __init__(self, title: str, look: Look, width: int = 76) -> None:
        super().__init__()
        self._title = title
        self._look = look
        self._width = width
        self._top = 0
        self._has_left = False
        self._sheet = Sheet("dialog", look)
        self.box = Box(0, 0, 1, 1)

    def compose(self) -> ComposeResult:
        yield self._sheet

    def body(self, width: int) -> list[Line]:
        """The lines, for a room this wide."""
        raise NotImplementedError

    def fixed(self, _: int) -> list[Line]:
        """Lines at the end that do not scroll."""
        return []

    def on_mount(self) -> None:
        self.draw()
        self._hurry()

    def _hurry(self) -> None:
        """Obey a key before the next one is looked at: what is typed ahead goes to what this opens
        or uncovers, and not to what is on its way out."""
        for key, bindings in self._bindings.key_to_bindings.items():
            own = [one for one in bindings if "." not in one.action]  # others are Textual's
            first = [
                Binding(key, f"hurry({one.action!r}, {key!r})", priority=True) for one in own[-1:]
            ]
            # A new list: the one there is belongs to all dialogs of this class.
            self._bindings.key_to_bindings[key] = [*bindings, *first]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """While something is typed, its line has the first word."""
        return action != "hurry" or self.focused is None or parameters[1] in self.AT_ONCE

    async def action_hurry(self, action: str, _: str) -> None:
        await self.app.run_action(action, self)

    def on_resize(self, _: events.Resize) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw it anew, as large as its lines, as far as the screen allows."""
        width = min(self._width, self.app.size.width)
        lines, fixed = self.body(width - 2), self.fixed(width - 2)
        height = min(len(lines) + len(fixed) + 2, self.app.size.height)
        self.box = Box(
            (self.app.size.width - width) // 2,
            max(0, (self.app.size.height - height) // 2),
            width,
            height,
            "framed",
        )
        room = max(1, inside(self.box)[1] - len(fixed))
        self._top = max(0, min(self._top, len(lines) - room))
        framed = enclose(
            [*lines[self._top : self._top + room], *fixed],
            self.box,
            self._look.glyphs,
            [(self._title, "title.focus")],
            is_focused=True,
            thumb=thumb(len(lines), self._top, room),
        )
        self._sheet.styles.offset = (self.box.x, self.box.y)
        self._sheet.styles.width, self._sheet.styles.height = self.box.width, self.box.height
        self._sheet.show([_on_panel(line) for line in framed], self._look)

    @property
    def text(self) -> str:
        """What is shown, as text."""
        return "\n".join("".join(text for text, _ in line) for line in self._sheet.lines)

    def action_scroll_lines(self, by: int) -> None:
        self._top = max(0, self._top + by)
        self.draw()

    def read_every(self, seconds: float, reading: Callable[[], Awaitable[None]]) -> None:
        """Read again and again, beside the screen. A timer that waits for the store would keep the
        screen from closing: the driver may swallow that it was called off."""
        is_reading = False

        async def read() -> None:
            nonlocal is_reading
            is_reading = True
            try:
                await reading()
            finally:
                is_reading = False

        def begin() -> None:
            if not is_reading:
                self.app.run_worker(read, group="reading")  # type: ignore[arg-type]

        self.set_interval(seconds, begin)

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Leave, once: of keys that are typed faster than it goes, the others mean nothing."""
        if self._has_left:
            return AwaitComplete()
        self._has_left = True
        return super().dismiss(result)

    def action_leave(self) -> None:
        self.dismiss(None)


def _on_panel(line: Line) -> Line:
    return [
        (text, role if "/" in role else on([(text, role)], "panel")[0][1]) for text, role in line
    ]
