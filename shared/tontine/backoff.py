"""How long to wait before the next attempt: doubling, with jitter, up to a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tenacity import RetryCallState, wait_exponential_jitter

Wait = Callable[[RetryCallState], float]
"""Any of tenacity's wait strategies, or a function like them."""

STANDARD: Wait = wait_exponential_jitter(max=600)


def delay_before(fails: int, wait: Wait = STANDARD) -> float:
    """Seconds from the `fails`-th failed attempt of a job to its next one."""
    state = RetryCallState(cast(Any, None), None, (), {})
    state.attempt_number = max(fails, 1)
    return float(wait(state))
