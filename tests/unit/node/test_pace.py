"""How far ahead a node claims: it follows the jobs, and stays in its bounds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tontine_node.running.pace import AHEAD_FOR, CAREFUL_FOR, CLAIM_AT_MOST, SEND_AT_MOST, Pace

quick = settings(max_examples=50, deadline=None)

RUNS = st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 1000)), max_size=20)


def after(*seconds: float, jobs: int = 1) -> Pace:
    pace = Pace()
    for one in seconds:
        pace.ran(one, jobs)
    return pace


@quick
@given(RUNS, st.integers(1, 5000))
def test_whatever_ran_the_targets_stay_in_their_bounds(
    runs: list[tuple[float, int]], slots: int
) -> None:
    pace = Pace()
    for seconds, jobs in runs:
        pace.ran(seconds, jobs)
        assert 0 <= pace.mean <= 1e6
        assert 1 <= pace.ahead() <= SEND_AT_MOST + 1
        assert slots <= pace.claim_target(slots) <= max(slots, CLAIM_AT_MOST)


@quick
@given(st.floats(1, 1e6), st.integers(1, 100))
def test_slow_jobs_are_not_claimed_ahead(seconds: float, slots: int) -> None:
    pace = after(*[seconds] * 20)
    assert pace.ahead() == 1
    assert pace.claim_target(slots) == slots


@quick
@given(st.floats(0, AHEAD_FOR / SEND_AT_MOST))
def test_quick_jobs_are_claimed_far_ahead(seconds: float) -> None:
    pace = after(*[seconds] * 60)
    assert pace.ahead() > SEND_AT_MOST / 2
    assert pace.claim_target(4) == CLAIM_AT_MOST


def test_the_estimate_follows_the_jobs_both_ways() -> None:
    pace = after(*[0.001] * 30)
    quick_target = pace.claim_target(4)
    for _ in range(10):
        pace.ran(5.0)
    slow_target = pace.claim_target(4)
    for _ in range(60):
        pace.ran(0.001)
    assert slow_target == 4
    assert quick_target > 50 * slow_target
    assert pace.claim_target(4) > 50 * slow_target


def test_one_slow_job_among_quick_ones_is_noticed_at_once() -> None:
    pace = after(*[0.001] * 30)
    before = pace.ahead()
    pace.ran(2.0)
    assert pace.ahead() == 1 < before


@quick
@given(st.floats(1.01 * AHEAD_FOR, 1e4), st.integers(1, 10), st.integers(1, 64))
def test_after_a_long_job_hardly_anything_is_claimed_ahead_until_many_quick_ones_have_ended(
    longest: float, at_once: int, slots: int
) -> None:
    pace = after(*[0.0001] * 60)
    assert pace.ahead() > 2
    pace.ran(longest)
    ended = 0
    while ended < CAREFUL_FOR:
        assert pace.ahead() <= 2, ended
        assert pace.claim_target(slots) <= 3 * slots
        pace.ran(0.0001, at_once)
        ended += at_once
    for _ in range(60):
        pace.ran(0.0001)
    assert pace.ahead() > 2


@quick
@given(st.integers(2, 1000), st.floats(1.01 * AHEAD_FOR, 5.0))
def test_a_long_job_is_noticed_in_a_frame_of_many(jobs: int, longest: float) -> None:
    pace = after(*[0.0001] * 60)
    pace.ran(0.0001, jobs, longest)
    assert pace.ahead() == 2
    for ended in range(CAREFUL_FOR):
        assert pace.ahead() == 2, ended
        pace.ran(0.0001)
    assert pace.ahead() > 2


def test_another_long_job_makes_it_careful_for_as_long_again() -> None:
    pace = after(*[0.0001] * 60)
    for _ in range(2):
        pace.ran(0.0001, 10, 1.0)
        for _ in range(CAREFUL_FOR - 1):
            pace.ran(0.0001)
        assert pace.ahead() == 2
    pace.ran(0.0001)
    assert pace.ahead() > 2


def test_jobs_up_to_the_limit_are_not_long() -> None:
    pace = after(*[0.0001] * 60)
    pace.ran(0.0001, 10, AHEAD_FOR)
    assert pace.ahead() > 2


def test_a_frame_of_many_counts_more_than_a_frame_of_one() -> None:
    assert after(0.0, jobs=10).mean < after(0.0, jobs=2).mean < after(0.0).mean
    assert after(0.0, jobs=1000).mean == after(0.0, jobs=10).mean > 0


@quick
@given(st.floats(0, 100), st.floats(0, 100))
def test_slower_jobs_never_mean_more_ahead(one: float, other: float) -> None:
    slow, fast = after(*[max(one, other)] * 5), after(*[min(one, other)] * 5)
    assert slow.ahead() <= fast.ahead()
