"""Waiting for what is no job says what is wanted."""

from __future__ import annotations

from typing import Any

import pytest

from tontine.awaiting import waiting
from tontine.plan import Plan
from tontine.records.plan_status import PlanStatus
from tontine.records.states import PlanState


def test_whoever_waits_for_plans_is_told_which_wait_there_is() -> None:
    plan: Any = PlanStatus(1, 17, PlanState.RUNNING)
    with pytest.raises(TypeError, match="wait takes one plan at a time"):
        next(waiting([plan, plan], None, raises=False))
    new: Any = Plan("trip")
    with pytest.raises(TypeError, match="wait for what `submit_plan` returns"):
        next(waiting(new, None, raises=False))


@pytest.mark.parametrize("jobs", [5, [5], "5", None])
def test_whoever_waits_for_a_number_is_told_to_get_the_job(jobs: Any) -> None:
    with pytest.raises(TypeError, match="get it first"):
        next(waiting(jobs, None, raises=False))
