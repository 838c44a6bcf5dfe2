"""What the tasks of this node have counted and observed, of jobs whose settlement was accepted."""

from __future__ import annotations

import threading
from typing import Any

from tontine.records.counted import OF_A_NODE, Noted, Number, Observed, Stat, added
from tontine.records.task_key import name_of

Key = tuple[str, str]
"""A task, and a name."""


class Tally:
    """The sums since this node's start, by task and name. Told in the heartbeat's thread."""

    def __init__(self) -> None:
        self._counts: dict[Key, Number] = {}
        self._observed: dict[Key, Observed] = {}
        self._dropped = 0
        self._changing = threading.Lock()

    def add(self, task: str, noted: Noted) -> None:
        """A job of this task is done, and its settlement was accepted (MI6)."""
        plain = name_of(task)
        with self._changing:
            self._dropped += noted.dropped
            for name, count in noted.counts.items():
                if (key := (plain, name)) in self._counts or self._has_room():
                    self._counts[key] = added(self._counts.get(key, 0), count)
            for name, observed in noted.observed.items():
                if (key := (plain, name)) in self._observed or self._has_room():
                    self._observed.setdefault(key, Observed()).merge(observed)

    def _has_room(self) -> bool:
        if len(self._counts) + len(self._observed) < OF_A_NODE:
            return True
        self._dropped += 1
        return False

    def metrics(self) -> dict[str, Any]:
        """For the node's record; nothing where no task counts."""
        if not self._counts and not self._observed:
            return {}
        with self._changing:
            counts = [Stat(*key, count).to_document() for key, count in self._counts.items()]
            observed = [Stat(*key, one).to_document() for key, one in self._observed.items()]
            return {"stats": counts + observed, "stats_dropped": self._dropped}
