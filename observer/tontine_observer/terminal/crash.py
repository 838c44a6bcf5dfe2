"""What is left of a crash: its traceback, in a file."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tontine.legible import legible_lines


def write_crash(
    error: BaseException, directory: Path, now: datetime, hide: Callable[[str], str] = str
) -> Path | None:
    """The traceback of a crash, without local variables, in a file; None when it cannot be
    written."""
    text = "".join(traceback.format_exception(error))
    file = directory / f"observer-crash-{now:%Y%m%d-%H%M%S}.txt"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(hide(legible_lines(text)), encoding="utf-8")
    except OSError:
        return None
    return file
