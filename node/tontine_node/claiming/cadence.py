"""How often to look: rarely while the bell would wake the node, else by polling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tontine.clock import Clock


@dataclass(frozen=True, slots=True)
class Cadence:
    """One node's."""

    clock: Clock
    watching: Callable[[], bool]
    """Whether it listens at the bell."""

    def now(self) -> float:
        return self.clock.now()

    def pace_of(self, every: float, poll: float) -> float:
        return every if self.watching() else poll

    def is_time(self, last: float, every: float, poll: float) -> bool:
        return self.clock.now() - last >= self.pace_of(every, poll)
