"""How the log tells of an outage: once when MongoDB goes away and once when it is back, not once
per loop and try."""

from __future__ import annotations

import logging
import sys

from tontine.errors import StoreUnavailable
from tontine.legible import duration

AWAY, BACK = "store-away", "store-back"
_OVER = frozenset({BACK, "registered", "ready", "unfenced"})
"""Events that no node has without MongoDB."""


def told_away(where: str, silent_for: float, lease_left: float, error: str) -> str:
    """What the log says when MongoDB goes away, for people."""
    place = f" at {where}" if where else ""
    lasts = (
        f"what runs goes on for {duration(lease_left)}, until the lease is over"
        if lease_left > 0
        else "nothing runs"
    )
    meanwhile = f"{lasts}, nothing is claimed, and it is tried again until it answers"
    return (
        f"MongoDB{place} has not answered for {duration(silent_for)}; waiting: {meanwhile} "
        f"({error})"
    )


class OutageFilter(logging.Filter):
    """Keeps from the log, but for its details, what every loop has to say while MongoDB does not
    answer.

    Who speaks while it handles a `StoreUnavailable` speaks of that: so no loop has to know whether
    it is the first.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        super().__init__()
        self._verbose = verbose
        self._is_away = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written; one that only repeats that MongoDB is away becomes a detail."""
        event = getattr(record, "event", "")
        if event in _OVER:
            self._is_away = False
        elif event == AWAY and not self._is_away:
            self._is_away = True
        elif event == AWAY or self._is_repetition(record):
            record.levelno, record.levelname = logging.DEBUG, "DEBUG"
            return self._verbose
        return True

    def _is_repetition(self, record: logging.LogRecord) -> bool:
        # Without an outage a warning tells of a call that took too long by itself; less than that
        # is of no use.
        is_about_it = isinstance(sys.exception(), StoreUnavailable)
        return is_about_it and (self._is_away or record.levelno <= logging.INFO)
