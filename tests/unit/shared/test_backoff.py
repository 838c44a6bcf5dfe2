"""The pause before the next attempt: it doubles, differs, and has an end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tenacity import RetryCallState, wait_fixed, wait_incrementing

from tontine.backoff import delay_before

quick = settings(max_examples=50, deadline=None)

JITTER = 1.0


@quick
@given(st.integers(1, 9))
def test_the_pause_doubles_with_each_failure(fails: int) -> None:
    least = 2.0 ** (fails - 1)
    assert least <= delay_before(fails) <= least + JITTER


@quick
@given(st.integers(11, 10_000))
def test_the_pause_ends_at_ten_minutes(fails: int) -> None:
    assert delay_before(fails) == 600


@quick
@given(st.integers(-5, 0))
def test_before_the_first_failure_it_is_the_first_pause(fails: int) -> None:
    assert 1 <= delay_before(fails) <= 1 + JITTER


def test_two_jobs_that_failed_together_do_not_come_back_together() -> None:
    assert len({delay_before(1) for _ in range(50)}) > 1


def test_a_task_may_bring_any_strategy_of_tenacity() -> None:
    assert delay_before(7, wait_fixed(3)) == 3
    assert [delay_before(fails, wait_incrementing(5, 10)) for fails in (1, 2, 3)] == [5, 15, 25]
    assert delay_before(2, wait_fixed(1) + wait_fixed(2)) == 3


def test_a_task_may_bring_a_function_of_its_own() -> None:
    def squared(state: RetryCallState) -> float:
        return float(state.attempt_number**2)

    assert [delay_before(fails, squared) for fails in (1, 2, 3)] == [1, 4, 9]
