"""How the observer hears of the system, and how well. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Mode(StrEnum):
    """How the data comes in. What the user froze or scrolled back to is the screen's own
    business."""

    CONNECTING = "connecting"
    LIVE = "live"
    # More than anybody can follow: looked at every two seconds, jobs are counted and some shown.
    SAMPLED = "sampled"
    POLL = (
        "poll"  # no change stream: looked at every two seconds, what happens in between is unseen
    )
    STALE = "stale"  # the store does not answer: the last known data
    REPLAY = "replay"  # from a recording, without a store


ELECTION = "election"
"""The reason of a link while the replica set has no primary."""


@dataclass(frozen=True, slots=True)
class Link:
    """How the observer hears of the system: shown as LIVE, STALE 14 s, retry in 4 s, and so on."""

    mode: Mode = Mode.CONNECTING
    reason: str = ""
    """Why the mode is not LIVE, in one line; also `ELECTION`."""
    age: float = 0.0
    """Seconds since the store last answered."""
    retry_in: float | None = None
    lag: float | None = None
    """Seconds from a change to its arrival here; None without a stream."""
    rate: float = 0.0
    """Changes a second while SAMPLED, as far as the counters tell."""
    ahead: float = 0.0
    """How far this machine's clock is ahead of the server's."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Collections that may not be read, and what the server said."""
    read_only: str = ""
    """Why nothing may be asked of nodes or jobs; empty when it may (RW)."""
    unknown: int = 0
    """States and kinds of changes seen that this version does not know."""

    @property
    def is_fresh(self) -> bool:
        return self.mode in (Mode.LIVE, Mode.SAMPLED, Mode.POLL)
