"""Textual's web driver for a tab, which ends with the server that started it."""

from __future__ import annotations

import contextlib
import os

from textual import messages
from textual.drivers.web_driver import WebDriver


class TabDriver(WebDriver):
    """Reads keys from a pipe and writes the screen to another. Both end when the server does,
    whatever ended it."""

    def _send(self, data: bytes) -> int:
        with contextlib.suppress(BrokenPipeError):
            return os.write(self.fileno, data)
        return 0

    def start_application_mode(self) -> None:
        self._write = self._send  # type: ignore[assignment]
        super().start_application_mode()

    def run_input_thread(self) -> None:
        super().run_input_thread()
        if not self.exit_event.is_set():  # the pipe has ended
            self._app.post_message(messages.ExitApp())
