"""How often a context tries to start workers that do not get ready (MC3): after 1, 2, 4 ... 60
seconds, and from the beginning once it has been ready for a minute. Pure."""

from __future__ import annotations

from ..loop import jittered

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
GOOD_AFTER = 60.0
"""Seconds of being ready after which what failed before is forgotten."""


class Tries:
    """One context's failures to get a worker ready, without such a minute in between."""

    def __init__(self) -> None:
        self.error = ""
        """Why the last one failed; nothing since another one got ready."""
        self.next_at = float("-inf")
        """When the next worker may be started, by the stopwatch."""
        self._count = 0
        self._failed_at = float("-inf")
        self._ready_since: float | None = None

    def count(self, now: float) -> int:
        """How many failed."""
        if self._ready_since is not None and now - self._ready_since >= GOOD_AFTER:
            self._count = 0
        return self._count

    def failed(self, started_at: float, now: float, why: str) -> None:
        """A worker that was started then has ended without being of any use.

        Those that were started together fail together: that counts once.
        """
        self.error = why
        if started_at <= self._failed_at:
            return
        self._count = self.count(now) + 1
        self._ready_since = None
        self._failed_at = now
        pause = min(FIRST_PAUSE * 2 ** min(self._count - 1, 16), LONGEST_PAUSE)
        self.next_at = now + jittered(pause)

    def ready(self, now: float) -> None:
        """A worker got ready."""
        self.error = ""
        self.next_at = float("-inf")
        if self._ready_since is None:
            self._ready_since = now
