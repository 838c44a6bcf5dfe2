"""What happened, line by line: moves, epochs, failures, requests and gaps; routine is folded away.
Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tontine.legible import count

from ..records.change import Change, ChangeKind
from ..records.clean import Cleaner
from ..records.node import NodeFact
from ..records.pane import Pane, Target
from ..records.timeline import Epoch
from ..records.values import date, timestamp, whole
from .nodes import is_routine

KEPT = 100_000
SAME_WITHIN = 30.0
_FOLD_WITHIN = 10.0
_QUIET = {ChangeKind.JOB}


@dataclass(slots=True)
class _Line:
    at: float
    change: Change
    key: tuple[Any, ...]


class Changelog:
    """The lines, oldest first. One fact heard twice (as a change and as a stored event) is one
    line."""

    def __init__(self, clean: Cleaner) -> None:
        self._lines: list[_Line] = []
        self._newest: dict[tuple[Any, ...], _Line] = {}
        self._clean = clean

    def add(self, at: float, kind: ChangeKind, subject: str, text: str, **more: Any) -> None:
        """Add a line; one with the key of a recent line takes its place if it says more."""
        key = more.pop("key", None) or (kind, subject, text)
        change = Change(date(at), kind, subject, text, more.get("target"))
        before = self._newest.get(key)
        if before is not None and abs(at - before.at) < SAME_WITHIN:
            if len(text) > len(before.change.text):
                before.change = replace(before.change, text=text)
            return
        self._insert(_Line(at, change, key))

    def fold(
        self,
        at: float,
        kind: ChangeKind,
        subject: str,
        text: str,
        key: tuple[Any, ...],
        target: Target,
    ) -> None:
        """Add a line, or count it into a recent one of the same key, which stays what it was."""
        before = self._newest.get(key)
        if before is not None and 0 <= at - before.at < _FOLD_WITHIN:
            before.change = replace(before.change, times=before.change.times + 1, last=subject)
        else:
            self._insert(_Line(at, Change(date(at), kind, subject, text, target), key))

    def _insert(self, line: _Line) -> None:
        self._newest[line.key] = line
        if not self._lines or self._lines[-1].at <= line.at:
            self._lines.append(line)
        else:
            self._lines.insert(bisect_right(self._lines, line.at, key=lambda one: one.at), line)
        if len(self._lines) > KEPT:
            for old in self._lines[: KEPT // 10]:
                if self._newest.get(old.key) is old:
                    del self._newest[old.key]
            del self._lines[: KEPT // 10]

    def latest(
        self, kinds: Collection[ChangeKind] | None, limit: int, until: float
    ) -> tuple[Change, ...]:
        """The newest lines until a timestamp, oldest first."""
        found: list[Change] = []
        for place in range(bisect_right(self._lines, until, key=lambda one: one.at) - 1, -1, -1):
            change = self._lines[place].change
            if change.kind in kinds if kinds is not None else change.kind not in _QUIET:
                found.append(change)
                if len(found) == limit:
                    break
        return tuple(reversed(found))

    def node(self, at: float, before: NodeFact | None, after: NodeFact | None) -> None:
        """A change of a node's record; beats, routine and the removal of a dead one's record leave
        no line."""
        if after is None:
            return
        if before is None:
            if not after.is_dead:
                self._moved(at, after, after.state)
        elif before.state == after.state:
            if before.desired != after.desired and after.desired:
                self._asked(at, after)
        elif not is_routine(before.state, after.state):
            self._moved(at, after, f"{before.state} → {after.state}")

    def _moved(self, at: float, fact: NodeFact, text: str) -> None:
        why = f"  ({fact.death})" if fact.is_dead and fact.death else ""
        key = ("node", fact.id, fact.state)
        self.add(
            at, ChangeKind.NODE, fact.name, text + why, key=key, target=Target(Pane.NODES, fact.id)
        )

    def _asked(self, at: float, fact: NodeFact) -> None:
        text = f"asked to be {fact.desired}"
        key = ("asked", fact.id, fact.desired)
        self.add(
            at, ChangeKind.REQUEST, fact.name, text, key=key, target=Target(Pane.NODES, fact.id)
        )

    def roster(self, new: Epoch, old: Epoch | None, names: Mapping[str, str]) -> None:
        """A new epoch."""
        text = count(len(new.members), "member")
        if old is not None:
            text = f"N {len(old.members)} → {len(new.members)}"
            joined = [names.get(one, one) for one in new.members if one not in old.members]
            left = [names.get(one, one) for one in old.members if one not in new.members]
            text += f"  {', '.join(joined)} joined" if joined else ""
            text += f"  {', '.join(left)} left" if left else ""
        self.add(
            new.at,
            ChangeKind.EPOCH,
            f"E{new.epoch}",
            text,
            key=("epoch", new.epoch),
            target=Target(Pane.SHARES),
        )

    def event(self, event: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """A stored event; what is not known is shown as it is."""
        at = timestamp(event.get("at"))
        if at is None:
            return
        clean = self._clean
        node = clean.name(event.get("node"))
        name = clean.name(event.get("name") or names.get(node) or node)
        why = f"  ({self._why(event['why'], names)})" if event.get("why") else ""
        match event.get("kind"):
            case "node":
                self._node_event(at, event, name, why)
            case "roster":
                self._roster_event(at, event, why)
            case "repair":
                text = f"gave back {count(whole(event.get('jobs')), 'job')} of {name}"
                self.add(at, ChangeKind.NODE, clean.name(event.get("by")), text)
            case "request":
                self._request_event(at, event)
            case "demo":
                self.add(at, ChangeKind.NOTE, "demo", clean.text(event.get("text")))
            case kind:
                facts = " ".join(
                    f"{key}={value}"
                    for key, value in event.items()
                    if key not in ("_id", "at", "kind")
                )
                self.add(at, ChangeKind.NOTE, clean.name(kind), clean.text(facts))

    def _why(self, why: Any, names: Mapping[str, str]) -> str:
        """A reason, with the names of the nodes whose ids it mentions."""
        return " ".join(
            names.get(word.rstrip(","), word) for word in self._clean.text(why).split(" ")
        )

    def _node_event(self, at: float, event: Mapping[str, Any], name: str, why: str) -> None:
        clean = self._clean
        node, after = clean.name(event.get("node")), clean.name(event.get("to"))
        before = str(event.get("from") or "")
        if is_routine(before, after):
            return
        moved = f"{clean.name(before)} → {after}" if before else after
        by = f"  by {clean.name(event['by'])}" if event.get("by") else ""
        target = Target(Pane.NODES, node)
        self.add(
            at, ChangeKind.NODE, name, moved + why + by, key=("node", node, after), target=target
        )

    def _roster_event(self, at: float, event: Mapping[str, Any], why: str) -> None:
        members = event.get("members")
        size = count(len(members), "member") if isinstance(members, list) else "? members"
        epoch = whole(event.get("epoch"))
        line = self._newest.get(("epoch", epoch))
        if line is not None and why.strip():
            # The line that was derived says who came and went; the event adds nothing but the
            # reason.
            return
        self.add(
            at,
            ChangeKind.EPOCH,
            f"E{epoch}",
            f"{size}{why}",
            key=("epoch", epoch),
            target=Target(Pane.SHARES),
        )

    def _request_event(self, at: float, event: Mapping[str, Any]) -> None:
        clean = self._clean
        subject = clean.name(event.get("subject") or event.get("name") or "?")
        reason = f': "{clean.text(event["why"])}"' if event.get("why") else ""
        text = f"{clean.name(event.get('verb'))}  by {clean.name(event.get('actor'))}{reason}"
        self.add(at, ChangeKind.REQUEST, subject, text)
