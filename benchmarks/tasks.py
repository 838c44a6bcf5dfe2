"""Tasks that the parts of the benchmark need beside those of `tontine.bench_tasks`."""

from __future__ import annotations

import time
from pathlib import Path

from tontine import Module

from .peers import wire

nap = Module("nap", version="1.0", authors=["The Tontine authors"])


@nap.task
def sleep(seconds: float) -> float:
    """Keeps a slot for so long, and the CPU not at all."""
    time.sleep(seconds)
    return seconds


@nap.task
def ping(sent: float, traces: str) -> None:
    """Leaves the same trace of its start as the peers' tasks."""
    wire.stamp(sent, Path(traces))
