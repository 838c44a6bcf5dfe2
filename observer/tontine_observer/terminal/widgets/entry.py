"""A line to type in: the filter, a name to confirm, a reason."""

from __future__ import annotations

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
