"""The line that filters are typed in: completes fields and values, and remembers the last ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType
from textual.suggester import Suggester

from .entry import TextEntry

KEPT = 50

Complete = Callable[[str], str | None]


class _Completer(Suggester):
    """What Textual asks after every letter."""

    def __init__(self, complete: Complete) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        return self._complete(value)


class FilterEntry(TextEntry):
    """`tab` takes what is suggested, up and down go through what was typed before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("tab", "cursor_right", "complete"),
        ("up", "recall(1)", "the filter before"),
        ("down", "recall(-1)", "the filter after"),
    ]

    def __init__(self, id: str, placeholder: str, complete: Complete) -> None:
        super().__init__(id, placeholder)
        self.suggester = _Completer(complete)
        self._kept: list[str] = []
        self._back = 0

    def keep(self, text: str) -> None:
        """Remember a filter, the newest last."""
        self._back = 0
        if text.strip():
            self._kept = [*(one for one in self._kept if one != text), text][-KEPT:]

    def action_recall(self, by: int) -> None:
        self._back = max(0, min(len(self._kept), self._back + by))
        self.value = self._kept[-self._back] if self._back else ""
        self.cursor_position = len(self.value)
