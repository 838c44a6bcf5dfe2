"""Counting jobs while they change: a count takes time, and what changes meanwhile is counted
once."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from tontine.errors import StoreError
from tontine.records.change import Delta, DeltaKind
from tontine.store.names import JOBS
from tontine_observer.model.jobs import reading_version
from tontine_observer.model.tally import Tally
from tontine_observer.records.clean import Cleaner

JOBS_AT_FIRST = 50


def ended(number: int) -> Delta:
    """The job's end, as the stream tells it; one second after the other."""
    return Delta(JOBS, DeltaKind.CHANGED, number, float(number), (number, 1, 0), {"state": "done"})


@given(
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, JOBS_AT_FIRST),
)
def test_a_count_as_of_a_moment_counts_no_change_twice_and_none_never(
    before: int, until_greeted: int, while_counting: int, afterwards: int, unseen: int
) -> None:
    """`unseen` ended before anybody looked; the stream may tell a change before the count or after
    it."""
    tally = Tally(Cleaner())
    changes = iter(range(1, 1000))

    def tell(count: int) -> None:
        for _ in range(count):
            tally.note(ended(next(changes)), None)

    tell(before)
    with tally.counting() as take:
        tell(until_greeted)
        as_of = (
            before + until_greeted // 2
        )  # the greeting's answer may come after changes that were made after it
        tell(while_counting)
        take({"done": unseen + as_of}, reading_version((as_of, 1)), 0.0)
    tell(afterwards)
    assert tally.counts["done"] == unseen + before + until_greeted + while_counting + afterwards


def test_a_count_that_fails_changes_nothing_and_remembers_nothing() -> None:
    tally = Tally(Cleaner())
    with contextlib.suppress(StoreError), tally.counting():
        tally.note(ended(1), None)
        raise StoreError("it took too long")
    tally.note(ended(2), None)
    assert tally.counts["done"] == 2
    assert tally._moves is None


def test_states_that_were_counted_at_different_times_are_moved_each_by_its_own() -> None:
    """Queued and working were counted at 1, finished ones at 3, and the stream tells of an end at 2
    after both."""
    tally = Tally(Cleaner())
    tally.correct({"queued": 0, "working": 5}, reading_version((1, 1)), 0.0)
    tally.correct({"done": 10}, reading_version((3, 1)), 0.0)
    tally.note(ended(2), None)
    assert (tally.counts["working"], tally.counts["done"]) == (4, 10)
