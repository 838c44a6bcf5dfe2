"""Judges what several documents say together. They are read one after another while nodes run, so
each of these is only a suspicion, until it has been the same in every look for longer than nodes
need to put it right."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ...legible import count, duration
from ...records.node import DEFAULT_LEASE, Sighting
from ...records.roster import Roster
from ...records.share import crowd
from ...records.states import NodeState
from ...records.task_key import fits, has_range, module_of
from ...rules.health import dead_holders, dead_members, is_beating, is_stray, working_members
from .invariant import Finding
from .jobs import Claims, OpenJob

A_FEW = 3
"""Leases, after which a dead node's jobs and place must be given on."""
UNCLAIMED_AFTER = 60.0
"""Seconds that a job may be due while a node has room for it: an audit accuses, and waits longer
than whoever only looks (`rules.health`)."""
SUSPECT = 2
"""`lost` from which a job is claimed alone (P2): other work may keep it waiting."""
TOMBSTONE = "its record was gone"

Suspicions = dict[Hashable, Finding]


@dataclass(frozen=True, slots=True)
class NodesRead:
    """Nodes, roster and the jobs under suspicion, at about one moment of the server's clock."""

    now: datetime
    nodes: tuple[Sighting, ...]
    roster: Roster
    jobs: tuple[OpenJob, ...] = ()
    raw: frozenset[str] = frozenset()
    keys: Mapping[str, tuple[Any, ...]] | None = None
    claims: Claims = field(default_factory=dict)
    """What live nodes have held since every job was looked at."""

    @property
    def by_id(self) -> dict[str, Sighting]:
        return {node.id: node for node in self.nodes}

    @property
    def live(self) -> frozenset[str]:
        return frozenset(node.id for node in self.nodes if not node.is_dead)

    @property
    def keepers(self) -> list[Sighting]:
        """The nodes that keep things right: they beat, and have started."""
        return [
            node
            for node in self.nodes
            if is_beating(node) and node.state is not NodeState.INITIALIZING
        ]

    @property
    def takers(self) -> list[Sighting]:
        """The nodes that claim."""
        return [node for node in working_members(self.keepers, self.roster) if not node.is_leaving]

    @property
    def lease(self) -> float:
        return max((node.lease for node in self.keepers), default=DEFAULT_LEASE)

    @property
    def patience(self) -> float:
        """Seconds that something may stay wrong: nodes see to it with every second heartbeat at the
        latest, but look through what they hold every five seconds, and more rarely the more members
        there are."""
        return max(6.0 * crowd(len(self.roster.members)), self.lease / 2)

    @property
    def due_before(self) -> datetime:
        return self.now - timedelta(seconds=max(UNCLAIMED_AFTER, A_FEW * self.lease))

    def is_overdue(self, since: datetime | None) -> bool:
        """Whether a node has been there to see to it for a few leases since then."""
        there = [node.started_at for node in self.keepers if node.started_at is not None]
        if not there:
            return False
        began = max(min(there), since or min(there))
        return (self.now - began).total_seconds() > A_FEW * self.lease


def judge_node(document: Mapping[str, Any]) -> Iterator[Finding]:
    """What one record says by itself about its death."""
    node, state = str(document["_id"]), document.get("state")
    if state not in tuple(NodeState):  # it may be what no set can hold
        yield Finding("S6", f"state is {state!r}", node=node)
    if state != NodeState.DEAD:
        if document.get("died_at") is not None:
            yield Finding("S6", f"{state} with died_at {document['died_at']}", node=node)
        return
    if document.get("died_at") is None and document.get("death") != TOMBSTONE:
        yield Finding("S6", "dead without died_at", node=node)
    if document.get("share") is not None:
        yield Finding("S6", f"dead with the share {document['share']}", node=node)
    if document.get("running"):
        yield Finding("S6", f"dead with {document['running']} jobs running", node=node)


def judge_return(first: NodesRead, last: NodesRead) -> Iterator[Finding]:
    """Nodes that were dead and are not any more."""
    for node in sorted(set(first.by_id) - first.live):
        if node in last.live:
            yield Finding("S6", f"was dead, then {last.by_id[node].state.value}", node=node)


def suspicions(look: NodesRead) -> Suspicions:
    """What looks wrong now, under keys that stay the same as long as it stays wrong in the same
    way."""
    rules = (_shares, _membership, _dead_members, _held, _adrift, _outside, _queued, _raw, _keys)
    return {key: finding for rule in rules for key, finding in rule(look)}


def standing(looks: Sequence[Suspicions]) -> Suspicions:
    """What was suspected in every look, in the words of the last."""
    return {
        key: finding for key, finding in looks[-1].items() if all(key in look for look in looks)
    }


Suspected = Iterator[tuple[Hashable, Finding]]


def _shares(look: NodesRead) -> Suspected:
    """Each beating member shows its share of this epoch, others none: then shares are disjoint and
    complete."""
    for node in look.keepers:
        own = look.roster.share_of(node.id)
        if node.share != own:
            shown = "no share" if node.share is None else f"share {node.share.to_document()}"
            fact = (
                f"shows {shown} at epoch {look.roster.epoch}, where it has "
                f"{own.to_document() if own else 'none'}"
            )
            yield (
                ("share", node.id, node.share, look.roster.epoch),
                Finding("S5", fact, node=node.id),
            )


def _membership(look: NodesRead) -> Suspected:
    for node in look.keepers:
        if node.is_leaving and node.id in look.roster:
            yield (
                ("unwanted", node.id),
                Finding("L3", f"{node.desired.value} is wanted, yet a member", node=node.id),
            )
        if is_stray(node, look.roster):
            yield (
                ("absent", node.id),
                Finding("L3", f"{node.state.value} and wanted, yet no member", node=node.id),
            )


def _dead_members(look: NodesRead) -> Suspected:
    nodes = look.by_id
    for member in sorted(dead_members(look.roster.members, nodes)):
        if look.is_overdue(_died_at(nodes.get(member))):
            fact = f"{_death(look, nodes.get(member))}, yet a member at epoch {look.roster.epoch}"
            yield ("dead member", member), Finding("L3", fact, node=member)


def _died_at(node: Sighting | None) -> datetime | None:
    return node.died_at if node else None


def _death(look: NodesRead, node: Sighting | None) -> str:
    if node is None:
        return "without a record"
    if node.died_at is None:
        return "dead"
    return f"dead for {duration((look.now - node.died_at).total_seconds())}"


def _held(look: NodesRead) -> Suspected:
    nodes = look.by_id
    held = [(job, job.node or "") for job in look.jobs if job.is_held]
    dead = dead_holders({holder for _, holder in held}, nodes)
    for job, holder in held:
        if holder in dead and look.is_overdue(_died_at(nodes.get(holder))):
            fact = (
                f"working at attempt {job.attempt} on {job.node}, {_death(look, nodes.get(holder))}"
            )
            yield ("held", job.seq, job.attempt), Finding("L1", fact, job.seq, job.node)


def _adrift(look: NodesRead) -> Suspected:
    """Jobs that a live node has held since every job was looked at, and more of them than it has in
    hand.

    It has what it claims before the claim is written, and until its end is: every heartbeat in
    between counts them all, and a node that beats does so before patience ends.
    """
    standing: dict[str | None, list[OpenJob]] = {}
    for job in look.jobs:
        if job.is_held and look.claims.get(job.seq) == (job.node, job.attempt):
            standing.setdefault(job.node, []).append(job)
    for node in look.keepers:
        jobs, held = standing.get(node.id, ()), node.held
        if held is not None and held < len(jobs):
            fact = (
                f"on {node.id}, which has {count(held, 'job')} in hand and should have "
                f"{len(jobs)} or more"
            )
            for job in jobs:
                key = ("adrift", job.seq, job.attempt, node.id)
                yield (
                    key,
                    Finding("L1", f"working at attempt {job.attempt} {fact}", job.seq, node.id),
                )


def _outside(look: NodesRead) -> Suspected:
    """Jobs with a range that a node holds which has the module in no version inside it. One that
    came late is released, and a worker of an earlier version is in the record as long as it
    runs."""
    nodes = {node.id: node for node in look.keepers}
    for job in look.jobs:
        node = nodes.get(job.node or "")
        if node is None or not job.is_held or not has_range(job.task):
            continue
        versions = [one.version for one in node.loaded if one.name == module_of(job.task)]
        if versions and not any(fits(job.task, version) for version in versions):
            has = f"which has {', '.join(versions)} and holds {job.task}"
            fact = f"working at attempt {job.attempt} on {job.node}, {has}"
            key = ("outside", job.seq, job.attempt, job.node)
            yield key, Finding("MI3", fact, job.seq, job.node)


def _queued(look: NodesRead) -> Suspected:
    """Jobs that are due for long while a node has room for them and settles nothing else."""
    for job in look.jobs:
        if not job.is_queued or job.due is None:
            continue
        for node in look.takers:
            since = max(job.due, node.started_at or job.due)
            room = node.free_slots if job.lost < SUSPECT else node.slots and not node.running
            if node.serves(job.task) and room and since < look.due_before:
                waited = duration((look.now - job.due).total_seconds())
                fact = (
                    f"queued and due for {waited}, although node {node.id} has its task and "
                    "free slots"
                )
                yield (
                    ("queued", job.seq, job.attempt, node.id, node.settled),
                    Finding("L1", fact, job.seq),
                )
                break


def _raw(look: NodesRead) -> Suspected:
    for one in sorted(look.raw if look.takers else ()):
        yield (
            ("raw", one),
            Finding("L1", f"the job with _id {one} gets no number, although there are members"),
        )


def _keys(look: NodesRead) -> Suspected:
    for key, seqs in (look.keys or {}).items():
        if len(seqs) > 1:
            fact = f"key {key!r} is that of the unfinished jobs {', '.join(map(str, seqs))}"
            yield ("key", key, seqs), Finding("key", fact, seqs[-1])
