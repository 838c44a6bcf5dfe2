"""The rows of nodes at one moment: the living first, then the dead of the last day, the newest
first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tontine.legible import duration
from tontine.records.states import Desired, NodeState
from tontine.records.trouble import Trouble

from ..model.nodes import Dated, Lives
from ..records.job import JobRow
from ..records.node import RATE_STEP, RATE_STEPS, NodeFact, NodeRow
from ..records.values import as_date
from .moment import Moment

DEAD_SHOWN_FOR, DEAD_SHOWN = 86_400.0, 50


def node_rows(moment: Moment, lives: Lives) -> tuple[NodeRow, ...]:
    """The nodes: the living first, then the dead of the last day."""
    held: dict[str, list[JobRow]] = {}
    for row in moment.working:
        if row.node:
            held.setdefault(row.node, []).append(row)
    ranks = {member: rank for rank, member in enumerate(moment.members)}
    shown = [fact for fact in moment.facts.values() if is_shown(fact, moment, held)]
    living = sorted(
        (fact for fact in shown if not fact.is_dead), key=lambda fact: (fact.name, fact.id)
    )
    dead = sorted(
        (fact for fact in shown if fact.is_dead), key=lambda fact: fact.died_at or 0.0, reverse=True
    )
    shown = [*living, *dead[:DEAD_SHOWN]]
    return tuple(
        _row(fact, moment, lives, ranks.get(fact.id), held.get(fact.id, ())) for fact in shown
    )


def is_shown(fact: NodeFact, moment: Moment, held: Mapping[str, Sequence[JobRow]]) -> bool:
    return (
        not fact.is_dead
        or fact.id in moment.members
        or fact.id in held
        or (fact.died_at is not None and moment.at - fact.died_at < DEAD_SHOWN_FOR)
    )


def _row(
    fact: NodeFact, moment: Moment, lives: Lives, rank: int | None, held: Sequence[JobRow]
) -> NodeRow:
    job = min(
        held,
        key=lambda row: (row.started_at is None, row.started_at or row.claimed_at or 0),
        default=None,
    )
    started = job.started_at if job is not None else None
    return NodeRow(
        id=fact.id,
        name=fact.name,
        state=fact.state,
        share=fact.share,
        running=_busy(fact, held),
        slots=fact.slots,
        done=fact.done,
        failed=fact.failed,
        beat_age=fact.beat_age(moment.at),
        tick=fact.tick,
        host=fact.host,
        pid=fact.pid,
        version=fact.version,
        note=_note(fact, moment.at),
        desired=fact.desired,
        rank=rank,
        job=job.seq if job is not None else None,
        job_for=None if started is None else max(0.0, moment.at - started),
        is_job_doubtful=fact.is_dead,
        held=len(held),
        rate=settled_rates(lives, fact, moment.at),
        cpu=fact.cpu,
        memory=fact.memory,
        lease=fact.lease,
        skew=fact.skew,
        since=as_date(lives.since(fact.id, moment.at)),
        started_at=as_date(fact.started_at),
        died_at=as_date(fact.died_at),
        death=fact.death,
        modules=fact.modules,
        contexts=fact.contexts,
        is_silent=fact.is_silent(moment.at),
        is_gone=fact.is_gone(moment.at),
        troubles=troubles_of(fact, moment.at),
        faults=faults_of(fact, moment.at),
        workers=fact.workers,
        workers_wanted=fact.workers_wanted,
        bytes=fact.bytes,
    )


def _busy(fact: NodeFact, held: Sequence[JobRow]) -> int:
    """How many slots are busy: a heartbeat tells it up to two seconds later than its state and its
    jobs do."""
    if fact.is_dead or fact.state == NodeState.WAITING:
        return 0
    return max(fact.running, min(fact.slots, sum(row.started_at is not None for row in held)))


def troubles_of(fact: NodeFact, now: float) -> tuple[Trouble, ...]:
    """What fails inside a node: of one that does not beat, nobody knows whether it still does."""
    return () if fact.is_dead or fact.is_silent(now) else fact.troubles


def faults_of(fact: NodeFact, now: float) -> tuple[str, ...]:
    """Which of a node's contexts and modules fail, as far as that is known."""
    if fact.is_dead or fact.is_silent(now):
        return ()
    contexts = [f"context {one.name}" for one in fact.contexts if one.is_faulty]
    return (*contexts, *(f"module {one.name}" for one in fact.modules if one.is_faulty))


def _note(fact: NodeFact, now: float) -> str:
    if fact.is_dead:
        when = f"{duration(now - fact.died_at)} ago: " if fact.died_at is not None else ""
        return f"{when}{fact.death or 'unknown'}"
    if fact.desired == Desired.STOPPED:
        return "stopping"
    if fact.desired == Desired.PAUSED and fact.state != NodeState.PAUSED:
        return "finishing, then pausing"
    troubles = [one.what for one in troubles_of(fact, now)]
    faults = [one for one in faults_of(fact, now) if not _is_told(one, troubles)]
    if troubles or faults:
        return f"in trouble: {', '.join([*troubles, *faults])}"
    return ""


def _is_told(fault: str, troubles: Sequence[str]) -> bool:
    """Whether it is a context that is told of already, because its workers cannot be started."""
    return fault.replace("context ", "workers of ", 1) in troubles


def settled_rates(lives: Lives, fact: NodeFact, now: float) -> tuple[float, ...]:
    """Jobs a second over the last minute, from the counters that heartbeats carry, spread over the
    time between."""
    life = lives.lives.get(fact.id, ())
    # Drawn with every frame, and different once a second at most.
    stamp = (int(now), life[-1] if life else None)
    known = lives.rates.get(fact.id)
    if known is None or known[0] != stamp:
        known = lives.rates[fact.id] = (stamp, _settled_rates(life, now))
    return known[1]


def _settled_rates(life: Sequence[Dated], now: float) -> tuple[float, ...]:
    start = now - RATE_STEPS * RATE_STEP
    sums = [0.0] * RATE_STEPS
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
    known = min(RATE_STEPS, max(0, round((now - earliest) / RATE_STEP)))
    return tuple(value / RATE_STEP for value in sums[RATE_STEPS - known :])


def _spread(sums: list[float], begin: float, end: float, amount: int) -> None:
    if not amount:
        return
    for place in range(max(0, int(begin // RATE_STEP)), min(len(sums), int(end // RATE_STEP) + 1)):
        overlap = min(end, (place + 1) * RATE_STEP) - max(begin, place * RATE_STEP)
        sums[place] += amount * max(0.0, overlap) / (end - begin)
