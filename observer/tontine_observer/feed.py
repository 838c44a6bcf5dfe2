"""Looks at the store, again and again; never writes."""

from __future__ import annotations

from collections.abc import Mapping

from tontine.states import NodeState
from tontine.store import events, look
from tontine.store.call import Steps

from .board import COUNTED_AT_MOST, Snapshot

EVENTS_READ = 500


def read_snapshot(counts: Mapping[str, int] | None = None) -> Steps[Snapshot]:
    """One look at everything. Counting jobs reads them all, so whoever looks often brings the last `counts` along."""
    nodes = yield from look.read_nodes()
    roster, seq = yield from look.read_cluster()
    if counts is None:
        counts = yield from look.count_states()
    known = look.tasks_of(node for node in nodes if node.get("state") != NodeState.DEAD)
    return Snapshot(
        at=(yield from look.now()),
        nodes=nodes,
        roster=roster,
        seq=seq,
        counts=counts,
        unnumbered=(yield from look.find_unnumbered(COUNTED_AT_MOST)),
        unknown=(yield from look.count_unknown(sorted(known), COUNTED_AT_MOST)),
        events=(yield from events.latest(EVENTS_READ)),
    )
