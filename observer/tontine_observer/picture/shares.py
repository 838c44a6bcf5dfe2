"""The shares: who should claim which numbers, how long they wait, and one cell per number. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from tontine.legible import count
from tontine.records.states import JobState, NodeState

from ..records.picture import JobRow, ShareRow
from .moment import View, Waiting

CELLS_SHOWN = 160
ENDED_BEFORE = 4
STALLED_AFTER = 10.0
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


def share_rows(view: View) -> tuple[ShareRow, ...]:
    """One row per rank of the roster."""
    size = len(view.members)
    if not size:
        return ()
    unfinished = [row for row in view.unfinished if row.seq is not None]
    ranks = _by_rank(view, unfinished, size)
    _note_activity(view, ranks, size)
    start = _window(view, unfinished, size)
    codes = _codes(view, start, start + (CELLS_SHOWN + 1) * size)
    return tuple(_row(view, rank, ranks[rank], codes, start) for rank in range(size))


def _by_rank(view: View, rows: Sequence[JobRow], size: int) -> list[_Rank]:
    ranks = [_Rank() for _ in range(size)]
    tasks = view.tasks
    for row in rows:
        seq = row.seq or 0
        rank = ranks[seq % size]
        rank.active_at = max(rank.active_at, row.claimed_at or 0.0, row.started_at or 0.0)
        if row.state == JobState.QUEUED:
            due = row.due_at
            if due is None or due <= view.at:
                rank.waiting += 1
                if rank.oldest is None or (due or 0.0) < (rank.oldest.due_at or 0.0):
                    rank.oldest = row
                if row.task in tasks:
                    rank.runnable_due = min(rank.runnable_due or view.at, due or view.at)
        elif row.state == JobState.WORKING and row.node and row.node != view.members[seq % size]:
            rank.foreign.append((seq, view.name_of(row.node)))
    return ranks


def _note_activity(view: View, ranks: Sequence[_Rank], size: int) -> None:
    """When something last ended in shares in which jobs have waited for long."""
    waiting = {
        place
        for place, rank in enumerate(ranks)
        if rank.runnable_due is not None and view.at - max(rank.runnable_due, rank.active_at) >= STALLED_AFTER
    }
    if not waiting:
        return
    for row in view.rows:
        if row.finished_at is not None and row.seq is not None and row.seq % size in waiting:
            rank = ranks[row.seq % size]
            rank.active_at = max(rank.active_at, row.finished_at)


def _window(view: View, rows: Sequence[JobRow], size: int) -> int:
    """The first number shown: just before the oldest open one, but not so far back that a straggler hides the rest."""
    waits = [row.seq or 0 for row in rows if row.run_at is None or row.run_at <= view.at]
    if not waits:
        known = view.rows[0].seq if view.rows and not view.is_complete else None
        return max(1, view.seq + 1 - CELLS_SHOWN // 2 * size, known or 1)
    first = waits[0]
    most = waits[len(waits) // 20]
    if most - first > CELLS_SHOWN * size:
        first = most
    return max(1, first - ENDED_BEFORE * size)


def _codes(view: View, start: int, end: int) -> list[str]:
    """One code for each number from `start` on, of all shares."""
    end = max(start, min(view.seq + 1, end)) if view.has_cells else start
    known = end if not view.is_complete else min(end, max(start, view.known_from))
    codes = [" "] * (known - start) + ["h"] * (end - known)
    rows = view.rows
    for row in rows[bisect_left(rows, start, key=_seq) : bisect_left(rows, end, key=_seq)]:
        if row.seq is not None:
            codes[row.seq - start] = _CODES.get(row.state) or _open_code(view, row)
    return codes


def _seq(row: JobRow) -> int:
    return 2**63 if row.seq is None else row.seq


def _row(view: View, rank: int, seen: _Rank, codes: Sequence[str], start: int) -> ShareRow:
    size, owner = len(view.members), view.members[rank]
    first = start + (rank - start) % size
    cells = "".join(codes[first - start :: size][:CELLS_SHOWN])
    fact = view.facts.get(owner)
    counted = _waiting(view, rank, seen)
    age = None if counted.oldest_due is None else max(0.0, view.at - counted.oldest_due)
    return ShareRow(
        rank=rank,
        size=size,
        owner=owner,
        name=view.name_of(owner),
        state=fact.state if fact else "missing",
        oldest_age=age if counted.number else None,
        oldest=seen.oldest.seq if seen.oldest else None,
        waiting=counted.number,
        first=first,
        cells=cells,
        note=", ".join(_notes(view, owner, seen, cells)),
        foreign=tuple(seen.foreign),
        is_stalled=_is_stalled(view, owner, seen),
        is_partial=counted.is_partial,
    )


def _waiting(view: View, rank: int, seen: _Rank) -> Waiting:
    counted = view.waiting.get(rank)
    if view.is_complete or counted is None:
        return Waiting(seen.waiting, seen.oldest.due_at if seen.oldest else None, not view.is_complete)
    return counted


def _open_code(view: View, row: JobRow) -> str:
    if row.state == JobState.QUEUED:
        return "l" if row.run_at is not None and row.run_at > view.at else "q"
    if row.state == JobState.WORKING:
        holder = view.facts.get(row.node)
        if holder is None or holder.is_dead:
            return "?"
        return "c" if row.started_at is None else "r"
    return "?"


def _notes(view: View, owner: str, seen: _Rank, cells: str) -> list[str]:
    notes = []
    fact = view.facts.get(owner)
    if fact is None or fact.is_dead:
        notes.append("owner dead" if fact else "owner missing")
    elif fact.is_silent(view.at):
        notes.append("owner silent")
    elif fact.state == NodeState.PAUSED:
        notes.append("owner paused")
    notes += [f"#{seq} claimed by {name}" for seq, name in seen.foreign[:_FOREIGN_SHOWN]]
    if len(seen.foreign) > _FOREIGN_SHOWN:
        notes.append(f"{len(seen.foreign) - _FOREIGN_SHOWN} more by others")
    if holes := cells.count("h"):
        notes.append(count(holes, "hole"))
    return notes


def _is_stalled(view: View, owner: str, seen: _Rank) -> bool:
    """Waiting without anything happening, although the owner could: a busy owner's share is slow, not stalled."""
    since = max(seen.runnable_due or view.at, seen.active_at, view.settled_at.get(owner, 0.0))
    if view.at - since < STALLED_AFTER:
        return False
    fact = view.facts.get(owner)
    return fact is None or fact.is_dead or fact.is_silent(view.at) or fact.running < max(1, fact.slots)
