"""Asks before something is asked of nodes or jobs. Cancel is what enter does, until you choose
otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from ...draw.line import Line, wrap
from ...draw.style import Look
from ..widgets.entry import TextEntry
from .dialog import Dialog


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be done, what follows from it, and what must be typed to do it (nothing: y is
    enough)."""

    title: str
    verb: str
    sentences: tuple[str, ...]
    word: str = ""
    takes_reason: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """A yes, and why."""

    reason: str = ""


class Confirm(Dialog[Answer | None]):
    """Yes or no; some things only after their name was typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("left,right,tab,shift+tab,h,l", "switch", "the other button"),
        ("y", "yes", "do it"),
        ("n", "leave", "do not"),
        ("enter", "press", "what the button says"),
        ("w", "reason", "add why"),
    ]
    CSS = "Confirm TextEntry { position: absolute; }"

    def __init__(self, question: Question, look: Look) -> None:
        super().__init__(question.title, look, 68)
        self._question = question
        self._is_yes = False
        self._has_reason = False
        self._word = TextEntry("word", f"type {question.word} here") if question.word else None
        self._reason = TextEntry("reason", "why, for whoever reads the record")

    def compose(self) -> ComposeResult:
        yield from super().compose()
        if self._word is not None:
            yield self._word
        self._reason.display = False
        yield self._reason

    def on_mount(self) -> None:
        self.draw()
        if self._word is not None:
            self._word.focus()

    @property
    def is_ready(self) -> bool:
        """Whether a yes would be taken."""
        return self._word is None or self._word.value.strip() == self._question.word

    def body(self, width: int) -> list[Line]:
        lines: list[Line] = [[("", "text")]]
        for sentence in self._question.sentences:
            lines += [[(f" {text}", "text")] for text in wrap(sentence, width - 2)]
        return lines

    def fixed(self, _: int) -> list[Line]:
        lines: list[Line] = [[("", "text")]]
        if self._word is not None:
            lines += [
                [(" Type ", "muted"), (self._question.word, "strong"), (" to go on:", "muted")],
                [("", "text")],
            ]
        if self._has_reason:
            lines += [[(" Why:", "muted")], [("", "text")]]
        cancel = ("[ Cancel ]", "button" if self._is_yes else "choice")
        role = "button" if self.is_ready else "faint"
        if self._is_yes:
            role = "danger"
        keys = "y / n" if self._word is None else "tab, enter / esc"
        more = "" if self._has_reason or not self._question.takes_reason else "   w: why"
        buttons: Line = [
            (" ", "text"),
            cancel,
            ("  ", "text"),
            (f"[ {self._question.verb} ]", role),
        ]
        return [*lines, [("", "text")], [*buttons, (f"   {keys}{more}", "faint")]]

    def draw(self) -> None:
        super().draw()
        # The entries lie over the empty lines that `fixed` left for them, counted from the lower
        # edge.
        row = self.box.y + self.box.height - 1 - 2
        for entry in ([self._reason] if self._has_reason else []) + (
            [self._word] if self._word else []
        ):
            row -= 1
            entry.display = True
            entry.styles.offset = (self.box.x + 2, row)
            entry.styles.width = max(1, self.box.width - 4)
            row -= 1

    def on_input_changed(self, _: Input.Changed) -> None:
        self._is_yes = False
        self.draw()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        if self.is_ready:
            self.set_focus(None)
            self._is_yes = self._word is not None or self._is_yes
            self.draw()

    def on_key(self, event: events.Key) -> None:
        if self.focused is not None and event.key in ("tab", "shift+tab"):
            event.stop()
            event.prevent_default()
            self.set_focus(None)
            self.action_switch()

    def action_switch(self) -> None:
        self._is_yes = not self._is_yes and self.is_ready
        self.draw()

    def action_press(self) -> None:
        self.action_yes() if self._is_yes else self.action_leave()

    def action_yes(self) -> None:
        if self.is_ready:
            self.dismiss(Answer(self._reason.value.strip()))

    def action_reason(self) -> None:
        if self._question.takes_reason:
            self._has_reason = True
            self.draw()
            self._reason.focus()

    def action_leave(self) -> None:
        self.dismiss(None)
