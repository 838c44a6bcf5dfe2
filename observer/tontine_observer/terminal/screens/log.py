"""What the task of a job prints, as it comes: follows, wraps, searches and saves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable
from datetime import datetime, tzinfo
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from tontine.legible import count

from ...draw.line import Line, on, wrap
from ...draw.style import Look
from ...draw.words import moment
from ...records.job import LogLine
from ..widgets.entry import TextEntry
from .dialog import Dialog

READ_EVERY = 1.0
_INDENT = 15

Read = Callable[[], Awaitable[tuple[LogLine, ...]]]
Deliver = Callable[[str], str | None]
"""Takes the whole text; what there is to say about it."""


class Log(Dialog[None]):
    """The lines of all attempts; follows the newest until somebody scrolls up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("f", "follow", "follow"),
        ("w", "wrap", "wrap"),
        ("slash", "search", "search"),
        ("n", "next(1)", "the next match"),
        ("N", "next(-1)", "the match before"),
        ("s", "save", "save"),
        ("P", "page", "pager"),
        ("escape", "escape", "close"),
        ("enter", "seek", "the newest match"),
    ]
    AT_ONCE: ClassVar[frozenset[str]] = frozenset({"escape", "enter"})
    CSS = "Log TextEntry { position: absolute; display: none; }"

    def __init__(
        self,
        title: str,
        look: Look,
        lines: tuple[LogLine, ...],
        read: Read,
        zone: tzinfo | None,
        save: Deliver,
        page: Deliver,
        has_ended: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(title, look, 10_000)
        self._read = read
        self._lines = lines
        self._zone = zone
        self._save = save
        self._page = page
        self._has_ended = has_ended
        self._is_following = True
        self._is_wrapped = True
        self._sought = ""
        self._said = ""
        self._starts: list[int] = []
        """The row on which each line begins."""
        self._match: int | None = None
        """The line that was found last, until somebody scrolls away from it."""
        self._entry = TextEntry("search", "search")

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield self._entry

    def on_mount(self) -> None:
        self.draw()
        self.read_every(READ_EVERY, self.reread)

    async def reread(self) -> None:
        found = await self._read()
        if found and found != self._lines and not self._has_left:
            self._lines = found
            self.draw()

    @property
    def whole(self) -> str:
        """All of it as plain text."""
        return "".join(f"{_stamp(at)} {attempt} {text}\n" for at, attempt, text in self._lines)

    def body(self, width: int) -> list[Line]:
        lines: list[Line] = []
        self._starts = []
        room = max(10, width - _INDENT - 1)
        for at, attempt, text in self._lines:
            self._starts.append(len(lines))
            first, *rest = wrap(text, room) if self._is_wrapped else [text]
            line: Line = [
                (f" {moment(at, self._zone)} ", "faint"),
                (f"{attempt:>3}  ", "muted"),
                (first, "text"),
            ]
            shown = [line, *([(" " * _INDENT + more, "text")] for more in rest)]
            lines += [on(one, "cursor") for one in shown] if self._has(text) else shown
        if self._is_following:
            self._top = len(lines)
        yet = "" if self._has_ended() else " yet"
        return lines or [[(f" nothing was printed{yet}", "muted")]]

    def _has(self, text: str) -> bool:
        return bool(self._sought) and self._sought.casefold() in text.casefold()

    def _matches(self) -> list[int]:
        """The lines that have what was searched for, by their numbers."""
        return [number for number, (_, _, text) in enumerate(self._lines) if self._has(text)]

    def fixed(self, _: int) -> list[Line]:
        matches = len(self._matches())
        found = f"{self._sought}: {matches:,} found{self._place()}" if self._sought else ""
        going = ", following" if self._is_following else ""
        state = f"{count(len(self._lines), 'line')}{', ended' if self._has_ended() else going}"
        keys: Line = [(" ", "text")]
        for key, label in (
            ("f", "follow"),
            ("w", "wrap"),
            ("/", "search"),
            ("n N", "next"),
            ("s", "save"),
            ("P", "pager"),
            ("esc", "close"),
        ):
            keys += [(key, "key"), (f" {label}  ", "muted")]
        said: Line = [(f" {self._said or found}", "info"), (f"   {state}", "muted")]
        return [said, keys]

    def _place(self) -> str:
        """Which of those that have it the line found last is."""
        matches = self._matches()
        return f", at {matches.index(self._match) + 1:,}" if self._match in matches else ""

    def action_scroll_lines(self, by: int) -> None:
        self._is_following, self._match = by > 1000, None
        super().action_scroll_lines(by)

    def action_follow(self) -> None:
        self._is_following = not self._is_following
        self.draw()

    def action_wrap(self) -> None:
        self._is_wrapped = not self._is_wrapped
        self.draw()

    def draw(self) -> None:
        super().draw()
        self._entry.styles.offset = (self.box.x + 2, self.box.y + self.box.height - 3)
        self._entry.styles.width = max(1, self.box.width - 4)

    def action_search(self) -> None:
        self._entry.display = True
        self.set_focus(self._entry)  # now: keys may have been typed ahead

    def on_input_changed(self, event: Input.Changed) -> None:
        self._sought, self._said, self._match = event.value, "", None
        self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._find(event.value)

    def _find(self, text: str) -> None:
        self._sought, self._match = text, len(self._lines)
        self._close_entry()
        self.action_next(-1)

    async def action_seek(self) -> None:
        if self._entry.display:
            await self._entry.catch_up()
            self._find(self._entry.value)

    async def action_escape(self) -> None:
        """Give up the search, or leave."""
        if not self._entry.display:
            self.action_leave()
            return
        await self._entry.catch_up()
        self._entry.value = ""
        self._close_entry()

    def _close_entry(self) -> None:
        self._entry.display = False
        self.set_focus(None)
        self.draw()

    def action_next(self, by: int) -> None:
        """To the next line that has what was searched for, or to the one before; and around."""
        matches = self._matches()
        if not matches:
            self._said = "no line has it" if self._sought else "/ searches first"
        else:
            # From what was found, not from the row at the top: the last lines never get there.
            here = self._match
            if here is None:
                here = bisect_left(self._starts, self._top + (by > 0)) - (by > 0)
            later = [number for number in matches if number > here]
            earlier = [number for number in matches if number < here]
            self._match = (later or matches)[0] if by > 0 else (earlier or matches)[-1]
            self._is_following, self._top, self._said = False, self._starts[self._match], ""
        self.draw()

    def action_save(self) -> None:
        self._said = self._save(self.whole) or ""
        self.draw()

    def action_page(self) -> None:
        self._said = self._page(self.whole) or ""
        self.draw()


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
