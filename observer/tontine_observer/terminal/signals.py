"""Signals that end the observer, in order; and a terminal that is gone."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

LEAVES_WITHIN = 3.0
"""Seconds to end in order after the terminal has gone."""


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


def end_with_terminal(file: int = 0) -> None:
    """End when the terminal does, whatever then still waits to be written there: nobody takes it,
    and who waits for that waits for ever."""
    if sys.platform != "linux" or not os.isatty(file):
        return

    def watch() -> None:
        gone = select.poll()
        gone.register(file, 0)  # of nothing but errors, and of its end
        gone.poll()
        time.sleep(LEAVES_WITHIN)
        os._exit(128 + signal.SIGHUP)

    threading.Thread(target=watch, name="terminal", daemon=True).start()
