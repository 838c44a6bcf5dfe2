"""Counting jobs while they change: a count takes time, and what changes meanwhile is counted once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tontine.delta import Delta, DeltaKind
from tontine.store.schema import JOBS
from tontine_observer.cleaning import Cleaner
from tontine_observer.jobtable import reading_version
from tontine_observer.tally import Tally

JOBS_AT_FIRST = 50


def ended(number: int) -> Delta:
    """The job's end, as the stream tells it; one second after the other."""
    return Delta(JOBS, DeltaKind.CHANGED, number, float(number), (number, 1, 0), {"state": "done"})


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, JOBS_AT_FIRST))
def test_a_count_as_of_a_moment_counts_no_change_twice_and_none_never(
    before: int, until_greeted: int, while_counting: int, afterwards: int, unseen: int
) -> None:
    """`unseen` ended before anybody looked; the stream may tell a change before the count or after it."""
    tally = Tally(Cleaner())
    changes = iter(range(1, 1000))

    def tell(count: int) -> None:
        for _ in range(count):
            tally.note(ended(next(changes)), None)

    tell(before)
    tally.begin_count()
    tell(until_greeted)
    as_of = before + until_greeted // 2  # the greeting's answer may come after changes that were made after it
    tell(while_counting)
    tally.end_count({"done": unseen + as_of}, reading_version((as_of, 1)), 0.0)
    tell(afterwards)
    assert tally.counts["done"] == unseen + before + until_greeted + while_counting + afterwards
