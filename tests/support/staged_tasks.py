"""Tasks of stages that the stories run; each run of a stage is noted in the ledger."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.support.tasks import note
from tontine import Module, current_job

staged = Module("staged", version="1.3")

gated = staged.stages("gated")


@gated.extract
def fetch(path: str) -> list[str]:
    note("fetch")
    return [path] * 3


@gated.transform
def clean(rows: list[str], path: str) -> str:
    """Runs until a file appears."""
    note("clean")
    while not Path(path).exists():
        time.sleep(0.01)
    return rows[0]


@gated.load
def store(row: str) -> str:
    note("store")
    return row


large = staged.stages("large", max_attempts=3, backoff=lambda _: 0.05)


@large.stage
async def make(size: int) -> bytes:
    note("make")
    return b"x" * size


@large.stage
def measure(data: bytes, path: str) -> int:
    note("measure")
    if not Path(path).exists():
        raise ValueError("not yet")
    return len(data)


slow = staged.stages("slow", timeout=30)


@slow.stage
def quick() -> int:
    note("quick")
    return 1


@slow.stage(timeout=0.4)
def endless(it: int) -> int:
    note("endless")
    time.sleep(30)
    return it


hasty = staged.stages("hasty", timeout=30)


@hasty.stage
async def soon() -> int:
    return 1


@hasty.stage(timeout=0.4)
async def never(it: int) -> int:
    import asyncio

    await asyncio.sleep(30)
    return it


@staged.task(saves=True)
def count_to(last: int, path: str) -> list[int]:
    """Saves how far it came, and ends its worker once on the way."""
    job = current_job()
    first = int(job.saved or 0)
    for number in range(first, last):
        job.save(number + 1)
        time.sleep(0.02)
        if number == last // 2 and not Path(path).exists():
            Path(path).touch()
            time.sleep(1.2)  # long enough to be written
            os._exit(3)
    return [first, last]
