"""What goes in, through and out, in numbers and over time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tontine.rules.health import GROWING_FROM


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers over time, oldest first; None is a stretch that was not recorded."""

    start: datetime
    step: float
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """What goes in, through and out."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Jobs per state, the known states first."""
    started: int | None = None
    """Of those working, how many are known to have started; None when the window does not hold all
    of them."""
    later: int = 0
    """Of those queued, how many are for later, as far as known."""
    unnumbered: int = 0
    in_rate: float = 0.0
    out_rate: float = 0.0
    done_rate: float = 0.0
    failed_rate: float = 0.0
    retried_rate: float = 0.0
    """Working jobs that went back to the queue, per second."""
    cancelled_rate: float = 0.0
    wait_p50: float | None = None
    """Seconds from due to claimed, of the jobs claimed in the last minute."""
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None
    oldest: int | None = None
    oldest_age: float | None = None
    oldest_rank: int | None = None
    incoming: Series | None = None
    outgoing: Series | None = None
    depth: Series | None = None
    """Jobs queued; all three series share one axis: ten minutes."""
    empty_in: float | None = 0.0
    """Seconds until the queue is empty at the rate of the last minute; None when it never is."""
    is_counted: bool = True
    """False until the finished jobs were counted once."""

    @property
    def is_long(self) -> bool:
        """Whether so many wait that it matters when there will be none."""
        return self.counts.get("queued", 0) >= GROWING_FROM

    @property
    def has_outlook(self) -> bool:
        """Whether it is worth saying when there will be none: not where the last seconds say the
        opposite of the minute that this is worked out from, unless a long queue goes on ending."""
        grows = self.net_rate >= 0
        return bool(self.out_rate) and (
            grows if self.empty_in is None else self.is_long or not grows
        )

    @property
    def net_rate(self) -> float:
        return self.in_rate - self.out_rate
