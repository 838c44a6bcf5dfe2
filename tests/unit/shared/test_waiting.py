"""Waiting for many jobs: which numbers to look at, and when all have ended."""

from __future__ import annotations

from tontine.cli.waiting import PIECE, PIECES_AT_ONCE, Awaited, Outcomes
from tontine.records.job import Job


def test_a_batch_keeps_ranges_not_jobs() -> None:
    batch = Awaited("a.b")
    batch.add([Job(id=seq, seq=seq) for seq in (3, 4, 5)])
    batch.add([Job(id=seq, seq=seq) for seq in (6, 9)])
    assert batch.ranges == [(3, 6), (9, 9)]
    assert batch.size == 5
    assert batch.headline() == "submitted jobs 3 to 9 (5)"


def test_a_piece_that_has_ended_is_never_looked_at_again() -> None:
    tally = Outcomes([(1, 3 * PIECE)])
    first, second, third = tally.next_pieces()
    tally.learn(first, {"done": PIECE})
    tally.learn(second, {"done": 5, "queued": PIECE - 5})
    tally.learn(third, {"failed": PIECE})
    assert tally.reached == 2 * PIECE + 5
    assert tally.next_pieces() == [second]
    tally.learn(second, {"done": PIECE - 1, "cancelled": 1})
    assert tally.is_complete
    assert tally.ended == {"done": 2 * PIECE - 1, "failed": PIECE, "cancelled": 1}


def test_a_round_looks_at_a_bounded_number_of_jobs() -> None:
    tally = Outcomes([(1, 100 * PIECE)])
    assert len(tally.next_pieces()) == PIECES_AT_ONCE


def test_jobs_that_were_removed_are_not_waited_for() -> None:
    tally = Outcomes([(1, 10)])
    tally.learn(tally.next_pieces()[0], {"done": 8})
    assert tally.is_complete
    assert tally.gone == 2
