"""Waiting for facts instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T | None], within: float = 30.0, what: str = "") -> T:
    """The first true answer of `check`; fails when none comes in time."""
    until = time.monotonic() + within
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(
                f"not within {within:g} s: {what or check}; last answer: {answer!r}"
            )
        time.sleep(0.02)


async def eventually_async(
    check: Callable[[], Awaitable[T | None]], within: float = 30.0, what: str = ""
) -> T:
    """The same for an event loop, which must go on while we wait."""
    until = time.monotonic() + within
    while True:
        answer = await check()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(
                f"not within {within:g} s: {what or check}; last answer: {answer!r}"
            )
        await asyncio.sleep(0.02)
