"""How long jobs waited and ran: the newest ones, to take quantiles of. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tontine.records.states import JobState

from ..records.job import JobRow

OVER = 60.0
KEPT = 6_000


class Times:
    """Waits and runs, each with the moment at which it was known."""

    def __init__(self) -> None:
        self._waits: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._runs: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._sorted: dict[str, tuple[float, list[float]]] = {}

    def note(self, at: float, before: JobRow, row: JobRow) -> None:
        """Learn from one change of a job."""
        if row.state == before.state:
            return
        if row.state == JobState.WORKING:
            due = before.due_at
            if due is not None:
                self._waits.append((at, max(0.0, at - due)))
        elif not row.is_open and (ran := row.ran) is not None:
            self._runs.append((at, ran))

    def waits(self, at: float) -> list[float]:
        """Those of the last minute, the shortest first."""
        return self._recent("waits", self._waits, at)

    def runs(self, at: float) -> list[float]:
        """Those of the last minute, the shortest first."""
        return self._recent("runs", self._runs, at)

    def _recent(self, name: str, times: Iterable[tuple[float, float]], at: float) -> list[float]:
        # Sorting thousands for every frame would cost more than it tells: once a second is enough.
        known = self._sorted.get(name)
        if known is None or not 0 <= at - known[0] < 1:
            found = sorted(seconds for noted, seconds in times if at - OVER < noted <= at)
            self._sorted[name] = known = (at, found)
        return known[1]
