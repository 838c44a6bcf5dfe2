"""What a node's record says is wrong inside it, as records and as sentences. Tolerant of anything
in it. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ..legible import count, duration, legible

TROUBLES_READ = 20
"""A node has a dozen loops: a record with more is nobody's honest word."""

LASTING = 15.0
"""Seconds after which a trouble is no longer a passing one, such as an election brings along."""
_WHAT_KEPT, _WHY_KEPT = 40, 300

_DEEDS = {
    "claiming": "claim jobs",
    "settling": "store outcomes",
    "numbering": "number jobs",
    "schedules": "fire schedules",
    "declaring": "make known the schedules of its modules",
    "times": "end what is late",
    "watching": "watch the other nodes",
    "upkeep": "look after what nodes hold",
    "control": "follow what is asked of it",
    "fence": "guard its lease",
    "samples": "keep samples",
    "listening": "listen for new jobs",
    "workers": "start workers",
    "healing": "put back what was dropped",
    "intake": "take in jobs from the inbox",
    "live file": "touch its live file",
}
_DISPENSABLE = frozenset({"samples", "listening", "live file"})


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that has been failing in a node, without a success in between."""

    what: str
    why: str = ""
    since: datetime | None = None
    """By the server's clock, as far as the node's own clock is known."""
    times: int = 1

    @property
    def is_grave(self) -> bool:
        """Whether jobs suffer from it: without samples, a bell and a live file a node works as
        ever."""
        return self.what not in _DISPENSABLE

    @property
    def deed(self) -> str:
        """What the node cannot do, as a verb."""
        if self.what.startswith("workers of "):
            return f"start {self.what}"
        return _DEEDS.get(self.what, f"go on with {self.what}")

    def lasted(self, now: datetime) -> float | None:
        """Seconds from its beginning until `now`."""
        return None if self.since is None else max(0.0, (now - self.since).total_seconds())

    def told(self, now: datetime) -> str:
        """The predicate of a sentence about its node."""
        lasted = self.lasted(now)
        long = "" if lasted is None else f" for {duration(lasted)}"
        tries = f" ({self.times:,} tries)" if self.times > 1 else ""
        return f"has not been able to {self.deed}{long}{tries}" + (
            f": {self.why.rstrip('.')}" if self.why else ""
        )


def lack_of_workers(there: int | None, wanted: int | None) -> str:
    """The predicate of a sentence about a node with fewer workers than it wants; empty when it has
    all of them."""
    if there is None or wanted is None or there >= wanted:
        return ""
    return f"has {f'only {there}' if there else 'none'} of its {count(wanted, 'worker')}"


def read_troubles(
    value: Any, ahead: float = 0.0, clean: Callable[[Any, int], str] = legible
) -> tuple[Trouble, ...]:
    """The troubles of a record's field; `ahead` is how far its node's clock is ahead of the
    server's."""
    found: dict[str, Trouble] = {}
    for one in value[:TROUBLES_READ] if isinstance(value, list | tuple) else ():
        if isinstance(one, Mapping) and (what := clean(one.get("what") or "", _WHAT_KEPT)):
            times = one.get("times")
            found[what] = Trouble(
                what,
                clean(one.get("why") or "", _WHY_KEPT),
                _earlier(one.get("since"), ahead),
                times
                if isinstance(times, int) and not isinstance(times, bool) and times > 0
                else 1,
            )
    return tuple(found.values())


def _earlier(moment: Any, seconds: float) -> datetime | None:
    if not isinstance(moment, datetime):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return aware - timedelta(seconds=seconds if math.isfinite(seconds) else 0.0)
    except OverflowError:
        return aware
