"""Looks at the store: everything at once for a snapshot, or part by part for those who may not read
all of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tontine.records.change import NEVER, Version
from tontine.records.node import Sighting
from tontine.records.roster import Roster
from tontine.rules import health
from tontine.store import events, read, window
from tontine.store.call import Operation

from ..model.jobs import reading_version
from ..picture.alerts import COUNTED_AT_MOST
from ..records.snapshot import ServerFacts, Snapshot, Truth, Waiting, Window

EVENTS_READ = 500


def read_snapshot() -> Operation[Snapshot]:
    """One look at everything, for those who look once."""
    hello = yield from window.greet()
    nodes = yield from read.read_nodes()
    roster, seq = yield from read.read_cluster()
    counts = yield from read.count_states()
    known = known_tasks(nodes)
    return Snapshot(
        at=(yield from read.now()),
        nodes=nodes,
        roster=roster,
        seq=seq,
        counts=counts,
        unnumbered=(yield from read.find_unnumbered(COUNTED_AT_MOST)),
        unknown=(yield from read.count_unknown(known, COUNTED_AT_MOST)),
        events=(yield from events.latest(EVENTS_READ)),
        window=(yield from read_window(known)),
        version=version_of(hello),
        server=server_of(hello),
    )


def known_tasks(nodes: list[dict[str, Any]]) -> list[str]:
    """The tasks that live nodes have."""
    return sorted(health.known_tasks(map(Sighting.from_document, nodes)))


def read_window(tasks: list[str], limit: int = window.OPEN_AT_MOST) -> Operation[Window]:
    """The jobs to show."""
    documents, is_complete, known_from = yield from window.read_window(tasks, limit)
    return Window(documents, is_complete, known_from)


def read_truth(
    tasks: list[str], version: Version, at: datetime, *, spread: bool
) -> Operation[tuple[Truth, Roster]]:
    """Count what is unfinished, with `spread` also by share; and the roster whose shares these
    are."""
    counts = yield from window.count_open()
    roster, seq = yield from read.read_cluster()
    raw = yield from read.find_unnumbered(COUNTED_AT_MOST)
    unknown = yield from read.count_unknown(tasks, COUNTED_AT_MOST)
    waiting: Mapping[int, Waiting] = {}
    if spread and roster.members:
        found, is_all = yield from window.spread(roster)
        waiting = {
            rank: Waiting(number, due.timestamp() if due else None, not is_all)
            for rank, (number, due) in found.items()
        }
    return Truth(at, version, counts, seq, raw, unknown, waiting, roster.epoch), roster


def version_of(hello: window.Greeting) -> Version:
    return reading_version(hello.time) if hello.time != (0, 0) else NEVER


def server_of(hello: window.Greeting) -> ServerFacts:
    return ServerFacts(hello.replica_set, hello.primary)
