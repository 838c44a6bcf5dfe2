"""How much happens: whether every change can be followed, or only a sample of it. Pure.

A person cannot follow single jobs at thousands a second, and reading them all costs an observer and
the server as much as the work itself. So an observer lets go early, by the rate, long before it
falls behind.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When to let go of single changes, and when to take them up again. All by the server's
    clock."""

    rate: float = 3_000.0
    """Changes a second that are followed for as long as they come."""
    burst: float = 3_000.0
    """Changes above that rate that are taken in all the same."""
    late: float = 5.0
    """Seconds that changes may be late, whatever their rate."""
    calm: float = 1_500.0
    """Changes a second at which they are followed again: half of `rate`, so that it does not go to
    and fro."""
    calm_for: float = 10.0
    """Seconds for which it has to be calm."""


class Pressure:
    """Fills with every change and empties at the rate that can be followed: what does not fit any
    more is too much."""

    def __init__(self, limits: Thresholds | None = None) -> None:
        self.limits = limits or Thresholds()
        self.rate = 0.0
        """Changes a second while they are not followed, as far as the counters tell."""
        self._level = 0.0
        self._noted_at: float | None = None
        self._late_since: float | None = None
        self._totals: deque[tuple[float, int]] = deque()

    def note(self, count: int, at: float, lag: float) -> bool:
        """Take `count` changes, the last made at `at` and heard `lag` seconds later; whether it is
        too much."""
        limits = self.limits
        passed = max(0.0, at - self._noted_at) if self._noted_at is not None else 0.0
        self._noted_at = at
        self._level = max(0.0, self._level - limits.rate * passed) + count
        heard_at = at + lag
        self._late_since = None if lag <= limits.late else self._late_since or heard_at
        is_late = self._late_since is not None and heard_at - self._late_since > 1.0
        return self._level > limits.burst or is_late

    def let_go(self) -> None:
        """From here on changes are not followed."""
        self.rate = self._level = 0.0
        self._noted_at = self._late_since = None
        self._totals.clear()

    def is_calm(self, at: float, total: int) -> bool:
        """Take how many changes there were in all until `at`; whether few enough came of late to
        follow each again."""
        totals = self._totals
        totals.append((at, total))
        while len(totals) > 2 and at - totals[1][0] >= self.limits.calm_for:
            totals.popleft()
        (first, before), passed = totals[0], at - totals[0][0]
        self.rate = max(0, total - before) / passed if passed > 0 else 0.0
        return at - first >= self.limits.calm_for and self.rate <= self.limits.calm
