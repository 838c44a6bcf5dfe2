"""Tasks that the parts of the benchmark need beside those of `tontine.bench_tasks`."""

from __future__ import annotations

import time
from pathlib import Path

from tontine import Module, Stream

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


flow = Module("flow", version="1.0", authors=["The Tontine authors"])


@flow.task
def link(sent: float, seconds: float) -> float:
    """One step of a chain, as the peers have it."""
    return wire.link(sent, seconds)


@flow.task
def item(n: int, seconds: float) -> int:
    """One item of a mapped step."""
    return wire.item(n, seconds)


@flow.task
def gather(results: Stream[int], sent: float) -> int:
    """The step that takes the results of all items."""
    return wire.gather(results, sent)
