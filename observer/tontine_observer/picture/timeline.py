"""The time pane and what else looks back: lanes, epochs, curves, differences of two moments.
Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter

from tontine.records.states import JobState, NodeState
from tontine.rules.health import SILENT_AFTER

from ..model.curves import Curves
from ..model.nodes import Dated, Lives
from ..records.node import NodeFact
from ..records.timeline import EpochMark, Timeline, Track
from ..records.values import date
from .moment import Moment

_CODES = {
    NodeState.WORKING.value: "w",
    NodeState.WAITING.value: "-",
    NodeState.PAUSED.value: "p",
    NodeState.INITIALIZING.value: "i",
    NodeState.DEAD.value: "x",
}
_LISTED = 20
LANES_SHOWN = 200


def timeline(
    lives: Lives, curves: Curves, oldest: float, now: float, start: float, step: float, columns: int
) -> Timeline:
    """`columns` columns of `step` seconds from `start`."""
    end = start + step * columns
    edges = [start + step * column for column in range(columns)]
    lanes = [_lane(node, life, start, step, columns, now) for node, life in lives.lives.items()]
    present = [lane for lane in lanes if lane.states.strip()]
    present.sort(key=lambda lane: (lane.is_gone, -_left_at(lives.lives[lane.id]), lane.name))
    return Timeline(
        start=date(start),
        step=step,
        columns=columns,
        oldest=date(oldest),
        epochs=tuple(_marks(lives, start, step, end)),
        members=tuple(_members(lives, edge + step, now) for edge in edges),
        waiting=curves.depths(JobState.QUEUED.value, start, step, columns),
        recorded=tuple(
            edge + step > oldest and edge <= now and _is_recorded(curves, edge, step)
            for edge in edges
        ),
        lanes=tuple(present[:LANES_SHOWN]),
    )


def _is_recorded(curves: Curves, edge: float, step: float) -> bool:
    return curves.watched.cover(edge, edge + step) or curves.sampled.cover(edge, edge + step)


def _marks(lives: Lives, start: float, step: float, end: float) -> Iterator[EpochMark]:
    """Every epoch that begins here, and the one in force at the left edge."""
    first = lives.epoch_at(start)
    if first is not None:
        yield EpochMark(0, first.epoch, date(first.at), len(first.members))
    for one in lives.epochs:
        if one.is_exact and start < one.at < end:
            yield EpochMark(int((one.at - start) / step), one.epoch, date(one.at), len(one.members))


def _members(lives: Lives, at: float, now: float) -> int | None:
    epoch = lives.epoch_at(min(at, now))
    return None if epoch is None or at - now > 60 else len(epoch.members)


def _lane(id: str, life: list[Dated], start: float, step: float, columns: int, now: float) -> Track:
    stretches = _stretches(life, start, min(now, start + step * columns))
    states, place = [], 0
    for column in range(columns):
        begin = start + step * column
        if begin > now:
            break
        end = min(begin + step, now)
        while place + 1 < len(stretches) and stretches[place + 1][0] <= begin:
            place += 1
        is_all = place + 1 >= len(stretches) or stretches[place + 1][0] >= end
        states.append(stretches[place][1] if is_all else _mixed(stretches, place, begin, end))
    last = life[-1][1]
    named = next((fact for _, fact in reversed(life) if fact is not None), None)
    shown = "".join(states).ljust(columns)
    return Track(id, named.name if named else id, shown, last is None or last.is_dead)


def _left_at(life: list[Dated]) -> float:
    """When a node died or its record went; the living have not."""
    is_over = [fact is None or fact.is_dead for _, fact in life]
    if not is_over[-1]:
        return 0.0
    first = next((place for place in range(len(life), 0, -1) if not is_over[place - 1]), 0)
    return life[first][0]


def _stretches(life: list[Dated], start: float, end: float) -> list[tuple[float, str]]:
    """From when on a node was in which state: most moments of a life are beats, which change
    nothing."""
    place = bisect_right(life, start, key=_AT) - 1
    stretches = [(start, " " if place < 0 else _code(life[place][1]))]
    before = life[place][1] if place >= 0 else None
    for at, fact in [*life[place + 1 :], (end, None)]:
        stretches += _silences(before, stretches[-1], min(at, end))
        if at >= end:
            break
        if (code := _code(fact)) != stretches[-1][1]:
            stretches.append((at, code))
        before = fact
    return stretches


def _silences(
    fact: NodeFact | None, last: tuple[float, str], end: float
) -> Iterator[tuple[float, str]]:
    """When a node fell silent, and when its lease ran out, if it did before its next sign of
    life."""
    if fact is None or fact.is_dead or fact.beaten_at is None:
        return
    for part, code in ((SILENT_AFTER, "s"), (1.0, "g")):
        at = max(last[0], fact.beaten_at + part * fact.lease)
        if at < end:
            yield at, code


def _code(fact: NodeFact | None) -> str:
    return " " if fact is None else _CODES.get(fact.state, "?")


def _mixed(stretches: list[tuple[float, str]], place: int, begin: float, end: float) -> str:
    """The state that a node was in for most of a column; a death in it wins, and any work wins over
    waiting."""
    spent: dict[str, float] = {}
    at, code = begin, stretches[place][1]
    for until, following in [*stretches[place + 1 :], (end, " ")]:
        spent[code] = spent.get(code, 0.0) + min(until, end) - at
        if until >= end:
            break
        at, code = until, following
    if code == "x":
        return "x"
    if "w" in spent:
        spent["w"] += spent.pop("-", 0.0)
    return max(spent, key=lambda one: (spent[one], one != " "))


_AT = itemgetter(0)


def next_moment(moments: list[float], at: float, *, back: bool) -> float | None:
    """The nearest of these moments before or after `at`."""
    if back:
        place = bisect_left(moments, at - 0.0005)
        return moments[place - 1] if place else None
    place = bisect_right(moments, at + 0.0005)
    return moments[place] if place < len(moments) else None


def differences(first: Moment, second: Moment) -> Iterator[str]:
    """What is different at the second moment."""
    if first.roster.epoch != second.roster.epoch:
        yield f"epoch {first.roster.epoch} → {second.roster.epoch}"
    if len(first.members) != len(second.members):
        yield f"members {len(first.members)} → {len(second.members)}"
    for node in sorted(first.facts.keys() | second.facts.keys()):
        before, after = first.facts.get(node), second.facts.get(node)
        states = [one.state if one else "not there" for one in (before, after)]
        name = (after or before).name  # type: ignore[union-attr]
        if states[0] != states[1]:
            yield f"{name}  {states[0]} → {states[1]}"
        elif before and after and before.share != after.share:
            ranks = [one.share.rank if one.share else "-" for one in (before, after)]
            yield f"{name}  rank {ranks[0]} → {ranks[1]}"
    yield from _count_differences(first, second)
    yield from _job_differences(first, second)


def _count_differences(first: Moment, second: Moment) -> Iterator[str]:
    """States of which both moments know how many there were; what is unknown is not nothing."""
    for state in second.counts:
        before, after = first.counts.get(state), second.counts[state]
        if before is not None and before != after:
            yield f"{state} jobs {before:,} → {after:,}"
    for name, one, other in (("first", first, second), ("second", second, first)):
        if other.counts.keys() - one.counts.keys():
            partly = "how many of each there were" if one.counts else "how many there were"
            yield f"jobs: {partly} at the {name} moment is not known"


def _job_differences(first: Moment, second: Moment) -> Iterator[str]:
    if not first.knows_jobs or not second.knows_jobs:
        yield "jobs: which they were is not known so far back"
        return
    before = {row.id: row.state for row in first.rows}
    moved = [
        f"#{row.seq}  {before.get(row.id, 'new')} → {row.state}"
        for row in second.rows
        if before.get(row.id) != row.state
    ]
    yield from moved[:_LISTED]
    if len(moved) > _LISTED:
        yield f"and {len(moved) - _LISTED:,} more jobs"
