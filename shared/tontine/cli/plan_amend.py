"""`tontine cancel` and `tontine retry` of a plan: a number is a job's or a plan's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError, TontineError
from ..records.states import PlanState

if TYPE_CHECKING:
    from ..store.call import Store


def is_plans(store: Store, seq: int) -> bool:
    """Whether a number is a plan's; one that is, by somebody's mistake, also a job's is refused."""
    from ..store.plans.read import whose_number

    if not 0 <= seq < 2**63:
        return False
    is_job, is_plan = store.run(whose_number(seq))
    if is_job and is_plan:
        raise ConfigError(
            f"{seq} is the number of a job and of a plan, which nobody should have made: name the "
            "job by its _id with `tontine why --id`, and remove one of the two"
        )
    return is_plan


def cancel_plan(store: Store, seq: int, *, undo: bool) -> tuple[int, str, str]:
    """The exit code, the plan's state now, and what to say."""
    from ..store.plans import control

    plan, is_mine = store.run(control.cancel(seq, undo=undo))
    state = str(plan.state)
    if not is_mine:
        how = "stops already" if plan.is_unfinished else "has ended already"
        return 1, state, f"plan {seq} {how}: it is {state}"
    if plan.state is PlanState.CANCELLED:
        return 0, state, f"plan {seq} is cancelled"
    return 0, state, f"plan {seq} stops: `tontine plan {seq} --follow` shows how"


def retry_plan(store: Store, seq: int, *, stage: str | None) -> tuple[int, str, str]:
    """The same."""
    from ..store.plans import control
    from ..store.plans.read import read_plan

    if stage is not None:
        raise ConfigError(f"--from goes with jobs, and {seq} is a plan: it was left as it is")
    try:
        plan = store.run(control.retry(seq))
    except TontineError as error:
        if not isinstance(error, ConfigError):
            raise
        return 1, str(store.run(read_plan(seq)).state), str(error)
    return 0, str(plan.state), f"plan {seq} goes on: it is {plan.state}"
