"""The only reader of time: a stopwatch for leases and waits, the wall clock for display."""

from __future__ import annotations

import time
from typing import Protocol

# CLOCK_MONOTONIC stops while a host is suspended, and a lease must not (protocol G3).
_STOPWATCH = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Seconds that only grow. The zero point is the host's, so processes of one host can compare."""

    def now(self) -> float: ...


class SystemClock:
    """The host's clock, also running while it is suspended."""

    def now(self) -> float:
        return time.clock_gettime(_STOPWATCH)


def wall_time() -> float:
    """Seconds since 1970 by this host's clock: for display, never for a decision."""
    return time.time()
