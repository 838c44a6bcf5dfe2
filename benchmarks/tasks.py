"""Tasks that the parts of the benchmark need beside those of `tontine.bench_tasks`."""

from __future__ import annotations

import time

from tontine import Module

nap = Module("nap", version="1.0", authors=["The Tontine authors"])


@nap.task
def sleep(seconds: float) -> float:
    """Keeps a slot for so long, and the CPU not at all."""
    time.sleep(seconds)
    return seconds
