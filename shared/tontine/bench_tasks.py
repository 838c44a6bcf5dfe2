"""Tasks for `tontine bench`: they cost nothing themselves, so that what is measured is everything
around them."""

from __future__ import annotations

import time

from . import Module

bench = Module("bench", version="1.0", authors=["The Tontine authors"])


@bench.task
def noop() -> None:
    """Does nothing."""


@bench.task
def echo(sent: float) -> dict[str, float]:
    """Gives back what it was given, and when it started by this machine's clock."""
    return {"sent": sent, "started": time.time()}
