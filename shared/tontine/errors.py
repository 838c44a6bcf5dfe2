"""Every exception Tontine raises. The text of each says what happened, to what, and what to do
now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .records.job import Job
    from .records.plan_status import PlanStatus


class TontineError(Exception):
    """The base of all errors of Tontine; a command shows its text in one line."""


class ConfigError(TontineError):
    """A setting, argument or environment that cannot work: a user error (exit code 2)."""


class MissingExtra(ConfigError):
    """A feature whose optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the {extra!r} extra: pip install 'tontine[{extra}]'")
        self.feature = feature
        """What was wanted."""
        self.extra = extra
        """The extra that has it."""


class EmbeddedError(ConfigError):
    """The embedded MongoDB cannot be found, started, reached or stopped."""


class StoreError(TontineError):
    """MongoDB answered a call with an error."""


class StoreUnavailable(StoreError):
    """MongoDB did not answer in time. A write that ends like this may have landed, or may land
    later."""


class NotPermitted(StoreError):
    """The database user lacks a right that the call needs; what is known of it is in the fields."""

    def __init__(
        self, message: str, *, database: str = "", collection: str = "", action: str = ""
    ) -> None:
        super().__init__(message)
        self.database = database
        """Where the right is missing."""
        self.collection = collection
        """On what; empty where it is not known."""
        self.action = action
        """The action as MongoDB names it, like `collMod`."""


class StreamLost(StoreError):
    """A change stream cannot go on from where it was: what happened in between is not known."""


class NoStreams(StoreError):
    """The server has no change streams."""


class DuplicateKey(StoreError):
    """A unique index refused a document; `key` is the index's key pattern."""

    def __init__(self, message: str, key: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.key = key
        """The fields of the index."""


class BulkRefused(StoreError):
    """Some statements of a bulk were refused; `refused` maps a statement's place to its key
    pattern, if it has one."""

    def __init__(self, message: str, refused: dict[int, tuple[str, ...]]) -> None:
        super().__init__(message)
        self.refused = refused
        """By the place of the statement."""


class Unstorable(StoreError, ConfigError):
    """MongoDB cannot store this, however often it is tried."""


class TooLarge(Unstorable):
    """A document would grow beyond the 16 MB that MongoDB stores in one."""


class ClaimLost(TontineError):
    """A job this node held is no longer its own: what it did for that attempt is refused."""

    def __init__(self, seq: int, attempt: int) -> None:
        super().__init__(f"job {seq}: attempt {attempt} is no longer this node's")
        self.seq = seq
        """The number of the job."""
        self.attempt = attempt
        """The attempt that is refused."""


class LeaseLost(TontineError):
    """This node was declared dead: it must end all work and start again under a new id."""


class UnknownTask(TontineError):
    """No module of this process has a task of that name."""


class UnknownJob(TontineError):
    """There is no such job."""


class UnknownPlan(TontineError):
    """There is no such plan."""


class UnknownNode(TontineError):
    """There is no live node of that name or id."""


class JobNotFinished(TontineError):
    """A job did not reach a final state in the time given."""


class JobFailed(TontineError):
    """A job that was waited for ended without a result; `job` is the first of them, `failed` are
    all."""

    def __init__(self, failed: Sequence[Job]) -> None:
        self.job = failed[0]
        """The first job that did not get done."""
        self.failed = tuple(failed)
        """All of them."""
        more = f" (and {len(failed) - 1} more of those waited for)" if len(failed) > 1 else ""
        super().__init__(
            f"job {self.job.seq} ({self.job.task}) "
            f"{_how_it_ended(self.job)}{more}{_trace_of(self.job)}"
        )

    def __reduce__(self) -> tuple[type[JobFailed], tuple[Sequence[Job]]]:
        return type(self), (self.failed,)


class JobCancelled(JobFailed):
    """A job that was waited for was cancelled."""


class PlanFailed(TontineError):
    """A plan that was waited for did not get done; `plan` is how it ended."""

    def __init__(self, plan: PlanStatus) -> None:
        self.plan = plan
        """The plan as it ended."""
        why = f": {plan.error}" if plan.error is not None else ""
        name = f" ({plan.name})" if plan.name else ""
        super().__init__(f"plan {plan.seq}{name} is {plan.state}{why}")

    def __reduce__(self) -> tuple[type[PlanFailed], tuple[PlanStatus]]:
        return type(self), (self.plan,)


def _how_it_ended(job: Job) -> str:
    if job.error is None:
        return f"was {job.state.value}" if job.state == "cancelled" else f"is {job.state.value}"
    attempts = f" after {job.attempt} attempts" if job.attempt > 1 else ""
    return f"{job.state.value}{attempts}: {job.error.type}: {job.error.message}"


def _trace_of(job: Job) -> str:
    trace = job.error.traceback if job.error else ""
    return f"\n\n{trace.rstrip()}" if trace else ""


class SubmitInterrupted(TontineError):
    """A batch stopped in the middle: `inserted` jobs are in the queue for certain, `unknown` may
    be."""

    def __init__(self, message: str, inserted: int, unknown: int) -> None:
        super().__init__(message)
        self.inserted = inserted
        """Jobs that are in the queue for certain."""
        self.unknown = unknown
        """Jobs that may be."""


class ChildDiffers(TontineError):
    """A task's earlier run has submitted another job under the name that this one is to have."""


class NoState(TontineError):
    """A task asked for a named state that nobody has set, and gave no default."""


class NoCurrentJob(TontineError):
    """`current_job()` was called outside a running task."""


class NotOpen(TontineError):
    """A connection was asked for where it is not open: in another context, or in no worker."""


class ResultGone(TontineError):
    """A task streams the results of a plan's step, and one of them is not there any more."""


class Retry(Exception):
    """Raised in a task: asks for another attempt, `in_` seconds from now (default: the task's
    backoff)."""

    def __init__(self, reason: str = "", *, in_: float | None = None) -> None:
        super().__init__(reason or "another attempt was asked for")
        self.in_ = in_
        """Seconds until then; None is as the backoff of the task says."""


class Reject(Exception):
    """Raised in a task: fails the job for good, whatever attempts are left."""


class ManyInterrupted(TontineError):
    """A call on many jobs stopped in the middle: `changed` of them are as was asked for certain."""

    def __init__(self, message: str, changed: int) -> None:
        super().__init__(message)
        self.changed = changed
        """Jobs that are as was asked for certain."""
