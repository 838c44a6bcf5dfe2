"""What comes in: readings and changes find their places; what they mean together the board says. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tontine.clock import wall_time
from tontine.records.change import Delta, DeltaKind, Version
from tontine.records.roster import Roster

from ..picture.flow import Times
from ..records.clean import Cleaner, moment, whole
from ..records.facts import NodeFact
from ..records.picture import ChangeKind, JobRow, Link, Pane, Target
from ..records.snapshot import Server, Snapshot, Truth, Window
from .changelog import Changelog
from .curves import DONE, FAILED, INCOMING
from .heard import Deltas, Loaded, Lost, NodeMoved, Remembered, RosterMoved, Told, WindowRead
from .jobs import JobTable, Step, reading_version
from .nodes import Epoch, Lives, is_move
from .pulse import Pulse
from .tally import Tally

JOBS, NODES, CLUSTER, EVENTS = "jobs", "nodes", "cluster", "events"

Tap = Callable[[Told], None]


class Intake:
    """Takes in readings and changes, in whatever order they come."""

    def __init__(self, database: str, clean: Cleaner | None = None, clock: Callable[[], float] = wall_time) -> None:
        self.database = database
        self.clean = clean or Cleaner()
        self.link = Link()
        self.server = Server()
        self.has_cells = True
        """Whether somebody looks at the single jobs of each share."""
        self.seq = 0
        self.jobs_table = JobTable(self.clean)
        self.lives = Lives(self.clean)
        self.tally = Tally(self.clean)
        self.log = Changelog(self.clean)
        self.times = Times()
        self.taps: list[Tap] = []
        """Who else wants to hear of everything that comes in: a recording, a stream of lines."""
        self.heard_at = 0.0
        """The newest moment of the server's clock that is known."""
        self._told_at = 0.0
        self._clock = clock
        self._pulse = Pulse()
        self._truth: Truth | None = None
        self._watched_from: float | None = None
        self._generations: Counter[Pane] = Counter()
        self._settled_at: dict[str, float] = {}

    def load(self, snapshot: Snapshot, *, polled: bool = False) -> None:
        """Take in a look at everything, after which changes from its version on follow without a gap.

        When polled, none follow: what flowed is told from what nodes counted themselves.
        """
        at = snapshot.at.timestamp()
        self._tell(Loaded(snapshot, polled))
        self.hear(at)
        self.server = snapshot.server
        if polled:
            self._pass_through(snapshot)
        given = max(0, snapshot.seq - self.seq) if self.seq else 0
        moved = self.lives.read(snapshot.nodes, at, snapshot.version)
        for before, after in moved:
            if before is not None:
                self.log.node(at, before, after)
                self._tell(NodeMoved(at, before, after))
        for fact in self.lives.facts().values():
            self._pulse.note(fact)
        self._see_roster(snapshot.roster, at, snapshot.version, is_exact=bool(self.lives.epochs))
        if snapshot.window.is_known:
            if polled:
                self.jobs_table.forget(at)  # nobody tells what became of those that were read before
            self._read_window(snapshot.window, snapshot.version)
        else:
            self.jobs_table.is_complete = False
        if polled:
            self._flow(at, given, moved)
        if snapshot.counts or not polled:
            self._count(snapshot.truth())
        self.seq = max(self.seq, snapshot.seq)
        self._remember(snapshot.events, past=not polled)
        self._touch(*Pane)

    def _pass_through(self, snapshot: Snapshot) -> None:
        """What nodes and rosters went through since the last look, from the events of it."""
        clean = self.clean
        for event in snapshot.events:
            at = moment(event.get("at"))
            if at is None:
                continue
            if event.get("kind") == "node" and event.get("to"):
                self.lives.move(at, clean.name(event.get("node")), clean.name(event["to"]))
            elif event.get("kind") == "roster" and isinstance(event.get("members"), list):
                roster = Roster(whole(event.get("epoch")), tuple(event["members"]))
                if self.lives.epochs and self.lives.epochs[-1].epoch < roster.epoch <= snapshot.roster.epoch:
                    self._see_roster(roster, at, snapshot.version, is_exact=True)

    def _flow(self, at: float, given: int, moved: Iterable[tuple[NodeFact | None, NodeFact | None]]) -> None:
        """What came and went between two looks, from the numbers given and from what nodes counted themselves."""
        done = failed = 0
        for before, after in moved:
            if before and after and after.done + after.failed > before.done + before.failed:
                self._settled_at[after.id] = at
                done += max(0, after.done - before.done)
                failed += max(0, after.failed - before.failed)
        for kind, number in ((INCOMING, given), (DONE, done), (FAILED, failed)):
            self.tally.curves.add(at, kind, number)
        working = sum(fact.running for fact in self.lives.facts().values() if not fact.is_dead)
        self.tally.estimate(at, given, done, failed, working)

    def flowed(self) -> int:
        """About how many changes jobs have been through in all: they get a number, are claimed and are settled."""
        return self.seq + 2 * sum(fact.done + fact.failed for fact in self.lives.facts().values())

    def read_window(self, window: Window, version: Version) -> None:
        """Take in jobs that were read."""
        self._tell(WindowRead(window, version))
        self._read_window(window, version)

    def _read_window(self, window: Window, version: Version) -> None:
        table = self.jobs_table
        table.read(window.documents, version, complete=window.is_complete, known_from=window.known_from)
        if window.is_complete:
            table.retain((document["_id"] for document in window.documents), version)
        self._touch(Pane.JOBS, Pane.SHARES, Pane.FLOW)

    def add_jobs(self, documents: Sequence[Mapping[str, Any]], time: tuple[int, int]) -> None:
        """Take in jobs that somebody looked for."""
        self.jobs_table.add(documents, reading_version(time))
        self._touch(Pane.JOBS)

    def see_beats(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Look at nothing but heartbeats and claim loops."""
        for node in nodes:
            self._pulse.note(NodeFact.from_document(node, self.clean))

    def count(self, truth: Truth) -> None:
        """Put right what was counted from changes."""
        self._tell(truth)
        self._count(truth)

    def _count(self, truth: Truth) -> None:
        at = truth.at.timestamp()
        self.hear(at)
        self._truth = truth
        self.seq = max(self.seq, truth.seq)
        self.tally.correct(truth.counts, truth.version, at)
        self._touch(Pane.FLOW, Pane.SHARES)

    def hear(self, at: float) -> None:
        """The store told its time: everything until then has been heard of."""
        self.heard_at = max(self.heard_at, at)
        if self._watched_from is None:
            self._watched_from = at
            self.tally.curves.watched.add(at, at)
        self.tally.curves.watched.extend(at)

    def lose(self, reason: str) -> None:
        """What happens from here on is not heard of."""
        if self._watched_from is not None:
            self._tell(Lost(self.heard_at, reason))
            self.log.add(self.heard_at, ChangeKind.GAP, "gap", reason, key=("gap", self.heard_at))
            self._touch(Pane.CHANGES, Pane.TIME)
        self._watched_from = None

    def note(self, subject: str, text: str) -> None:
        """Something that the observer itself has to say."""
        self.log.add(self.heard_at, ChangeKind.NOTE, subject, text)
        self._touch(Pane.CHANGES)

    def begin_again(self) -> None:
        """After a gap: what the next reading does not find is gone."""
        self.jobs_table.forget(self.heard_at)

    def take(self, deltas: Iterable[Delta]) -> None:
        """Take in changes, in their order."""
        if self.taps:
            deltas = tuple(deltas)
            self._tell(Deltas(deltas))
        jobs = 0
        for told in deltas:
            # A new primary's clock may be behind; a board's time only grows.
            delta = told if told.at >= self._told_at else told._replace(at=self._told_at)
            self._told_at = delta.at
            if delta.collection == JOBS:
                self._take_job(delta)
                jobs += 1
            elif delta.collection == NODES:
                self._take_node(delta)
            elif delta.collection == CLUSTER:
                self._take_roster(delta)
            elif delta.collection == EVENTS and delta.kind is DeltaKind.INSERTED:
                self._remember([delta.fields], past=False)
        self.hear(self._told_at)
        if jobs:
            self._touch(Pane.JOBS, Pane.SHARES, Pane.FLOW, by=jobs)

    def _take_job(self, delta: Delta) -> None:
        if delta.kind is DeltaKind.DROPPED:
            self.jobs_table.forget(delta.at)
            return
        seq = delta.fields.get("seq")
        if isinstance(seq, int) and seq > self.seq:
            self.seq = seq
        step = self.jobs_table.apply(delta)
        self.tally.note(delta, step)
        if step is None:
            return
        if self.taps:
            self._tell(step)
        if step.before is not None and step.after is not None:
            self.times.note(step.at, step.before, step.after)
            self._note_failure(step, step.before, step.after)

    def _note_failure(self, step: Step, before: JobRow, row: JobRow) -> None:
        has_failed = row.state == "failed" != before.state
        if not has_failed and row.fails <= before.fails and row.lost <= before.lost:
            return
        verb = "failed" if row.state == "failed" else "will be tried again"
        target = Target(Pane.JOBS, str(row.seq), f"state:{row.state} task:{row.task}")
        text = f"{row.task} {verb}: {row.error or 'no reason given'}"
        self.log.fold(step.at, ChangeKind.ERROR, f"#{row.seq}", text, ("error", row.task, verb), target)
        self._touch(Pane.CHANGES)

    def _take_node(self, delta: Delta) -> None:
        moved = self.lives.apply(delta)
        if moved is None:
            return
        before, after = moved
        if after is not None:
            self._pulse.note(after)
        self.log.node(delta.at, before, after)
        self._tell(NodeMoved(delta.at, before, after))
        # Every node beats every few seconds: what a beat says is seen when the ages are drawn anew, once a second.
        if before is None or after is None or before.state != after.state or is_move(before, after):
            self._touch(Pane.NODES, Pane.CHANGES, Pane.TIME)

    def _take_roster(self, delta: Delta) -> None:
        known = self.lives.epochs[-1] if self.lives.epochs else Epoch(0.0, 0, ())
        epoch = whole(delta.fields.get("epoch", known.epoch))
        members = delta.fields.get("members", known.members)
        if any(name.startswith("members.") for name in delta.fields) or not isinstance(members, list | tuple):
            return  # told in parts: the next count reads it whole
        self._see_roster(Roster(epoch, tuple(members)), delta.at, delta.version, is_exact=True)

    def see_roster(self, roster: Roster, at: float, version: Version) -> None:
        """Take notice of a roster that was read."""
        self._see_roster(roster, at, version, is_exact=True)

    def _see_roster(self, roster: Roster, at: float, version: Version, *, is_exact: bool) -> None:
        old = self.lives.epochs[-1] if self.lives.epochs else None
        new = Epoch(at, roster.epoch, tuple(self.clean.name(one) for one in roster.members), is_exact)
        if self.lives.see_roster(new, version) and is_exact:
            self.log.roster(new, old, self._names())
            self._tell(RosterMoved(new, old))
            self._touch(Pane.SHARES, Pane.CHANGES, Pane.TIME)

    def remember(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Take in stored events of the past, to look back on."""
        self._tell(Remembered(tuple(events)))
        self._remember(events, past=True)

    def _remember(self, events: Sequence[Mapping[str, Any]], *, past: bool) -> None:
        if past and events:
            clean = self.clean
            timed = [(at, event) for event in events if (at := moment(event.get("at"))) is not None]
            self.lives.remember(
                (at, clean.name(one.get("node")), clean.name(one.get("name") or one.get("node")), clean.name(one["to"]))
                for at, one in timed
                if one.get("kind") == "node" and one.get("to")
            )
            rosters = [
                Epoch(at, whole(one.get("epoch")), tuple(map(clean.name, one["members"])))
                for at, one in timed
                if one.get("kind") == "roster" and isinstance(one.get("members"), list)
            ]
            self.lives.remember_rosters(rosters)
            if timed:
                self.tally.curves.sampled.add(timed[0][0], self.heard_at)
            for old, new in pairwise(sorted(rosters, key=lambda one: one.epoch)):
                if new.epoch == old.epoch + 1:
                    self.log.roster(new, old, self._names())
        names = self._names()
        for event in events:
            self.log.event(event, names)
        self._touch(Pane.CHANGES, Pane.TIME)

    def _names(self) -> dict[str, str]:
        return {
            node: fact.name
            for node, life in self.lives.lives.items()
            if (fact := life[-1][1] or (life[-2][1] if len(life) > 1 else None)) is not None
        }

    def recall(self, deltas: Sequence[Delta]) -> None:
        """Take in changes from before the first look: what flowed, who moved, which rosters there were."""
        moves, rosters, clean = [], [], self.clean
        for delta in deltas:
            if delta.collection == JOBS:
                self.tally.recall(delta)
            elif delta.collection == NODES and "state" in delta.fields:
                node = clean.name(delta.id)
                known = self.lives.fact(node)
                name = known.name if known else clean.name(delta.fields.get("name", delta.id))
                moves.append((delta.at, node, name, clean.name(delta.fields["state"])))
            elif delta.collection == CLUSTER and isinstance(members := delta.fields.get("members"), list):
                names = tuple(map(clean.name, members))
                rosters.append(Epoch(delta.at, whole(delta.fields.get("epoch")), names))
        if deltas:
            self.lives.remember(moves)
            self.lives.remember_rosters(rosters)
            self.tally.curves.sampled.add(deltas[0].at, self.heard_at)
            self._touch(Pane.FLOW, Pane.CHANGES, Pane.TIME)

    def _tell(self, told: Told) -> None:
        for tap in self.taps:
            tap(told)

    def generation(self, pane: Pane) -> int:
        """Grows with everything that is new in a pane, by how much there is of it."""
        return self._generations[pane]

    def _touch(self, *panes: Pane, by: int = 1) -> None:
        for pane in panes:
            self._generations[pane] += by
