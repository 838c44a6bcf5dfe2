"""Identical nodes share one job queue in MongoDB: no leader, no broker, and survivors inherit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .calls import TaskCall, call
from .context import Connection, Context
from .current import CurrentJob, current_job
from .errors import (
    BulkRefused,
    ChildDiffers,
    ClaimLost,
    ConfigError,
    DuplicateKey,
    EmbeddedError,
    JobCancelled,
    JobFailed,
    JobNotFinished,
    LeaseLost,
    ManyInterrupted,
    MissingExtra,
    NoCurrentJob,
    NoState,
    NoStreams,
    NotOpen,
    NotPermitted,
    PlanFailed,
    Reject,
    ResultGone,
    Retry,
    StoreError,
    StoreUnavailable,
    StreamLost,
    SubmitInterrupted,
    TontineError,
    TooLarge,
    UnknownJob,
    UnknownNode,
    UnknownPlan,
    UnknownTask,
    Unstorable,
)
from .hooks import Ended
from .module import Module
from .records.job import Job, JobError, Progress
from .records.schedule import Schedule, Standing
from .records.states import JobState, PlanState

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .changed import Changed
    from .client import Client
    from .filter import Filters
    from .options import BatchOptions, JobOptions
    from .plan import ITEM, More, Plan, Step
    from .records.batch import Batch
    from .records.plan import PlanError
    from .records.plan_status import PlanStatus, StepStatus
    from .store.logs import Line
    from .streamed import Stream

__all__ = [
    "ITEM",
    "AsyncClient",
    "Batch",
    "BatchOptions",
    "BulkRefused",
    "Changed",
    "ChildDiffers",
    "ClaimLost",
    "Client",
    "ConfigError",
    "Connection",
    "Context",
    "CurrentJob",
    "DuplicateKey",
    "EmbeddedError",
    "Ended",
    "Filters",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobNotFinished",
    "JobOptions",
    "JobState",
    "LeaseLost",
    "Line",
    "ManyInterrupted",
    "MissingExtra",
    "Module",
    "More",
    "NoCurrentJob",
    "NoState",
    "NoStreams",
    "NotOpen",
    "NotPermitted",
    "Plan",
    "PlanError",
    "PlanFailed",
    "PlanState",
    "PlanStatus",
    "Progress",
    "Reject",
    "ResultGone",
    "Retry",
    "Schedule",
    "Standing",
    "Step",
    "StepStatus",
    "StoreError",
    "StoreUnavailable",
    "Stream",
    "StreamLost",
    "SubmitInterrupted",
    "TaskCall",
    "TontineError",
    "TooLarge",
    "UnknownJob",
    "UnknownNode",
    "UnknownPlan",
    "UnknownTask",
    "Unstorable",
    "call",
    "current_job",
]

# Workers import this package for Module alone; only who makes a client pays for loading pymongo.
_LAZY = {
    "AsyncClient": "async_client",
    "Client": "client",
    "Batch": "records.batch",
    "Line": "store.logs",
    "Changed": "changed",
    "Filters": "filter",
    "BatchOptions": "options",
    "JobOptions": "options",
    "ITEM": "plan",
    "More": "plan",
    "Plan": "plan",
    "Step": "plan",
    "PlanError": "records.plan",
    "PlanStatus": "records.plan_status",
    "StepStatus": "records.plan_status",
    "Stream": "streamed",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module 'tontine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
