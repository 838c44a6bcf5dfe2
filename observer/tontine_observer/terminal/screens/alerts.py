"""All alerts, the worst first, each with what to do; enter goes where one leads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from tontine.rules.complaint import Weight

from ...draw.line import Line, on, wrap
from ...draw.style import Look
from ...records.alert import Alert
from .dialog import Dialog

ROLES = {Weight.BAD: "alert", Weight.WARNING: "notice", Weight.NOTICE: "info"}


class Alerts(Dialog[Alert | None]):
    """Returns the one that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "choose", "show it"),
        ("escape,q,exclamation_mark", "leave", "close"),
    ]

    def __init__(self, alerts: Callable[[], Sequence[Alert]], look: Look) -> None:
        super().__init__("Alerts", look, 100)
        self._alerts = alerts
        self._place = 0

    def on_mount(self) -> None:
        self.draw()
        self.set_interval(1.0, self.draw)

    def body(self, width: int) -> list[Line]:
        found = self._alerts()
        self._place = max(0, min(self._place, len(found) - 1))
        lines: list[Line] = []
        for number, alert in enumerate(found):
            entry = self._entry(alert, width)
            if number == self._place:
                self._follow(len(lines), len(entry))
                entry = [on(line, "cursor") for line in entry]
            lines += [*entry, [("", "text")]]
        return lines or [[(" nothing needs you any more", "muted")]]

    def _entry(self, alert: Alert, width: int) -> list[Line]:
        glyphs, role = self._look.glyphs, ROLES[alert.weight]
        lines = _hanging(f" {glyphs.alert} ", alert.text, width, role, role)
        return lines + _hanging(f"   {glyphs.arrow} ", alert.advice, width, "muted", "text")

    def _follow(self, first: int, size: int) -> None:
        """Keep the one under the cursor in sight."""
        room = max(1, self.app.size.height - 3)
        self._top = min(first, max(self._top, first + size - room))

    def fixed(self, _: int) -> list[Line]:
        shows = " shows what it is about   "
        return [[(" enter", "key"), (shows, "muted"), ("esc", "key"), (" close", "muted")]]

    def action_scroll_lines(self, by: int) -> None:
        self._place = max(0, self._place + by)
        self.draw()

    def action_choose(self) -> None:
        found = self._alerts()
        self.dismiss(found[self._place] if found else None)


def _hanging(first: str, text: str, width: int, first_role: str, role: str) -> list[Line]:
    """A text in lines, with something before the first and as much room before the others."""
    lines: list[Line] = []
    for part in wrap(text, width - len(first) - 1) if text else ():
        lines.append([(first if not lines else " " * len(first), first_role), (part, role)])
    return lines
