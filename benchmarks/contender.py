"""Who is measured, and what they can be asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

TONTINE, BARE = "Tontine", "bare loop"


@dataclass(frozen=True, slots=True)
class Drained:
    """Jobs a second: put in, and worked off from the first to the last that ended."""

    filled: float
    drained: float
    calls: float | None = None
    """Store calls per job, if the store tells."""


class Drainer(Protocol):
    """Somebody who works a backlog off."""

    name: str
    is_slow: bool
    """Whether a large backlog would take too long."""

    def drain(self, jobs: int) -> Drained: ...


class Starter(Protocol):
    """Somebody who starts a job that has just come."""

    name: str

    def latency(self, probes: int, warm_up: int) -> list[float]:
        """Milliseconds from submit to start, idle workers, one job at a time."""


class Contender(Drainer, Starter, Protocol):
    """A whole queue, with producers and workers."""

    def submit(self, jobs: int) -> float:
        """Jobs a second, one call for each, nobody working."""
