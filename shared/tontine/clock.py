"""The only reader of time: a stopwatch for leases and waits, the wall clock for display."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Protocol

if sys.platform == "win32":  # only clients run there, and they have no lease
    _read_stopwatch = time.monotonic
else:
    # CLOCK_MONOTONIC stops while a host is suspended, and a lease must not (protocol G3).
    _read_stopwatch = partial(
        time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    )


class Clock(Protocol):
    """Seconds that only grow. The zero point is the host's, so processes of one host can
    compare."""

    def now(self) -> float: ...


class SystemClock:
    """The host's clock, also running while it is suspended."""

    def now(self) -> float:
        return _read_stopwatch()


def wall_time() -> float:
    """Seconds since 1970 by this host's clock: for display, never for a decision."""
    return time.time()
