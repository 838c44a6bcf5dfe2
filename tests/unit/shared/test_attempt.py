"""Whether another attempt follows one that failed: one rule, for worker and master."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tontine.rules.attempt import LONGEST_DELAY, again_in, allowed

COUNTS = st.integers(1, 20)
DELAYS = st.floats(allow_nan=True, allow_infinity=True)


@given(COUNTS, COUNTS, st.booleans(), DELAYS)
def test_another_attempt_follows_while_some_are_left_and_it_may_help(
    fails: int, limit: int, may_help: bool, delay: float
) -> None:
    wait = again_in(fails, limit, may_help=may_help, delay=lambda: delay)
    assert (wait is not None) == (may_help and fails < limit)
    assert wait is None or 0 <= wait <= LONGEST_DELAY


@given(COUNTS, COUNTS, st.floats(0, LONGEST_DELAY))
def test_it_is_due_when_the_task_wants_it(fails: int, more: int, delay: float) -> None:
    assert again_in(fails, fails + more, may_help=True, delay=lambda: delay) == delay


@given(COUNTS, COUNTS, st.booleans())
def test_the_delay_is_asked_for_only_if_there_is_another(
    fails: int, limit: int, may_help: bool
) -> None:
    asked: list[float] = []

    def delay() -> float:
        asked.append(1.0)
        return asked[-1]

    again_in(fails, limit, may_help=may_help, delay=delay)
    assert bool(asked) == (may_help and fails < limit)


@given(COUNTS | st.none(), COUNTS)
def test_a_job_s_own_limit_comes_before_its_task_s(of_job: int | None, of_task: int) -> None:
    assert allowed(of_job, of_task) == (of_task if of_job is None else of_job)
