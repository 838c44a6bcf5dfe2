"""A line to type in: the filter, a name to confirm, a reason."""

from __future__ import annotations

import asyncio

from textual import events
from textual.widgets import Input


class TextEntry(Input):
    """One plain line without a frame."""

    DEFAULT_CSS = """
    TextEntry { height: 1; border: none; padding: 0; background: $panel; color: $foreground; }
    TextEntry:focus { border: none; background: $panel; }
    """

    def __init__(self, id: str, placeholder: str = "", value: str = "") -> None:
        super().__init__(value, placeholder=placeholder, id=id, compact=True, select_on_focus=False)
        self.cursor_blink = False

    async def on_key(self, event: events.Key) -> None:
        """Move and rub out in the order of the keys: Textual would do so after the letters that
        follow."""
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if not event.is_printable and await self.app.run_action(binding.action, self):
                event.stop()
                event.prevent_default()
                return

    async def catch_up(self) -> None:
        """Wait until every key that was typed before is in the line."""
        is_there = asyncio.Event()
        if self.call_later(is_there.set):
            await is_there.wait()
