"""How far an attempt of a staged job is, and how long its stage has run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StagedRun:
    """One attempt, by this process's stopwatch."""

    place: int = 0
    """The stage that runs, or whose output is being stored."""
    inline: int = 0
    """Bytes of outputs in the job itself."""
    begun: float | None = None
    """When that stage began; None for the first of the attempt."""
    waited: float = 0.0
    """Seconds in which no stage ran, because an output was being stored."""
    waits_since: float | None = None

    def times(self, ran: float, now: float) -> tuple[float, float]:
        """How long the attempt and its stage have run, without the time in which they waited."""
        waiting = 0.0 if self.waits_since is None else now - self.waits_since
        whole = ran - self.waited - waiting
        return whole, whole if self.begun is None else now - self.begun - waiting
