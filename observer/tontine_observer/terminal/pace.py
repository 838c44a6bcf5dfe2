"""How often the screen is drawn: ten times a second, and less often while the loop lags. Pure."""

from __future__ import annotations

RATES = (10.0, 5.0, 2.0)
LATE = 0.75
"""Of a frame's interval at full rate: a loop that wakes later than this is overloaded."""
SLOWER_AFTER, FASTER_AFTER = 3, 20


class PaintPace:
    """Falls after a few late frames in a row and rises after many punctual ones."""

    def __init__(self) -> None:
        self._step = 0
        self._late = 0
        self._punctual = 0

    @property
    def interval(self) -> float:
        """Seconds from one frame to the next."""
        return 1.0 / RATES[self._step]

    def note(self, lag: float) -> bool:
        """Take how late a frame came; whether the interval changed."""
        before = self._step
        if lag > LATE / RATES[0]:
            self._late, self._punctual = self._late + 1, 0
        else:
            self._late, self._punctual = 0, self._punctual + 1
        if self._late >= SLOWER_AFTER and self._step < len(RATES) - 1:
            self._step, self._late = self._step + 1, 0
        elif self._punctual >= FASTER_AFTER and self._step:
            self._step, self._punctual = self._step - 1, 0
        return self._step != before
