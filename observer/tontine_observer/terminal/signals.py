"""The terminal around the screen: signals that end it, the mouse, a crash's traceback."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tontine.legible import legible_lines


def end_on_signals(leave: Callable[[], object], *names: str) -> None:
    """End in order on SIGTERM and SIGHUP, and these; left alone, the terminal would stay in the screen's mode."""
    loop = asyncio.get_running_loop()
    for number in [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", *names) if hasattr(signal, name)]:
        with suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread, or on Windows
            loop.add_signal_handler(number, leave)


def release_mouse(driver: Any, *, is_released: bool) -> bool:
    """Let the terminal have the mouse, or take it back; whether this terminal can."""
    act = getattr(driver, "_disable_mouse_support" if is_released else "_enable_mouse_support", None)
    if act is None:
        return False
    act()
    return True


def write_crash(error: BaseException, directory: Path, now: datetime, hide: Callable[[str], str] = str) -> Path | None:
    """The traceback of a crash, without local variables, in a file; None when it cannot be written."""
    text = "".join(traceback.format_exception(error))
    file = directory / f"observer-crash-{now:%Y%m%d-%H%M%S}.txt"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(hide(legible_lines(text)), encoding="utf-8")
    except OSError:
        return None
    return file
