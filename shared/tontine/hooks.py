"""Hooks: what runs when a worker starts, around each job and when one failed for good, and around a
submit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from .function import check_hook

if TYPE_CHECKING:
    from .current import CurrentJob


OutcomeOfJob = Literal["done", "retry", "failed", "cancelled"]
Start = TypeVar("Start", bound=Callable[[], Any])
Before = TypeVar("Before", bound=Callable[["CurrentJob"], Any])
After = TypeVar("After", bound=Callable[["CurrentJob", "Ended"], Any])


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, as the hooks after it see it; it is not stored yet."""

    outcome: OutcomeOfJob
    """`retry` when it will be tried again, `failed` when it will not."""
    result: Any = None
    """What the task returned."""
    error: BaseException | None = None
    """What was raised; for what the task had no part in (arguments that do not fit, a result that
    cannot be stored) a `TontineError` that says so."""
    retry_in: float | None = None
    """Seconds until it is tried again."""


@dataclass(slots=True)
class Hooks:
    """Functions, sync or async, that workers call beside tasks."""

    started: list[Callable[[], Any]] = field(default_factory=list, init=False, repr=False)
    """What `on_worker_start` was given, in order."""
    before: list[Callable[[CurrentJob], Any]] = field(default_factory=list, init=False, repr=False)
    """What `before_job` was given."""
    after: list[Callable[[CurrentJob, Ended], Any]] = field(
        default_factory=list, init=False, repr=False
    )
    """What `after_job` was given."""
    failed: list[Callable[[CurrentJob, Ended], Any]] = field(
        default_factory=list, init=False, repr=False
    )
    """What `on_failure` was given."""

    def on_worker_start(self, hook: Start) -> Start:
        """Call it once in each worker process, after the modules are loaded and before the first
        job."""
        check_hook(hook, "on_worker_start", ())
        self.started.append(hook)
        return hook

    def before_job(self, hook: Before) -> Before:
        """Call it with the job before each attempt; what it raises fails the attempt, and the task
        is not called."""
        check_hook(hook, "before_job", ("job",))
        self.before.append(hook)
        return hook

    def after_job(self, hook: After) -> After:
        """Call it with the job and how it ended after each attempt; what it raises is logged and
        changes nothing."""
        check_hook(hook, "after_job", ("job", "ended"))
        self.after.append(hook)
        return hook

    def on_failure(self, hook: After) -> After:
        """Call it with the job and how it ended, like `after_job`, but only when it failed and is
        not tried again."""
        check_hook(hook, "on_failure", ("job", "ended"))
        self.failed.append(hook)
        return hook

    def around_jobs(self) -> bool:
        """Whether there is anything to call but at the start."""
        return bool(self.before or self.after or self.failed)


def joined(*many: Hooks) -> Hooks:
    """All of these as one. What comes first before a job comes last after it, as with nested `with`
    blocks."""
    all_of_them = Hooks()
    for one in many:
        all_of_them.started += one.started
        all_of_them.before += one.before
        all_of_them.after[:0] = reversed(one.after)
        all_of_them.failed[:0] = reversed(one.failed)
    return all_of_them


AroundSubmit = Callable[[str], AbstractContextManager[Mapping[str, Any]]]
"""Entered with the task's name before a submit, left after it; what it gives is added to the job's
`meta`."""

around_submit: AroundSubmit | None = None
"""Set by what instruments this process (`tontine.otel`); a submit looks here once."""


@contextlib.contextmanager
def submitting(task: str, meta: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any] | None]:
    """The `meta` to submit with: the given one, and before it what the instrumentation adds."""
    if around_submit is None:
        yield meta
        return
    with around_submit(task) as added:
        yield {**added, **(meta or {})}
