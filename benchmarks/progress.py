"""What the benchmark says while it works, on stderr."""

from __future__ import annotations

import time

from tontine.cli.output import note

_BEGAN = time.monotonic()


def say(what: str) -> None:
    """One line, with the minutes and seconds since the beginning."""
    minutes, seconds = divmod(int(time.monotonic() - _BEGAN), 60)
    note(f"{minutes:3d}:{seconds:02d}  {what}")
