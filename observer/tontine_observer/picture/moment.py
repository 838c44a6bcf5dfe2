"""What is known of one moment, now or in the past, and the rows of nodes that follow from it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from tontine.legible import duration
from tontine.records.states import Desired, JobState, NodeState
from tontine.records.trouble import Trouble

from ..model.nodes import Epoch, Lives, Moment
from ..records.facts import NodeFact
from ..records.picture import JobRow, NodeRow

DEAD_SHOWN_FOR = 60.0
RATE_OVER, RATE_STEP = 60.0, 2.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """One share's waiting jobs, as a count in the store found them."""

    number: int
    oldest_due: float | None = None
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """The system at one moment, by the server's clock."""

    at: float
    facts: Mapping[str, NodeFact]
    roster: Epoch
    rows: tuple[JobRow, ...]
    """By seq; those without a number last."""
    unfinished: tuple[JobRow, ...]
    """Those of the rows that have not ended."""
    working: tuple[JobRow, ...]
    """And those of them that a node holds."""
    counts: Mapping[str, int]
    is_complete: bool
    """Whether every unfinished job is among the rows."""
    known_from: int
    seq: int
    watched_for: float
    """Seconds for which changes have been watched without a gap."""
    waiting: Mapping[int, Waiting] = field(default_factory=dict)
    """By rank, counted in the store, for when the rows are not complete."""
    unnumbered: int = 0
    unnumbered_for: float = 0.0
    unknown: Mapping[str, int] = field(default_factory=dict)
    still: frozenset[str] = frozenset()
    """Nodes that beat and whose claim loop stands still."""
    ahead: float = 0.0
    has_cells: bool = True
    """Whether somebody looks at the single jobs of each share."""
    settled_at: Mapping[str, float] = field(default_factory=dict)
    """When each node's counters last grew, where the changes of its jobs are not followed."""

    @property
    def members(self) -> tuple[str, ...]:
        return self.roster.members

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks that live nodes have."""
        return frozenset(task for fact in self.facts.values() if not fact.is_dead for task in fact.tasks)

    def name_of(self, id: str) -> str:
        fact = self.facts.get(id)
        return fact.name if fact else id


def as_date(at: float | None) -> datetime | None:
    return None if at is None else date(at)


def date(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def sorted_rows(rows: Iterable[JobRow]) -> tuple[JobRow, ...]:
    """By seq; those without a number last."""
    # They are nearly in order: with a key that costs nothing, sorting thousands for every frame costs next to nothing.
    every = list(rows)
    numbered = [row for row in every if row.seq is not None]
    numbered.sort(key=_SEQ)
    if len(numbered) == len(every):
        return tuple(numbered)
    return (*numbered, *(row for row in every if row.seq is None))


def working_of(rows: Iterable[JobRow]) -> tuple[JobRow, ...]:
    """Those that a node holds."""
    return tuple(row for row in rows if row.state == _WORKING)


_WORKING = JobState.WORKING.value
_SEQ = itemgetter(JobRow._fields.index("seq"))


def node_rows(view: View, lives: Lives) -> tuple[NodeRow, ...]:
    """The nodes: the living first, then those who died a short while ago."""
    held: dict[str, list[JobRow]] = {}
    for row in view.working:
        if row.node:
            held.setdefault(row.node, []).append(row)
    ranks = {member: rank for rank, member in enumerate(view.members)}
    shown = [fact for fact in view.facts.values() if is_shown(fact, view, held)]
    shown.sort(key=lambda fact: (fact.is_dead, fact.name, fact.id))
    return tuple(_row(fact, view, lives, ranks.get(fact.id), held.get(fact.id, ())) for fact in shown)


def is_shown(fact: NodeFact, view: View, held: Mapping[str, Any]) -> bool:
    return (
        not fact.is_dead
        or fact.id in view.members
        or fact.id in held
        or (fact.died_at is not None and view.at - fact.died_at < DEAD_SHOWN_FOR)
    )


def _row(fact: NodeFact, view: View, lives: Lives, rank: int | None, held: Any) -> NodeRow:
    job = min(held, key=lambda row: (row.started_at is None, row.started_at or row.claimed_at or 0), default=None)
    started = job.started_at if job is not None else None
    return NodeRow(
        id=fact.id,
        name=fact.name,
        state=fact.state,
        share=fact.share,
        running=0 if fact.is_dead else fact.running,
        slots=fact.slots,
        done=fact.done,
        failed=fact.failed,
        beat_age=fact.beat_age(view.at),
        tick=fact.tick,
        host=fact.host,
        pid=fact.pid,
        version=fact.version,
        note=_note(fact, view.at),
        desired=fact.desired,
        rank=rank,
        job=job.seq if job is not None else None,
        job_for=None if started is None else max(0.0, view.at - started),
        is_job_doubtful=fact.is_dead,
        held=len(held),
        rate=settled_rates(lives, fact, view.at),
        cpu=fact.cpu,
        memory=fact.memory,
        lease=fact.lease,
        skew=fact.skew,
        since=as_date(lives.since(fact.id, view.at)),
        started_at=as_date(fact.started_at),
        died_at=as_date(fact.died_at),
        death=fact.death,
        modules=fact.modules,
        is_silent=fact.is_silent(view.at),
        troubles=troubles_of(fact, view.at),
        workers=fact.workers,
        workers_wanted=fact.workers_wanted,
        bytes=fact.bytes,
    )


def troubles_of(fact: NodeFact, now: float) -> tuple[Trouble, ...]:
    """What fails inside a node: of one that does not beat, nobody knows whether it still does."""
    return () if fact.is_dead or fact.is_silent(now) else fact.troubles


def _note(fact: NodeFact, now: float) -> str:
    if fact.is_dead:
        when = f"{duration(now - fact.died_at)} ago: " if fact.died_at is not None else ""
        return f"{when}{fact.death or 'unknown'}"
    if fact.desired == Desired.STOPPED:
        return "stopping"
    if fact.desired == Desired.PAUSED and fact.state != NodeState.PAUSED:
        return "finishing, then pausing"
    if troubles := troubles_of(fact, now):
        return f"in trouble: {', '.join(one.what for one in troubles)}"
    return ""


def settled_rates(lives: Lives, fact: NodeFact, now: float) -> tuple[float, ...]:
    """Jobs a second over the last minute, from the counters that heartbeats carry, spread over the time between."""
    life = lives.lives.get(fact.id, ())
    # Drawn with every frame, and different once a second at most.
    stamp = (int(now), life[-1] if life else None)
    known = lives.rates.get(fact.id)
    if known is None or known[0] != stamp:
        known = lives.rates[fact.id] = (stamp, _settled_rates(life, now))
    return known[1]


def _settled_rates(life: Sequence[Moment], now: float) -> tuple[float, ...]:
    steps = int(RATE_OVER / RATE_STEP)
    start = now - RATE_OVER
    sums = [0.0] * steps
    earliest = now
    later: tuple[float, int] | None = None
    for at, one in reversed(life):
        if one is None or at > now:
            continue
        settled = one.done + one.failed
        if later is not None and settled <= later[1] and at < later[0]:
            _spread(sums, at - start, later[0] - start, later[1] - settled)
            earliest = at
        later = (at, settled)
        if at < start:
            break
    known = min(steps, max(0, round((now - earliest) / RATE_STEP)))
    return tuple(value / RATE_STEP for value in sums[steps - known :])


def _spread(sums: list[float], begin: float, end: float, amount: int) -> None:
    if not amount:
        return
    for place in range(max(0, int(begin // RATE_STEP)), min(len(sums), int(end // RATE_STEP) + 1)):
        overlap = min(end, (place + 1) * RATE_STEP) - max(begin, place * RATE_STEP)
        sums[place] += amount * max(0.0, overlap) / (end - begin)
