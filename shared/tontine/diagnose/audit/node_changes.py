"""Judges changes of nodes' records: the dead stay dead (S6), and nobody is buried within its lease
(S8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ...records.change import Delta, DeltaKind, seconds
from ...records.job import is_text
from ...records.states import NODE_MOVES, NodeState
from ...records.task_key import name_of
from .invariant import Finding

_LEASE_EXPIRED = "lease expired"
_MARGIN = 0.25
"""The part of a lease after which a node may still be alive in others' eyes, and no longer in its
own."""


class NodeChanges:
    """What is known of each node. An id is never used again, so the dead are remembered for
    good."""

    def __init__(self) -> None:
        self._dead: set[str] = set()
        self._states: dict[str, str] = {}
        self._leases: dict[str, float] = {}
        self._beat_at: dict[str, float] = {}
        self._careful: dict[str, frozenset[str]] = {}
        """Also of the dead: their jobs are judged by it."""

    def is_careful(self, node: str, key: str) -> bool:
        """Whether a node has noted that jobs of a task must not run again when they are lost
        (MO7)."""
        return name_of(key) in self._careful.get(node, ())

    def is_alive(self, node: str) -> bool:
        """Whether the last that was seen of a node was a sign of life."""
        return node in self._states

    def recall(self, record: Mapping[str, Any]) -> None:
        """A record from before the first change. Its state may be another by now, unless it is
        dead."""
        node, lease, until = str(record["_id"]), record.get("lease"), record.get("lease_until")
        self._note_careful(node, record.get("careful"))
        if record.get("state") == NodeState.DEAD:
            self._dead.add(node)
        elif isinstance(lease, int | float):
            self._leases[node] = lease
            if isinstance(until, datetime):
                self._beat_at[node] = seconds(until) - lease

    def see(self, change: Delta) -> Iterator[Finding]:
        node = str(change.id)
        if change.kind is DeltaKind.GONE:
            self._forget(node)
            self._careful.pop(node, None)
        elif node in self._dead:
            yield from _judge_dead(change, node)
        else:
            yield from self._judge(change, node)

    def _judge(self, change: Delta, node: str) -> Iterator[Finding]:
        if isinstance(lease := change.fields.get("lease"), int | float):
            self._leases[node] = lease
        if change.is_whole or "careful" in change.touched:
            self._note_careful(node, change.fields.get("careful"))
        was = self._states.get(node)
        now = str(change.fields["state"]) if "state" in change.fields else was
        if (
            was is not None
            and now != was
            and (was not in set(NodeState) or now not in NODE_MOVES[NodeState(was)])
        ):
            yield Finding("S6", f"went from {was} to {now}", node=node)
        if now == NodeState.DEAD:
            if change.fields.get("death") == _LEASE_EXPIRED:
                yield from self._judge_burial(change, node)
            self._forget(node)
            self._dead.add(node)
            return
        if now is not None:
            self._states[node] = now
        if "beat" in change.fields:
            self._beat_at[node] = change.at

    def _judge_burial(self, change: Delta, node: str) -> Iterator[Finding]:
        beaten_at, lease = self._beat_at.get(node), self._leases.get(node)
        if beaten_at is None or lease is None:
            return
        quiet = change.at - beaten_at
        if quiet < lease * (1 - _MARGIN):
            yield Finding(
                "S8",
                f"declared dead {quiet:.1f} s after a beat, with a lease of {lease:g} s",
                node=node,
            )

    def _note_careful(self, node: str, keys: Any) -> None:
        """By the names of tasks, whatever range a job asks for."""
        known = keys if isinstance(keys, list) else ()
        self._careful[node] = frozenset(name_of(key) for key in known if is_text(key))

    def _forget(self, node: str) -> None:
        for known in (self._states, self._leases, self._beat_at):
            known.pop(node, None)


def _judge_dead(change: Delta, node: str) -> Iterator[Finding]:
    """Nobody writes onto the record of a dead node; one that was removed may be made again, as dead
    (D3)."""
    state = change.fields.get("state", NodeState.DEAD)
    if state != NodeState.DEAD:
        yield Finding("S6", f"was dead, then {state}", node=node)
    elif not change.is_whole:
        yield Finding(
            "S6", f"was dead, then changed: {', '.join(sorted(change.touched))}", node=node
        )
