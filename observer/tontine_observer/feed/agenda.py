"""What is due when: the longer something takes, the less often it is done."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Agenda:
    """Things by name, and from when on each is due again."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def is_due(self, what: str, every: float) -> bool:
        """Whether it is due; then it is due again in so many seconds."""
        if time.monotonic() < self._due.get(what, 0.0):
            return False
        self.put_off(what, every)
        return True

    def put_off(self, what: str, seconds: float) -> None:
        self._due[what] = time.monotonic() + seconds

    def hurry(self, what: str) -> None:
        """It is due now."""
        self._due.pop(what, None)

    async def timed(self, what: str, work: Awaitable[T], every: float, part: float) -> T:
        """Do it; it is due again so late that it takes at most one part in so many of the time."""
        began = time.monotonic()
        answer = await work
        took = time.monotonic() - began
        self.put_off(what, max(every, part * took))
        return answer
