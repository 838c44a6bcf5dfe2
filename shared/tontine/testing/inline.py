"""One task inline, with a job around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..current import CurrentJob
from ..function import is_async
from ..module import Task
from ..offspring import recorded
from ..records.counted import Noted, Observed
from ..records.job import Job
from ..saving import Saving
from . import calling


@dataclass(slots=True)
class Run:
    """What came of a task that was run inline."""

    result: Any = None
    """What it returned."""
    progress: list[tuple[float, str]] = field(default_factory=list)
    """All that it said of its progress: values and notes."""
    submitted: list[Job] = field(default_factory=list)
    """What it submitted with `current_job().submit(...)`."""
    counts: dict[str, float] = field(default_factory=dict)
    """What it counted with `current_job().count(...)`."""
    observed: dict[str, Observed] = field(default_factory=dict)
    """What it observed with `current_job().observe(...)`."""
    saved: Any = None
    """What it saved last with `current_job().save(...)`."""


class _Shown(Saving):
    """Shows in a run what its task saves."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def save(self, value: Any) -> None:
        super().save(value)
        self._run.saved = value


def run_task(
    function: Callable[..., Any],
    /,
    args: Mapping[str, Any] | None = None,
    *,
    seq: int = 1,
    attempt: int = 1,
    cancelled: bool = False,
    meta: Mapping[str, Any] | None = None,
    **more: Any,
) -> Run:
    """Call a sync or async task as a worker would, with `current_job()` at hand and no hooks; what
    it raises is raised.

    Its arguments are keywords, or a mapping where one of them is called like a parameter of this
    function. `seq`, `attempt`, `cancelled` and `meta` are what the task will see of its job.
    Arguments that do not fit its signature are refused with a TypeError in the words of a worker.
    """
    run, job, given = _prepared(function, args, more, seq, attempt, meta, cancelled=cancelled)
    steps = calling.alone(function, given)
    return _finished(run, *calling.call(steps, job, is_async=is_async(function)))


async def arun_task(
    function: Callable[..., Any],
    /,
    args: Mapping[str, Any] | None = None,
    *,
    seq: int = 1,
    attempt: int = 1,
    cancelled: bool = False,
    meta: Mapping[str, Any] | None = None,
    **more: Any,
) -> Run:
    """The same as `run_task` from an event loop: an async task runs in this loop, with all that
    belongs to it."""
    run, job, given = _prepared(function, args, more, seq, attempt, meta, cancelled=cancelled)
    steps = calling.alone(function, given)
    return _finished(run, *await calling.acall(steps, job, is_async=is_async(function)))


def _prepared(
    function: Callable[..., Any],
    args: Mapping[str, Any] | None,
    more: Mapping[str, Any],
    seq: int,
    attempt: int,
    meta: Mapping[str, Any] | None,
    *,
    cancelled: bool,
) -> tuple[Run, CurrentJob, dict[str, Any]]:
    if args is not None and not isinstance(args, Mapping):
        raise TypeError(f"args takes a mapping of the task's arguments, not {type(args).__name__}")
    given = {**(args or {}), **more}
    name = getattr(function, "__name__", type(function).__name__)
    if reason := Task(name, function).misfit(given):
        raise TypeError(reason)
    run = Run()
    job = CurrentJob(
        seq,
        seq,
        name,
        attempt,
        lambda _, value, note: run.progress.append((value, note)),
        document={"meta": dict(meta or {})},
        submit=recorded(run.submitted),
    )
    job.noted = Noted(run.counts, run.observed)
    job.saving = _Shown(run)
    if cancelled:
        job.mark_cancelled()
    return run, job, given


def _finished(run: Run, result: Any, error: BaseException | None) -> Run:
    run.result = result
    if error is not None:
        raise error
    return run
