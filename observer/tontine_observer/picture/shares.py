"""The shares: who should claim which numbers, how long they wait, and one cell per number. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from tontine.legible import count
from tontine.records.share import Share
from tontine.records.states import JobState, NodeState
from tontine.rules.health import STALLED_AFTER

from ..records.job import JobRow
from ..records.share import ShareRow
from ..records.snapshot import Waiting
from .moment import Moment

CELLS_SHOWN = 160
ENDED_BEFORE = 4
_CODES = {JobState.DONE.value: "d", JobState.FAILED.value: "f", JobState.CANCELLED.value: "x"}
_FOREIGN_SHOWN = 3


@dataclass(slots=True)
class _Rank:
    """What the rows tell of one rank."""

    waiting: int = 0
    oldest: JobRow | None = None
    runnable_due: float | None = None
    """Since when its oldest job waits that some live node could run."""
    active_at: float = 0.0
    foreign: list[tuple[int, str]] = field(default_factory=list)
    first: int = 0
    """The number of its first cell."""
    cells: str = ""


def share_rows(moment: Moment) -> tuple[ShareRow, ...]:
    """One row per rank of the roster."""
    size = len(moment.members)
    if not size:
        return ()
    unfinished = [row for row in moment.unfinished if row.seq is not None]
    ranks = _by_rank(moment, unfinished, size)
    _note_activity(moment, ranks)
    start = _window(moment, unfinished, size)
    end = start + (CELLS_SHOWN + 1) * size
    if moment.roster.is_uniform:
        _cut_cells(ranks, _codes(moment, start, end), start)
    else:
        _gather_cells(moment, ranks, start, end)
    return tuple(_row(moment, rank, ranks[rank]) for rank in range(size))


def _by_rank(moment: Moment, rows: Sequence[JobRow], size: int) -> list[_Rank]:
    """What waits and is held, by whose it is; what no member serves is nobody's."""
    ranks = [_Rank() for _ in range(size)]
    is_served = moment.serving()
    rank_of = moment.roster.rank_of
    for row in rows:
        seq = row.seq or 0
        place = rank_of(seq, row.task)
        if place is None:
            continue
        rank = ranks[place]
        rank.active_at = max(rank.active_at, row.claimed_at or 0.0, row.started_at or 0.0)
        if row.state == JobState.QUEUED:
            due = row.due_at
            if due is None or due <= moment.at:
                rank.waiting += 1
                if rank.oldest is None or (due or 0.0) < (rank.oldest.due_at or 0.0):
                    rank.oldest = row
                if is_served(row.task):
                    rank.runnable_due = min(rank.runnable_due or moment.at, due or moment.at)
        elif row.state == JobState.WORKING and row.node and row.node != moment.members[place]:
            rank.foreign.append((seq, moment.name_of(row.node)))
    return ranks


def _note_activity(moment: Moment, ranks: Sequence[_Rank]) -> None:
    """When something last ended in shares in which jobs have waited for long."""
    waiting = {
        place
        for place, rank in enumerate(ranks)
        if rank.runnable_due is not None
        and moment.at - max(rank.runnable_due, rank.active_at) >= STALLED_AFTER
    }
    if not waiting:
        return
    for row in moment.rows:
        if row.finished_at is None or row.seq is None:
            continue
        place = moment.roster.rank_of(row.seq, row.task)
        if place in waiting and place is not None:
            ranks[place].active_at = max(ranks[place].active_at, row.finished_at)


def _window(moment: Moment, rows: Sequence[JobRow], size: int) -> int:
    """The first number shown: just before the oldest open one, but not so far back that a straggler
    hides the rest."""
    waits = [row.seq or 0 for row in rows if row.run_at is None or row.run_at <= moment.at]
    if not waits:
        known = moment.rows[0].seq if moment.rows and not moment.is_complete else None
        return max(1, moment.seq + 1 - CELLS_SHOWN // 2 * size, known or 1)
    first = waits[0]
    most = waits[len(waits) // 20]
    if most - first > CELLS_SHOWN * size:
        first = most
    return max(1, first - ENDED_BEFORE * size)


def _cut_cells(ranks: Sequence[_Rank], codes: Sequence[str], start: int) -> None:
    """Where all offer the same: every so manieth number, whether there is a job or not."""
    size = len(ranks)
    for rank, seen in enumerate(ranks):
        seen.first = Share(0, rank, size).first_from(start)
        seen.cells = "".join(codes[seen.first - start :: size][:CELLS_SHOWN])


def _gather_cells(moment: Moment, ranks: Sequence[_Rank], start: int, end: int) -> None:
    """Where they do not: the jobs themselves, since a number without a job is nobody's."""
    codes: list[list[str]] = [[] for _ in ranks]
    for row in _between(moment, start, end) if moment.has_cells else ():
        seq = row.seq or 0
        place = moment.roster.rank_of(seq, row.task)
        if place is not None:
            ranks[place].first = ranks[place].first or seq
            codes[place].append(_code(moment, row))
    for seen, some in zip(ranks, codes, strict=True):
        seen.cells = "".join(some[:CELLS_SHOWN])


def _between(moment: Moment, start: int, end: int) -> Sequence[JobRow]:
    rows = moment.rows
    return rows[bisect_left(rows, start, key=_seq) : bisect_left(rows, end, key=_seq)]


def _codes(moment: Moment, start: int, end: int) -> list[str]:
    """One code for each number from `start` on, of all shares."""
    end = max(start, min(moment.seq + 1, end)) if moment.has_cells else start
    known = end if not moment.is_complete else min(end, max(start, moment.known_from))
    codes = [" "] * (known - start) + ["h"] * (end - known)
    for row in _between(moment, start, end):
        if row.seq is not None:
            codes[row.seq - start] = _code(moment, row)
    return codes


def _code(moment: Moment, row: JobRow) -> str:
    return _CODES.get(row.state) or _open_code(moment, row)


def _seq(row: JobRow) -> int:
    return 2**63 if row.seq is None else row.seq


def _row(moment: Moment, rank: int, seen: _Rank) -> ShareRow:
    size, owner = len(moment.members), moment.members[rank]
    fact = moment.facts.get(owner)
    counted = _waiting(moment, rank, seen)
    age = None if counted.oldest_due is None else max(0.0, moment.at - counted.oldest_due)
    return ShareRow(
        rank=rank,
        size=size,
        owner=owner,
        name=moment.name_of(owner),
        state=fact.state if fact else "missing",
        oldest_age=age if counted.number else None,
        oldest=seen.oldest.seq if seen.oldest else None,
        waiting=counted.number,
        first=seen.first,
        cells=seen.cells,
        note=", ".join(_notes(moment, owner, seen)),
        foreign=tuple(seen.foreign),
        is_stalled=_is_stalled(moment, owner, seen),
        is_partial=counted.is_partial,
    )


def _waiting(moment: Moment, rank: int, seen: _Rank) -> Waiting:
    counted = moment.waiting.get(rank)
    if moment.is_complete or counted is None:
        return Waiting(
            seen.waiting, seen.oldest.due_at if seen.oldest else None, not moment.is_complete
        )
    return counted


def _open_code(moment: Moment, row: JobRow) -> str:
    if row.state == JobState.QUEUED:
        return "l" if row.run_at is not None and row.run_at > moment.at else "q"
    if row.state == JobState.WORKING:
        holder = moment.facts.get(row.node)
        if holder is None or holder.is_dead:
            return "?"
        return "c" if row.started_at is None else "r"
    return "?"


def _notes(moment: Moment, owner: str, seen: _Rank) -> list[str]:
    notes = []
    fact = moment.facts.get(owner)
    if fact is None or fact.is_dead:
        notes.append("owner dead" if fact else "owner missing")
    elif fact.is_silent(moment.at):
        notes.append("owner gone" if fact.is_gone(moment.at) else "owner silent")
    elif fact.state == NodeState.PAUSED:
        notes.append("owner paused")
    notes += [f"#{seq} claimed by {name}" for seq, name in seen.foreign[:_FOREIGN_SHOWN]]
    if len(seen.foreign) > _FOREIGN_SHOWN:
        notes.append(f"{len(seen.foreign) - _FOREIGN_SHOWN} more by others")
    if holes := seen.cells.count("h"):
        notes.append(count(holes, "hole"))
    return notes


def _is_stalled(moment: Moment, owner: str, seen: _Rank) -> bool:
    """Waiting without anything happening, although the owner could: a busy owner's share is slow,
    not stalled."""
    since = max(seen.runnable_due or moment.at, seen.active_at, moment.settled_at.get(owner, 0.0))
    if moment.at - since < STALLED_AFTER:
        return False
    fact = moment.facts.get(owner)
    return (
        fact is None
        or fact.is_dead
        or fact.is_silent(moment.at)
        or fact.running < max(1, fact.slots)
    )
