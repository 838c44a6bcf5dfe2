"""Filters a long list a little at a time, so that nobody who types waits for it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
AT_ONCE = 100
"""Rows between two looks at the clock."""


class Sieve(Generic[T]):
    """Goes through rows, as far as there is time."""

    def __init__(self, rows: Sequence[T], keeps: Callable[[T], bool]) -> None:
        self.kept: list[T] = []
        self.spent = 0.0
        self._rows = rows
        self._keeps = keeps
        self._place = 0

    @property
    def is_over(self) -> bool:
        return self._place >= len(self._rows)

    def go_on(self, stopwatch: Callable[[], float], seconds: float) -> float:
        """Sift for so many seconds at most, and a few rows at least; how long it took."""
        began = stopwatch()
        took = 0.0
        while not self.is_over and took <= seconds:
            end = min(self._place + AT_ONCE, len(self._rows))
            rows = (self._rows[place] for place in range(self._place, end))
            self.kept += [row for row in rows if self._keeps(row)]
            self._place = end
            took = stopwatch() - began
        self.spent += took
        return took
