"""How long to wait before the next attempt: doubling, with jitter, up to a limit."""

from __future__ import annotations

from typing import Any, cast

from tenacity import RetryCallState, wait_exponential_jitter
from tenacity.wait import wait_base

STANDARD: wait_base = wait_exponential_jitter(max=600)


def delay_before(fails: int, wait: wait_base = STANDARD) -> float:
    """Seconds from the `fails`-th failed attempt of a job to its next one."""
    state = RetryCallState(cast(Any, None), None, (), {})
    state.attempt_number = max(fails, 1)
    return float(wait(state))
