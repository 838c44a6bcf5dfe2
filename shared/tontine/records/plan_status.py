"""How a plan stands, for people and programs: its state, and of each step the jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .plan import CLOSING_STEP, PlanError, PlanRecord
from .states import ENDED_PLAN, JobState, PlanState

WAITING = "waiting"
"""The state of a step that has no job yet."""


@dataclass(frozen=True, slots=True)
class JobCounts:
    """The jobs of a step by state, and when the first started and the last ended."""

    queued: int = 0
    """Those that wait."""
    working: int = 0
    """Those that a node holds."""
    done: int = 0
    """Those that are done."""
    failed: int = 0
    """Those that failed."""
    cancelled: int = 0
    """Those that were cancelled."""
    stopped: int = 0
    """Of the cancelled and failed: those that the plan's stop ended."""
    started_at: datetime | None = None
    """When the first of them started."""
    finished_at: datetime | None = None
    """When the last of them ended."""
    failure: PlanError | None = None
    """The error of the one that failed last, with its item and number."""

    @property
    def all(self) -> int:
        """How many there are."""
        return self.queued + self.working + self.done + self.failed + self.cancelled


@dataclass(frozen=True, slots=True)
class StepStatus:
    """How one step of a plan stands."""

    name: str
    """Its name in the plan."""
    task: str
    """What its jobs run."""
    state: str
    """`waiting` while it has no job, then as its job is; of a mapped step `working` until all have
    ended, then `failed` if one that may not has; `cancelled` where its plan has stopped before all
    of them were there."""
    done: int
    """Jobs of it that are done."""
    total: int | None
    """All of its jobs; None while nobody knows how many a mapped step will have."""
    is_mapped: bool = False
    """Whether it has a job for each item of something."""
    may_fail: bool = False
    """Whether the plan goes on although it failed."""
    jobs: JobCounts = field(default_factory=JobCounts)
    """Its jobs, counted."""
    undo: JobCounts | None = None
    """The jobs that undo it, once there are any."""


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """A plan as it was when it was read."""

    id: Any
    """Its `_id`."""
    seq: int | None
    """Its number; None while no node has accepted what another driver inserted."""
    state: PlanState | None
    """Where it is in its life; None until a node has accepted it."""
    name: str = ""
    """What people call it."""
    key: str | None = None
    """No other unfinished plan has the same."""
    steps: Mapping[str, StepStatus] = field(default_factory=dict)
    """Its steps by name."""
    progress: float = 0.0
    """From 0 to 1: how much of its steps is done, each counting the same."""
    cause: str | None = None
    """Why it stopped: `failed` or `cancelled`."""
    error: PlanError | None = None
    """The failure that stopped it."""
    result: Any = None
    """The result of its last step, or of the one that it returns, once it is done; of a mapped step
    a list, and None where that has more than 1,000 items or 16 MB: its jobs have them."""
    tries: int = 0
    """How often it was retried."""
    created_at: datetime | None = None
    """When it was accepted."""
    finished_at: datetime | None = None
    """When it ended."""
    existed: bool = False
    """True when `submit_plan` found this one instead of adding one: an unfinished one with its
    key, or one with its `_id`."""
    closing: StepStatus | None = None
    """Its `finally`, of this try, if it has one."""

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.state in ENDED_PLAN or self.state is PlanState.REMOVING

    def __repr__(self) -> str:
        number = self.seq if self.seq is not None else f"_id={self.id!r}"
        state = "new" if self.state is None else self.state.value
        return f"PlanStatus({number}, {self.name!r}, {state})"

    @classmethod
    def of(
        cls,
        plan: PlanRecord,
        counts: Mapping[tuple[str, str], JobCounts],
        result: Any = None,
        *,
        existed: bool = False,
    ) -> PlanStatus:
        """From a plan and its jobs, counted by kind and step."""
        steps = {name: _step(plan, name, counts) for name in plan.steps}
        return cls(
            plan.id,
            plan.seq,
            plan.state,
            plan.name,
            plan.key,
            steps,
            _progress(steps.values()),
            plan.cause,
            plan.error,
            result,
            plan.try_ or 0,
            plan.created_at,
            plan.finished_at,
            existed,
            None if plan.closing is None else _closing(plan, counts),
        )


def _progress(steps: Iterable[StepStatus]) -> float:
    parts = [_part(step) for step in steps]
    return sum(parts) / len(parts) if parts else 0.0


def _part(step: StepStatus) -> float:
    if step.total is None:
        return 0.0
    ended = step.jobs.done + (step.jobs.failed + step.jobs.cancelled if step.may_fail else 0)
    return ended / step.total if step.total else 1.0


def _step(plan: PlanRecord, name: str, counts: Mapping[tuple[str, str], JobCounts]) -> StepStatus:
    step = plan.steps[name]
    jobs = counts.get(("step", name), JobCounts())
    total = plan.widths.get(name) if step.is_mapped else 1
    return StepStatus(
        name,
        step.task,
        _state(jobs, total, may_fail=step.may_fail, goes_on=plan.state is PlanState.RUNNING),
        jobs.done,
        total,
        step.is_mapped,
        step.may_fail,
        jobs,
        counts.get(("undo", name)),
    )


def _closing(plan: PlanRecord, counts: Mapping[tuple[str, str], JobCounts]) -> StepStatus:
    jobs = counts.get(("finally", f"{CLOSING_STEP}/{plan.try_ or 0}"), JobCounts())
    task = plan.closing.task if plan.closing else ""
    state = _state(jobs, 1, may_fail=False, goes_on=False)
    return StepStatus(CLOSING_STEP, task, state, jobs.done, 1, jobs=jobs)


def _state(jobs: JobCounts, total: int | None, *, may_fail: bool, goes_on: bool) -> str:
    if total == 0:
        return JobState.DONE.value
    if not jobs.all:
        return WAITING
    if jobs.working or (jobs.queued and jobs.all > jobs.queued):
        return JobState.WORKING.value
    if jobs.queued:
        return JobState.QUEUED.value
    if total is None or jobs.all < total:
        if jobs.failed and not may_fail:
            return JobState.FAILED.value
        return JobState.WORKING.value if goes_on else JobState.CANCELLED.value
    if jobs.failed and (not may_fail or jobs.failed == total):
        return JobState.FAILED.value
    if jobs.cancelled and (not may_fail or jobs.cancelled == total):
        return JobState.CANCELLED.value
    return JobState.DONE.value


def result_step(plan: PlanRecord, last: Iterable[str]) -> str | None:
    """The step whose result is the plan's: the one it names, or the only one that nothing comes
    after."""
    if plan.returns is not None:
        return plan.returns
    names = list(last)
    return names[0] if len(names) == 1 else None
