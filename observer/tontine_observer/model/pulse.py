"""Heartbeats and claim loops over time: only over time does one see a loop that stands still.
Pure."""

from __future__ import annotations

from tontine.records.node import BEATS_IN_A_LEASE
from tontine.records.states import NodeState

from ..records.node import NodeFact

STILL_FOR = 5.0


class TickWatch:
    """Remembers at which beat each node's claim loop last moved."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        self.still: set[str] = set()
        """The live nodes that have beaten for `STILL_FOR` seconds without a round of their claim
        loop."""

    def note(self, fact: NodeFact) -> None:
        """Look at a record that has just changed."""
        since, tick = self._seen.get(fact.id, (fact.beat, fact.tick))
        if fact.tick != tick:
            since = fact.beat
        self._seen[fact.id] = (since, fact.tick)
        passed = (fact.beat - since) * fact.lease / BEATS_IN_A_LEASE
        if passed >= STILL_FOR and not fact.is_dead and fact.state != NodeState.INITIALIZING:
            self.still.add(fact.id)
        else:
            self.still.discard(fact.id)
