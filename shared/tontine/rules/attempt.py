"""Whether another attempt follows one that failed, and when. Pure.

The worker asks after an error of the task. The master asks after it has ended a task at its time
limit, because then there is no worker left that could.
"""

from __future__ import annotations

from collections.abc import Callable

LONGEST_DELAY = 10 * 365 * 86400.0


def allowed(of_job: int | None, of_task: int) -> int:
    """How many attempts of a job may fail: as many as the job says, else as its task does."""
    return of_job or of_task


def again_in(
    fails: int, allowed: int, *, may_help: bool, delay: Callable[[], float]
) -> float | None:
    """In how many seconds the next attempt is due after the `fails`-th that failed; None if there
    is no next one.

    `may_help` is what the task says of such an error, `delay` what it wants to wait; it is asked
    only if that matters, because it may be the user's code.
    """
    if fails >= allowed or not may_help:
        return None
    return bounded(delay())


def bounded(delay: float) -> float:
    """A delay that a date can hold, whatever a task has asked for."""
    return min(max(0.0, float(delay)), LONGEST_DELAY)
