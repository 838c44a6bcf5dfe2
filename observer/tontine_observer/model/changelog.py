"""What happened, line by line: stories, failures, requests and gaps; routine is left out. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tontine.legible import count
from tontine.records.states import Desired, NodeState

from ..records.change import Change, ChangeKind
from ..records.clean import Cleaner
from ..records.job import JobRow
from ..records.node import NodeFact
from ..records.pane import Pane, Target
from ..records.timeline import Epoch
from ..records.values import date, timestamp, whole
from .jobs import JobMoved
from .nodes import is_routine
from .stories import Stories, Story

KEPT = 100_000
SAME_WITHIN = 30.0
_FOLD_WITHIN = 10.0
_QUIET = {ChangeKind.JOB, ChangeKind.EPOCH}
"""Shown to whoever asks for them."""


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
        self.stories = Stories()
        self._epochs: set[int] = set()
        """Those that belong to stories already."""

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

    def node(
        self,
        at: float,
        before: NodeFact | None,
        after: NodeFact | None,
        held: Mapping[Hashable, JobRow] | None = None,
    ) -> None:
        """A change of a node's record, and what it held where it died; beats, routine and the
        removal of a dead one's record leave no line."""
        if after is None or (before is None and after.is_dead):
            return
        state = before.state if before else ""
        if before is not None and state == after.state:
            if before.desired != after.desired and after.desired:
                self._asked(at, after)
        elif not is_routine(state, after.state):
            self._moved(at, after.id, after.name, state, after.state, after.death, held)

    def _moved(
        self,
        at: float,
        node: str,
        name: str,
        before: str,
        after: str,
        why: str = "",
        held: Mapping[Hashable, JobRow] | None = None,
    ) -> None:
        stories = self.stories
        match after:
            case NodeState.DEAD:
                self._tell(stories.died(at, node, name, why, held))
            case NodeState.PAUSED:
                self._tell(stories.pausing(at, node, name, is_done=True))
            case NodeState.INITIALIZING:
                self._tell(stories.started(at, node, name, is_ready=False))
            case NodeState.WAITING | NodeState.WORKING if before == NodeState.PAUSED:
                self._tell(stories.resuming(at, node, name, is_done=True))
            case NodeState.WAITING | NodeState.WORKING:
                self._tell(stories.started(at, node, name, is_ready=True))
            case _:
                text = f"{before} → {after}" if before else after
                key, target = ("node", node, after), Target(Pane.NODES, node)
                self.add(at, ChangeKind.NODE, name, text, key=key, target=target)

    def _asked(self, at: float, fact: NodeFact) -> None:
        match fact.desired:
            case Desired.PAUSED:
                self._tell(self.stories.pausing(at, fact.id, fact.name, is_done=False))
            case Desired.STOPPED:
                self._tell(self.stories.stopping(at, fact.id, fact.name))
            case Desired.RUNNING:
                self._tell(self.stories.resuming(at, fact.id, fact.name, is_done=False))

    def job(self, moved: JobMoved, names: Mapping[str, str]) -> bool:
        """What became of a job may belong to the story of a death."""
        row = moved.after
        holder = names.get(row.node, row.node) if row else ""
        story = self.stories.job_moved(moved.at, moved.key, row, holder)
        if story is not None:
            self._tell(story)
        return story is not None

    def _tell(self, story: Story) -> None:
        """Tell a story, or tell it anew in its place."""
        restarted = self.stories.restart(story)
        replaced, self.stories.mistaken = self.stories.mistaken, []
        if restarted is not None:
            story = restarted[0]
            replaced += restarted[1]
        for old in replaced:
            self._remove((old.plot, old.node))
        key = (story.plot, story.node)
        subject = "nodes" if len(story.names) > 1 else story.name
        target = Target(Pane.NODES, story.node)
        change = Change(date(story.at), ChangeKind.NODE, subject, story.text(), target)
        line = self._newest.get(key)
        if line is not None and story.at >= line.at:
            line.change = replace(change, at=line.change.at)
            return
        if line is not None:
            self._remove(key)
        self._insert(_Line(story.at, change, key))

    def _remove(self, key: tuple[Any, ...]) -> None:
        line = self._newest.pop(key, None)
        if line is not None:
            self._lines.remove(line)

    def roster(self, new: Epoch, old: Epoch | None, names: Mapping[str, str]) -> None:
        """A new epoch: it belongs to the stories of those who came and went."""
        text = count(len(new.members), "member")
        if old is not None and new.epoch not in self._epochs:
            self._epochs.add(new.epoch)
            for story in self.stories.roster(new.at, new.members, old.members, names):
                self._tell(story)
        if old is not None:
            text = f"{text}, {len(old.members):,} before"
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
                self._node_event(at, event, name)
            case "roster":
                self._roster_event(at, event, why)
            case "repair":
                self._tell(self.stories.gave_back(at, node, name, whole(event.get("jobs"))))
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

    def _node_event(self, at: float, event: Mapping[str, Any], name: str) -> None:
        clean = self._clean
        before, after = clean.name(event.get("from") or ""), clean.name(event.get("to"))
        if not is_routine(before, after):
            why = clean.text(event.get("why") or "")
            self._moved(at, clean.name(event.get("node")), name, before, after, why)

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
