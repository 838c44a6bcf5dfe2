"""Judges each change of a job, a node or the roster against the one before it, as a change stream tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..states import FINAL, JOB_MOVES, NODE_MOVES, OPEN, JobState, NodeState
from .invariant import Finding

WATCHED = ("S1", "S2", "S4", "S5", "S6", "S7", "S8")
"""The invariants that changes can show."""

_ENDED_AS = ("state", "attempt", "node", "result", "error", "finished_at")
_LEASE_EXPIRED = "lease expired"
_MARGIN = 0.25
"""The part of a lease after which a node may still be alive in others' eyes, and no longer in its own."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one document: the fields that it set (all, when the document is new) and those it removed."""

    collection: str
    operation: str
    id: Any
    fields: Mapping[str, Any] = field(default_factory=dict)
    removed: Sequence[str] = ()
    at: datetime | None = None

    @property
    def is_whole(self) -> bool:
        return self.operation in ("insert", "replace")


class History:
    """What is known of each document. The first change seen of one is taken as it is."""

    def __init__(self, jobs: str, nodes: str, cluster: str) -> None:
        self.changes = 0
        self._jobs = jobs
        self._judges = {jobs: self._job, nodes: self._node, cluster: self._cluster}
        self._known: dict[tuple[str, str], dict[str, Any]] = {}
        self._seqs: dict[int, str] = {}
        self._beat_at: dict[str, datetime] = {}

    def see(self, change: Change) -> Iterator[Finding]:
        """What is wrong with a change."""
        if change.collection not in self._judges:
            return
        self.changes += 1
        key = (change.collection, repr(change.id))
        before = self._known.pop(key, {})
        if change.operation == "delete":
            if before.get("state") in OPEN and before.get("seq") is not None:
                yield Finding("S1", f"removed while {before['state']}", before["seq"])
            return
        after = dict(change.fields) if change.is_whole else {**before, **change.fields}
        for name in change.removed:
            after.pop(name, None)
        self._known[key] = after
        if before:
            yield from self._judges[change.collection](change, before, after)
        if change.collection == self._jobs:
            yield from self._judge_seq(change)
        self._note_beat(change, after)

    def _judge_seq(self, change: Change) -> Iterator[Finding]:
        seq = change.fields.get("seq")
        if isinstance(seq, int) and (owner := self._seqs.setdefault(seq, repr(change.id))) != repr(change.id):
            yield Finding("S7", f"given to {owner} and to {change.id!r}", seq)

    def _job(self, change: Change, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Finding]:
        seq = after.get("seq", before.get("seq"))
        if before.get("seq") is not None and after.get("seq") != before["seq"]:
            yield Finding("S7", f"its seq became {after.get('seq')}", before["seq"])
        yield from (Finding(invariant, fact, seq) for invariant, fact in _attempts(before, after))
        if "state" in before:
            yield from (Finding(invariant, fact, seq) for invariant, fact in _moves(change, before, after))

    def _node(self, change: Change, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Finding]:
        node, was, now = str(change.id), before.get("state"), after.get("state")
        if was is None or was == now:
            return
        if was == NodeState.DEAD:
            yield Finding("S6", f"was dead, then {now}", node=node)
        elif was in set(NodeState) and now not in NODE_MOVES[NodeState(was)]:
            yield Finding("S6", f"went from {was} to {now}", node=node)
        beaten_at, lease = self._beat_at.get(node), after.get("lease")
        if now != NodeState.DEAD or after.get("death") != _LEASE_EXPIRED or not isinstance(lease, int | float):
            return
        if change.at is not None and beaten_at is not None:
            quiet = (change.at - beaten_at).total_seconds()
            if quiet < lease * (1 - _MARGIN):
                yield Finding("S8", f"declared dead {quiet:.1f} s after a beat, with a lease of {lease:g} s", node=node)

    def _cluster(self, change: Change, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Finding]:
        epoch, last = after.get("epoch"), before.get("epoch")
        if isinstance(epoch, int) and isinstance(last, int) and epoch != last + 1 and change.fields:
            yield Finding("S5", f"epoch {last} was followed by {epoch}")
        if before.get("seq") is not None and after.get("seq", 0) < before["seq"]:
            yield Finding("S7", f"the counter fell from {before['seq']} to {after.get('seq')}")

    def _note_beat(self, change: Change, after: Mapping[str, Any]) -> None:
        if "beat" in change.fields and after.get("state") != NodeState.DEAD and change.at is not None:
            self._beat_at[str(change.id)] = change.at


def _attempts(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    was, now = before.get("attempt"), after.get("attempt")
    if was is None:
        return
    if now is None or now < was:
        yield "S4", f"its attempt fell from {was} to {now}"
    is_claim = after.get("state") == JobState.WORKING and (now != was or before.get("state") == JobState.QUEUED)
    if is_claim and now != was + 1:
        yield "S4", f"claimed with attempt {now} after {was}"
    if now != was and not is_claim:
        yield "S4", f"its attempt went from {was} to {now} without a claim"


def _moves(change: Change, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    was, now = before["state"], after.get("state")
    holder = (before.get("node"), before.get("attempt"))
    if was in FINAL:
        touched = [name for name in _ENDED_AS if name in change.fields]
        if now != JobState.QUEUED and touched:
            yield "S1", f"{was}, then changed again: {', '.join(touched)}, now {now}"
    elif was == now:
        if was == JobState.WORKING and (after.get("node"), after.get("attempt")) != holder:
            yield "S2", f"held by {holder[0]}, then by {after.get('node')} without being given back"
    elif was not in set(JobState) or now not in JOB_MOVES[JobState(was)]:
        yield "S2", f"went from {was} to {now}"
    elif was == JobState.WORKING and now in FINAL and not _may_end(now, holder, after):
        yield "S2", f"held by {holder[0]} at attempt {holder[1]}, settled by {after.get('node')}"
    elif now == JobState.WORKING and not after.get("node"):
        yield "S2", "claimed by no node"


def _may_end(now: Any, holder: tuple[Any, Any], after: Mapping[str, Any]) -> bool:
    """Only the holder has a result. Given back, a job that was cancelled or lost for good ends by nobody."""
    by_nobody = after.get("node") is None and now != JobState.DONE
    return (after.get("node"), after.get("attempt")) == holder or by_nobody
