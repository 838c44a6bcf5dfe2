"""What comes in finds its place in what is known: readings and changes, in whatever order they
come. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tontine.records.change import Delta, DeltaKind, Version
from tontine.records.kind import Kind
from tontine.records.roster import Roster

from ..records.change import ChangeKind
from ..records.job import JobRow
from ..records.node import NodeFact
from ..records.pane import Pane, Target
from ..records.snapshot import Snapshot, Truth, Window
from ..records.timeline import Epoch
from ..records.values import timestamp, whole
from . import backfill
from .curves import DONE, FAILED, INCOMING
from .heard import Deltas, Loaded, Lost, NodeMoved, Remembered, RosterMoved, WindowRead
from .jobs import JobMoved, reading_version
from .known import Known
from .nodes import NodeChange, is_move

JOBS, NODES, CLUSTER, EVENTS = "jobs", "nodes", "cluster", "events"


def load(known: Known, snapshot: Snapshot, *, polled: bool = False) -> None:
    """Take in a look at everything, after which changes from its version on follow without a gap.

    When polled, none follow: what flowed is told from what nodes counted themselves.
    """
    at = snapshot.at.timestamp()
    known.tell(Loaded(snapshot, polled))
    hear(known, at)
    known.server = snapshot.server
    if polled:
        _pass_through(known, snapshot)
    given = max(0, snapshot.seq - known.seq) if known.seq else 0
    moved = _load_nodes(known, snapshot, at)
    _see_roster(known, snapshot.roster, at, snapshot.version, is_exact=bool(known.lives.epochs))
    _load_jobs(known, snapshot, at, polled=polled)
    if polled:
        _flow(known, at, given, moved)
    if snapshot.counts or not polled:
        _count(known, snapshot.truth())
    known.seq = max(known.seq, snapshot.seq)
    if not polled:
        backfill.remember(known, snapshot.events)
    backfill.tell_events(known, snapshot.events)
    known.touch(*Pane)


def _pass_through(known: Known, snapshot: Snapshot) -> None:
    """What nodes and rosters went through since the last look, from the events of it."""
    clean = known.clean
    for event in snapshot.events:
        at = timestamp(event.get("at"))
        if at is None:
            continue
        if event.get("kind") == "node" and event.get("to"):
            known.lives.move(at, clean.name(event.get("node")), clean.name(event["to"]))
        elif event.get("kind") == "roster" and isinstance(event.get("members"), list):
            roster = Roster(whole(event.get("epoch")), tuple(event["members"]))
            is_between = known.roster.epoch < roster.epoch <= snapshot.roster.epoch
            if known.lives.epochs and is_between:
                _see_roster(known, roster, at, snapshot.version, is_exact=True)


def _load_nodes(known: Known, snapshot: Snapshot, at: float) -> list[NodeChange]:
    moved = known.lives.read(snapshot.nodes, at, snapshot.version)
    for before, after in moved:
        if before is not None:
            known.log.node(at, before, after)
            known.tell(NodeMoved(at, before, after))
    for fact in known.lives.facts().values():
        known.pulse.note(fact)
    return moved


def _load_jobs(known: Known, snapshot: Snapshot, at: float, *, polled: bool) -> None:
    if not snapshot.window.is_known:
        known.jobs.is_complete = False
        return
    if polled:
        known.jobs.forget(at)  # nobody tells what became of those that were read before
    _read_window(known, snapshot.window, snapshot.version)


def _flow(known: Known, at: float, given: int, moved: Iterable[NodeChange]) -> None:
    """What came and went between two looks, from the numbers given and from what nodes counted
    themselves."""
    done = failed = 0
    for before, after in moved:
        if before and after and after.done + after.failed > before.done + before.failed:
            known.settled_at[after.id] = at
            done += max(0, after.done - before.done)
            failed += max(0, after.failed - before.failed)
    for kind, number in ((INCOMING, given), (DONE, done), (FAILED, failed)):
        known.tally.curves.add(at, kind, number)
    working = sum(fact.running for fact in known.lives.facts().values() if not fact.is_dead)
    known.tally.estimate(at, given, done, failed, working)


def read_window(known: Known, window: Window, version: Version) -> None:
    """Take in jobs that were read."""
    known.tell(WindowRead(window, version))
    _read_window(known, window, version)


def _read_window(known: Known, window: Window, version: Version) -> None:
    table = known.jobs
    table.read(window.documents, version, complete=window.is_complete, known_from=window.known_from)
    if window.is_complete:
        table.retain((document["_id"] for document in window.documents), version)
    known.touch(Pane.JOBS, Pane.SHARES, Pane.FLOW)


def add_found(known: Known, documents: Sequence[Mapping[str, Any]], time: tuple[int, int]) -> None:
    """Take in jobs that somebody looks for."""
    known.jobs.add_found(documents, reading_version(time))
    known.touch(Pane.JOBS)


def forget_found(known: Known) -> None:
    """Nobody looks for these any more."""
    known.jobs.forget_found()
    known.touch(Pane.JOBS)


def see_beats(known: Known, nodes: Iterable[Mapping[str, Any]]) -> None:
    """Look at nothing but heartbeats and claim loops."""
    for node in nodes:
        known.pulse.note(NodeFact.from_document(node, known.clean))


def count(known: Known, truth: Truth) -> None:
    """Put right what was counted from changes."""
    known.tell(truth)
    _count(known, truth)


def _count(known: Known, truth: Truth) -> None:
    at = truth.at.timestamp()
    hear(known, at)
    known.truth = truth
    known.seq = max(known.seq, truth.seq)
    known.tally.correct(truth.counts, truth.version, at)
    known.touch(Pane.FLOW, Pane.SHARES)


def hear(known: Known, at: float) -> None:
    """The store told its time: everything until then has been heard of."""
    known.heard_at = max(known.heard_at, at)
    watched = known.tally.curves.watched
    if known.watched_from is None:
        known.watched_from = at
        watched.add(at, at)
    watched.extend(at)


def lose(known: Known, reason: str) -> None:
    """What happens from here on is not heard of."""
    if known.watched_from is not None:
        known.tell(Lost(known.heard_at, reason))
        known.log.add(known.heard_at, ChangeKind.GAP, "gap", reason, key=("gap", known.heard_at))
        known.touch(Pane.CHANGES, Pane.TIME)
    known.watched_from = None


def note(known: Known, subject: str, text: str) -> None:
    """Something that the observer itself has to say."""
    known.log.add(known.heard_at, ChangeKind.NOTE, subject, text)
    known.touch(Pane.CHANGES)


def begin_again(known: Known) -> None:
    """After a gap: what the next reading does not find is gone."""
    known.jobs.forget(known.heard_at)


def take(known: Known, deltas: Iterable[Delta]) -> None:
    """Take in changes, in their order."""
    if known.taps:
        deltas = tuple(deltas)
        known.tell(Deltas(deltas))
    jobs = 0
    for told in deltas:
        # A new primary's clock may be behind; a board's time only grows.
        delta = told if told.at >= known.told_at else told._replace(at=known.told_at)
        known.told_at = delta.at
        if delta.collection == JOBS:
            _take_job(known, delta)
            jobs += 1
        elif delta.collection == NODES:
            _take_node(known, delta)
        elif delta.collection == CLUSTER:
            _take_roster(known, delta)
        elif delta.collection == EVENTS and delta.kind is DeltaKind.INSERTED:
            backfill.tell_events(known, [delta.fields])
    hear(known, known.told_at)
    if jobs:
        known.touch(Pane.JOBS, Pane.SHARES, Pane.FLOW, by=jobs)


def _take_job(known: Known, delta: Delta) -> None:
    if delta.kind is DeltaKind.DROPPED:
        known.jobs.forget(delta.at)
        return
    seq = delta.fields.get("seq")
    if isinstance(seq, int) and seq > known.seq:
        known.seq = seq
    moved = known.jobs.apply(delta)
    known.tally.note(delta, moved)
    if moved is None:
        return
    if known.taps:
        known.tell(moved)
    is_told = known.log.stories.has_orphans and known.log.job(moved, known.lives.names())
    if is_told:
        known.touch(Pane.CHANGES)
    if moved.before is not None and moved.after is not None:
        known.times.note(moved.at, moved.before, moved.after)
        if not is_told:
            _note_failure(known, moved, moved.before, moved.after)


def _note_failure(known: Known, moved: JobMoved, before: JobRow, row: JobRow) -> None:
    has_failed = row.state == "failed" != before.state
    is_worse = row.fails > before.fails or row.lost > before.lost
    if not has_failed and not is_worse:
        return
    verb = "failed" if row.state == "failed" else "will be tried again"
    target = Target(Pane.JOBS, str(row.seq), f"state:{row.state} task:{row.task}")
    text = f"{row.task} {verb}: {row.error or 'no reason given'}"
    known.log.fold(
        moved.at, ChangeKind.ERROR, f"#{row.seq}", text, ("error", row.task, verb), target
    )
    known.touch(Pane.CHANGES)


def _take_node(known: Known, delta: Delta) -> None:
    moved = known.lives.apply(delta)
    if moved is None:
        return
    before, after = moved
    if after is not None:
        known.pulse.note(after)
    has_died = after is not None and after.is_dead and before is not None and not before.is_dead
    held = known.jobs.held_by(after.id) if after is not None and has_died else None
    known.log.node(delta.at, before, after, held)
    known.tell(NodeMoved(delta.at, before, after))
    # Every node beats every few seconds: what a beat says is seen when the ages are drawn anew,
    # once a second.
    if before is None or after is None or before.state != after.state or is_move(before, after):
        known.touch(Pane.NODES, Pane.CHANGES, Pane.TIME)


def _take_roster(known: Known, delta: Delta) -> None:
    epoch = whole(delta.fields.get("epoch", known.roster.epoch))
    members = delta.fields.get("members", known.roster.members)
    paths = (*delta.fields, *delta.removed)
    is_in_parts = any(path.startswith(("members.", "kinds.")) for path in paths)
    if is_in_parts or not isinstance(members, list | tuple):
        return  # the next count reads it whole
    told = {"epoch": epoch, "members": list(members), "kinds": delta.fields.get("kinds")}
    roster = Roster.from_document(told)
    if not delta.is_whole and "kinds" not in delta.touched:  # old software leaves them alone
        roster = replace(roster, kinds=known.roster.kinds)
    _see_roster(known, roster, delta.at, delta.version, is_exact=True)


def see_roster(known: Known, roster: Roster, at: float, version: Version) -> None:
    """Take notice of a roster that was read."""
    _see_roster(known, roster, at, version, is_exact=True)


def _see_roster(
    known: Known, roster: Roster, at: float, version: Version, *, is_exact: bool
) -> None:
    old = known.lives.epochs[-1] if known.lives.epochs else None
    new = _epoch(known, roster, at, is_exact=is_exact)
    if known.lives.see_roster(new, version) and is_exact:
        known.log.roster(new, old, known.lives.names())
        known.tell(RosterMoved(new, old))
        known.touch(Pane.SHARES, Pane.CHANGES, Pane.TIME)


def _epoch(known: Known, roster: Roster, at: float, *, is_exact: bool = True) -> Epoch:
    """A roster with its nodes by the names that all others are known by here."""
    name = known.clean.name
    kinds = tuple(Kind(kind.offer, tuple(map(name, kind.of))) for kind in roster.kinds)
    return Epoch(at, roster.epoch, tuple(map(name, roster.members)), is_exact, kinds)


def remember(known: Known, events: Sequence[Mapping[str, Any]]) -> None:
    """Take in stored events of the past, to look back on."""
    known.tell(Remembered(tuple(events)))
    backfill.remember(known, events)
    backfill.tell_events(known, events)


def recall(known: Known, deltas: Sequence[Delta]) -> None:
    """Take in changes from before the first look: what flowed, who moved, which rosters there
    were."""
    moves, rosters = [], []
    clean = known.clean
    for delta in deltas:
        if delta.collection == JOBS:
            known.tally.recall(delta)
        elif delta.collection == NODES and "state" in delta.fields:
            node = clean.name(delta.id)
            now = known.lives.fact(node)
            name = now.name if now else clean.name(delta.fields.get("name", delta.id))
            moves.append((delta.at, node, name, clean.name(delta.fields["state"])))
        elif delta.collection == CLUSTER and isinstance(delta.fields.get("members"), list):
            rosters.append(_epoch(known, Roster.from_document(delta.fields), delta.at))
    if deltas:
        known.lives.remember(moves)
        known.lives.remember_rosters(rosters)
        known.tally.curves.sampled.add(deltas[0].at, known.heard_at)
        known.touch(Pane.FLOW, Pane.CHANGES, Pane.TIME)
