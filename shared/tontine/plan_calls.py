"""What both clients do with plans: submit, read, wait, cancel, retry."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from . import awaiting
from .awaiting import Ask, pauses
from .errors import ConfigError, JobNotFinished, PlanFailed, UnknownJob, UnknownPlan
from .plan import Plan
from .records.job import LAST_SEQ, Job
from .records.plan_status import PlanStatus
from .records.states import PlanState
from .store import control
from .store.call import Operation
from .store.counter import Reserve
from .store.plans import control as plans
from .store.plans.status import is_ended, read_status, read_status_by_id
from .store.which import is_number

Planned = Plan | Mapping[str, Any]
"""A plan, or its document."""


def submit(plan: Planned, reserve: Reserve, **given: Any) -> Operation[PlanStatus]:
    """Insert a plan; how it stands."""
    document = document_of(plan)
    document |= {name: value for name, value in given.items() if value is not None}
    found, existed = yield from plans.submit(document, reserve)
    if not existed:
        return PlanStatus.of(found, {})
    return (yield from read_status_by_id(found.id, existed=True))


def document_of(plan: Planned) -> dict[str, Any]:
    """What is inserted of a plan."""
    if not isinstance(plan, Plan | Mapping):
        raise ConfigError(f"submit_plan takes a Plan or its document, not {type(plan).__name__}")
    return dict(plan.document() if isinstance(plan, Plan) else plan)


def read(which: PlanStatus | int) -> Operation[PlanStatus]:
    """A plan by a status of it, or its number."""
    if isinstance(which, PlanStatus):
        return (yield from read_status_by_id(which.id))
    return (yield from read_status(which))


def _number(plan: PlanStatus) -> int:
    if plan.seq is None:
        raise ConfigError("this plan has no number yet: read it again when a node has accepted it")
    return plan.seq


def cancel(which: Any, key: str | None, *, undo: bool = True) -> Operation[Job | PlanStatus]:
    """Cancel a job, or the plan that is meant: a number is a job's or a plan's."""
    if not isinstance(which, PlanStatus):
        try:
            return (yield from control.cancel_which(which, key))
        except UnknownJob as unknown:
            seq = yield from _plan_of_number(which, key, unknown)
    else:
        seq = _number(which)
    yield from plans.cancel(seq, undo=undo)
    return (yield from read_status(seq))


def retry(which: Any, key: str | None) -> Operation[Job | PlanStatus]:
    """Put a job back, or go on with the plan that is meant."""
    if not isinstance(which, PlanStatus):
        try:
            return (yield from control.retry_which(which, key))
        except UnknownJob as unknown:
            seq = yield from _plan_of_number(which, key, unknown)
    else:
        seq = _number(which)
    yield from plans.retry(seq)
    return (yield from read_status(seq))


def _plan_of_number(which: Any, key: str | None, unknown: UnknownJob) -> Operation[int]:
    """The number, if it is a plan's and no job's."""
    if not is_number(which) or key is not None or not 0 < which <= LAST_SEQ:
        raise unknown
    try:
        yield from read_status(which)
    except UnknownPlan:
        raise UnknownJob(f"there is no job {which}, and no plan") from unknown
    return int(which)


def waiting_for(
    what: Job | Sequence[Job] | PlanStatus, timeout: float | None, *, raises: bool
) -> Ask[Job | list[Job] | PlanStatus]:
    """Wait until jobs, or a plan, have ended."""
    if isinstance(what, PlanStatus):
        return (yield from waiting(what, timeout, raises=raises))
    return (yield from awaiting.waiting(what, timeout, raises=raises))


def waiting(plan: PlanStatus, timeout: float | None, *, raises: bool) -> Ask[PlanStatus]:
    """Wait until a plan has ended; how it has."""
    until = None if timeout is None else time.monotonic() + timeout
    rests = pauses()
    while not (yield is_ended(plan.id)):
        if until is not None and time.monotonic() >= until:
            named = plan.id if plan.seq is None else plan.seq
            raise JobNotFinished(
                f"plan {named} did not end within {timeout:g} s: `tontine why {named}` tells why"
            )
        yield next(rests)
    ended: PlanStatus = yield read_status_by_id(plan.id)
    if raises and ended.state is not PlanState.DONE:
        raise PlanFailed(ended)
    return ended
