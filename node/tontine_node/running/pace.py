"""How far ahead of its slots a node may claim and send: far for quick jobs, hardly at all for slow
ones."""

from __future__ import annotations

AHEAD_FOR = 0.1
"""Seconds of work to keep ready per slot: enough to hide a claim, too little to keep jobs from idle
nodes."""
CLAIM_AT_MOST = 1000
SEND_AT_MOST = 250
CAREFUL_FOR = 50
"""Jobs after one that took longer: there may be another among them, and what was claimed ahead
would wait for it."""


class Pace:
    """A running estimate of how long a job keeps a slot."""

    def __init__(self) -> None:
        self._mean = 0.05
        self._careful = 0

    def ran(self, seconds: float, jobs: int = 1, longest: float = 0.0) -> None:
        """Jobs ended that took `seconds` each on average. A frame of many counts more than a frame
        of one."""
        weight = 1 - 0.8 ** min(jobs, 10)
        self._mean += weight * (seconds - self._mean)
        self._careful = (
            CAREFUL_FOR if max(seconds, longest) > AHEAD_FOR else max(0, self._careful - jobs)
        )

    @property
    def mean(self) -> float:
        return self._mean

    def ahead(self) -> int:
        """Jobs to keep ready per slot, the running one included."""
        return 1 + min(1 if self._careful else SEND_AT_MOST, int(AHEAD_FOR / max(self._mean, 1e-6)))

    def claim_target(self, slots: int) -> int:
        """Jobs to hold for so many slots."""
        return min(max(CLAIM_AT_MOST, slots), 2 * slots * self.ahead() - slots)
