"""Tasks that workers say they have and do not know when a job of them comes (MO2). Pure."""

from __future__ import annotations

UNKNOWN_TASK = "UnknownTask"
"""The error that such a worker reports."""
SOON = 60.0
"""Seconds within which a second time is no accident any more."""


class UnknownTasks:
    """One context's, until it has newer code."""

    def __init__(self) -> None:
        self.broken: frozenset[str] = frozenset()
        """Those that are not served any more."""
        self._noted: dict[str, float] = {}

    def note(self, task: str, now: float) -> bool:
        """A worker did not know it; whether that makes it broken."""
        before = self._noted.get(task)
        self._noted[task] = now
        if before is None or now - before > SOON or task in self.broken:
            return False
        self.broken |= {task}
        return True

    def forget(self) -> None:
        """There is newer code."""
        self.broken = frozenset()
        self._noted.clear()
