"""Signals that end the observer, in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress


def end_on_signals(leave: Callable[[], object], *names: str) -> None:
    """End in order on SIGTERM and SIGHUP, and these; left alone, the terminal would stay in the
    screen's mode."""
    loop = asyncio.get_running_loop()
    for number in [
        getattr(signal, name) for name in ("SIGTERM", "SIGHUP", *names) if hasattr(signal, name)
    ]:
        with suppress(
            ValueError, RuntimeError, NotImplementedError
        ):  # not in the main thread, or on Windows
            loop.add_signal_handler(number, leave)
