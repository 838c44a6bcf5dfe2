"""The picture: what was read from the store, cleaned once, with the alerts that follow from it.

Pure, and the one source for screen, text and JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tontine.legible import count, duration, legible
from tontine.roster import Roster
from tontine.share import Share
from tontine.states import LIVE, Desired, JobState, NodeState

STILL_FOR = 5.0
UNNUMBERED_FOR = 5.0
DEAD_SHOWN_FOR = 60.0
COUNTED_AT_MOST = 1000
TEXT_KEPT = 200
_ROUTINE = {NodeState.WAITING.value, NodeState.WORKING.value}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one look at the store found, as it was."""

    at: datetime
    nodes: Sequence[Mapping[str, Any]]
    roster: Roster
    seq: int
    counts: Mapping[str, int]
    unnumbered: Sequence[Any] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs somebody: its kind for programs, its text for people."""

    kind: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node as people see it."""

    id: str
    name: str
    state: str
    share: Share | None
    running: int
    slots: int
    done: int
    failed: int
    beat_age: float | None
    tick: int
    host: str
    pid: int
    version: str
    note: str


@dataclass(frozen=True, slots=True)
class Board:
    """Everything there is to show."""

    at: datetime
    epoch: int
    members: tuple[str, ...]
    seq: int
    counts: Mapping[str, int]
    unnumbered: int
    nodes: tuple[NodeRow, ...]
    alerts: tuple[Alert, ...]
    events: tuple[tuple[datetime | None, str], ...]

    @property
    def backlog(self) -> int:
        return self.counts.get(JobState.QUEUED, 0)

    @property
    def is_healthy(self) -> bool:
        return not self.alerts

    def states(self) -> dict[str, int]:
        """How many nodes are in each state."""
        found = {state.value: 0 for state in NodeState}
        for node in self.nodes:
            found[node.state] = found.get(node.state, 0) + 1
        return found


class Pulse:
    """Remembers heartbeats and claim loops from look to look: only over time does one see a loop that stands still."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def note(self, nodes: Sequence[Mapping[str, Any]]) -> set[str]:
        """The live nodes that have beaten for `STILL_FOR` seconds without a round of their claim loop."""
        still: set[str] = set()
        seen: dict[str, tuple[int, int]] = {}
        for node in nodes:
            who, beat, tick = str(node["_id"]), _whole(node.get("beat")), _whole(node.get("tick"))
            since, before = self._seen.get(who, (beat, tick))
            seen[who] = (since, tick) if tick == before else (beat, tick)
            passed = (beat - seen[who][0]) * _number(node.get("lease")) / 10  # a node beats ten times a lease
            if node.get("state") in LIVE and node.get("state") != NodeState.INITIALIZING and passed >= STILL_FOR:
                still.add(who)
        self._seen = seen
        return still


def draw(snapshot: Snapshot, still: frozenset[str] | set[str] = frozenset()) -> Board:
    """The board of a snapshot; `still` are the nodes whose claim loop stands still."""
    names = {node["_id"]: node.get("name") for node in snapshot.nodes}
    return Board(
        at=snapshot.at,
        epoch=snapshot.roster.epoch,
        members=tuple(legible(member, TEXT_KEPT) for member in snapshot.roster.members),
        seq=snapshot.seq,
        counts={legible(state, 40): number for state, number in snapshot.counts.items()},
        unnumbered=len(snapshot.unnumbered),
        nodes=tuple(_row(node, snapshot.at) for node in snapshot.nodes if _is_shown(node, snapshot)),
        alerts=tuple(_alerts(snapshot, still)),
        events=tuple(
            (_moment(event.get("at")), tell(event, names)) for event in snapshot.events if not _is_routine(event)
        ),
    )


def _is_shown(node: Mapping[str, Any], snapshot: Snapshot) -> bool:
    died_at = _moment(node.get("died_at"))
    return (
        node.get("state") != NodeState.DEAD
        or node["_id"] in snapshot.roster
        or (died_at is not None and (snapshot.at - died_at).total_seconds() < DEAD_SHOWN_FOR)
    )


def _row(node: Mapping[str, Any], now: datetime) -> NodeRow:
    metrics = _mapping(node.get("metrics"))
    return NodeRow(
        id=legible(node["_id"], TEXT_KEPT),
        name=_name(node),
        state=legible(node.get("state"), 40),
        share=_share(node.get("share")),
        running=0 if node.get("state") == NodeState.DEAD else _whole(node.get("running")),
        slots=_whole(node.get("slots")),
        done=_whole(metrics.get("done")),
        failed=_whole(metrics.get("failed")),
        beat_age=_beat_age(node, now),
        tick=_whole(node.get("tick")),
        host=legible(node.get("host", "-"), TEXT_KEPT),
        pid=_whole(node.get("pid")),
        version=legible(node.get("version", "-"), 40),
        note=_note(node, now),
    )


def _share(value: Any) -> Share | None:
    known = _mapping(value)
    return Share(*(_whole(known.get(name)) for name in ("epoch", "rank", "size"))) if known else None


def _beat_age(node: Mapping[str, Any], now: datetime) -> float | None:
    until = _moment(node.get("lease_until"))
    if node.get("state") == NodeState.DEAD or until is None:
        return None
    return max(0.0, _number(node.get("lease")) - (until - now).total_seconds())


def _note(node: Mapping[str, Any], now: datetime) -> str:
    if node.get("state") == NodeState.DEAD:
        died_at = _moment(node.get("died_at"))
        when = f"{duration((now - died_at).total_seconds())} ago: " if died_at else ""
        return legible(f"{when}{node.get('death') or 'unknown'}", TEXT_KEPT)
    if node.get("desired") == Desired.STOPPED:
        return "stopping"
    if node.get("desired") == Desired.PAUSED and node.get("state") != NodeState.PAUSED:
        return "finishing, then pausing"
    return ""


def _alerts(snapshot: Snapshot, still: frozenset[str] | set[str]) -> Iterator[Alert]:
    known = {node["_id"]: node for node in snapshot.nodes}
    for member in snapshot.roster.members:
        node = known.get(member)
        if node is None or node.get("state") == NodeState.DEAD:
            name = legible(member, TEXT_KEPT) if node is None else _name(node)
            yield Alert("dead-member", name, f"{name} is dead and still in the roster: its share waits to be inherited")
    for node in snapshot.nodes:
        yield from _node_alerts(node, snapshot.at, still)
    yield from _queue_alerts(snapshot)


def _node_alerts(node: Mapping[str, Any], now: datetime, still: frozenset[str] | set[str]) -> Iterator[Alert]:
    name, until = _name(node), _moment(node.get("lease_until"))
    if node.get("state") not in LIVE:
        return
    if until is not None and until < now:
        late = duration((now - until).total_seconds())
        yield Alert("lease-over", name, f"{name}'s lease ran out {late} ago: the others will bury it")
    elif str(node["_id"]) in still:
        yield Alert("standing-still", name, f"{name} beats, but its claim loop stands still")


def _queue_alerts(snapshot: Snapshot) -> Iterator[Alert]:
    queued = snapshot.counts.get(JobState.QUEUED, 0)
    if queued and not snapshot.roster.members:
        yield Alert("no-member", "", f"{count(queued, 'job')} queued and no node to run them")
    else:
        for task, number in sorted(snapshot.unknown.items()):
            amount = f"{COUNTED_AT_MOST:,} jobs or more" if number >= COUNTED_AT_MOST else count(number, "job")
            name = legible(task, TEXT_KEPT)
            yield Alert("unknown-task", name, f"{amount} of {name} queued, and no live node has that task")
    age = _age(snapshot.unnumbered[0], snapshot.at) if snapshot.unnumbered else 0.0
    if age > UNNUMBERED_FOR or (snapshot.unnumbered and not snapshot.roster.members):
        yield Alert("unnumbered", "", f"{count(len(snapshot.unnumbered), 'job')} without a number: nobody numbers them")


def _age(id: Any, now: datetime) -> float:
    """How long ago a document with this `_id` was made; an ObjectId tells."""
    made = _moment(getattr(id, "generation_time", None))
    return (now - made).total_seconds() if made else 0.0


def _is_routine(event: Mapping[str, Any]) -> bool:
    """A node that finds work or runs out of it: it happens all day, and would hide everything else."""
    return event.get("kind") == "node" and {event.get("from"), event.get("to")} == _ROUTINE


def tell(event: Mapping[str, Any], names: Mapping[Any, Any]) -> str:
    """One event in words; what is not known is shown as it is."""
    kind, why, node = event.get("kind"), event.get("why"), event.get("node")
    name = event.get("name") or names.get(node) or node
    match kind:
        case "node":
            moved = f"{event['from']} → {event.get('to')}" if event.get("from") else event.get("to")
            text = f"{name}  {moved}" + (f"  ({why})" if why else "")
        case "roster":
            members = event.get("members")
            size = count(len(members), "member") if isinstance(members, list) else "? members"
            text = f"epoch {event.get('epoch')}, {size}  {why or ''}"
        case "repair":
            text = f"{event.get('by')} gave back {count(_whole(event.get('jobs')), 'job')} of {name}"
        case "demo":
            text = str(event.get("text"))
        case _:
            facts = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("_id", "at", "kind"))
            text = f"{kind} {facts}"
    return legible(text, TEXT_KEPT)


def _name(node: Mapping[str, Any]) -> str:
    return legible(node.get("name", node["_id"]), TEXT_KEPT)


def _moment(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
