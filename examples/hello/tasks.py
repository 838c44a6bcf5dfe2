"""The smallest useful module: one sync and one async task."""

from __future__ import annotations

import asyncio

from tontine import Module, current_job

hello = Module("hello", version="1.0", authors=["You <you@example.org>"])


@hello.task
def greet(name: str) -> str:
    return f"Hello, {name}! This is job {current_job().seq}."


@hello.task(max_attempts=3)
async def count(to: int = 3) -> int:
    for step in range(1, to + 1):
        current_job().progress(step / to, f"{step} of {to}")
        await asyncio.sleep(0.1)
    return to
