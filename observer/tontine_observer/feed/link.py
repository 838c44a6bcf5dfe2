"""How well the observer hears, kept true and said: also when nothing is heard any more and no call
has failed yet."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from tontine.clock import wall_time

from ..model import intake
from ..model.known import Known
from ..records.link import ELECTION, Link, Mode

WATCH_EVERY = 0.5
ELECTION_AFTER, SILENT_AFTER, SILENT_POLLED_AFTER = 1.0, 3.0, 6.0
"""How long nothing may be heard until that is said. A stream says something twice a second; who
polls pauses."""


class LinkKeeper:
    """Writes what is known of the link."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.refused: dict[str, str] = {}
        """Collections that may not be read, and what the server said."""
        self._heard_at = 0.0
        self._has_answered = False
        self._silent_rounds = 0
        self._doubted: Link | None = None
        """What the link said before nothing was heard for too long."""

    @property
    def link(self) -> Link:
        return self.known.link

    @property
    def was_ever_heard(self) -> bool:
        return self._heard_at > 0

    def show(self, **facts: Any) -> None:
        """Change what the link says."""
        if "mode" in facts:
            self._doubted = None
        age = time.monotonic() - self._heard_at if self.was_ever_heard else 0.0
        self.known.link = replace(self.link, age=age, refused=dict(self.refused), **facts)

    def heard(self, **facts: Any) -> None:
        """The store answered just now, and with more than a greeting: that also who may not read
        gets."""
        self._heard_at = time.monotonic()
        self._has_answered = True
        self._silent_rounds = 0
        intake.hear(self.known, self.server_now())
        if self._doubted is not None:
            facts = {"mode": self._doubted.mode, "reason": self._doubted.reason} | facts
        self.show(**facts)

    def watch(self, *, is_electing: bool) -> None:
        """Say when nothing was heard for too long, although no call has failed yet; called every
        `WATCH_EVERY`.

        Counted in rounds: a machine that slept has not heard anything either, and its store is in
        order.
        """
        self._silent_rounds += 1
        link = self.link
        patience = SILENT_AFTER if link.mode is Mode.LIVE else SILENT_POLLED_AFTER
        if is_electing:
            patience = ELECTION_AFTER
        if link.is_fresh and self._silent_rounds * WATCH_EVERY >= patience:
            self.show(
                mode=Mode.STALE, reason=ELECTION if is_electing else "", retry_in=None, lag=None
            )
            self._doubted = link
        elif link.mode is Mode.STALE:
            self.show()

    def has_answered(self) -> bool:
        """Whether the store has answered since this was asked last."""
        answer, self._has_answered = self._has_answered, False
        return answer

    def server_now(self) -> float:
        return wall_time() - self.link.ahead
