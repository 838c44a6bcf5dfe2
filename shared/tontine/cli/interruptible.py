"""Signals that end a command as Ctrl-C does, so that it leaves behind nothing that it started."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible(*numbers: signal.Signals) -> Iterator[None]:
    """Let each of these signals raise a KeyboardInterrupt, and do afterwards what it did before."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
