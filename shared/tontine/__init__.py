"""Identical nodes share one job queue in MongoDB: no leader, no broker, and survivors inherit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .current import current_job
from .errors import (
    BulkRefused,
    ClaimLost,
    ConfigError,
    DuplicateKey,
    EmbeddedError,
    JobCancelled,
    JobFailed,
    JobNotFinished,
    LeaseLost,
    MissingExtra,
    NoCurrentJob,
    NoStreams,
    NotPermitted,
    Reject,
    Retry,
    StoreError,
    StoreUnavailable,
    StreamLost,
    SubmitInterrupted,
    TontineError,
    TooLarge,
    UnknownJob,
    UnknownNode,
    UnknownTask,
    Unstorable,
)
from .job import Job, JobError, Progress
from .module import Module
from .states import JobState

if TYPE_CHECKING:
    from .batch import Batch
    from .client import AsyncClient, Client
    from .store.logs import Line

__all__ = [
    "AsyncClient",
    "Batch",
    "BulkRefused",
    "ClaimLost",
    "Client",
    "ConfigError",
    "DuplicateKey",
    "EmbeddedError",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobNotFinished",
    "JobState",
    "LeaseLost",
    "Line",
    "MissingExtra",
    "Module",
    "NoCurrentJob",
    "NoStreams",
    "NotPermitted",
    "Progress",
    "Reject",
    "Retry",
    "StoreError",
    "StoreUnavailable",
    "StreamLost",
    "SubmitInterrupted",
    "TontineError",
    "TooLarge",
    "UnknownJob",
    "UnknownNode",
    "UnknownTask",
    "Unstorable",
    "current_job",
]

# Workers import this package for Module alone; only who makes a client pays for loading pymongo.
_LAZY = {"AsyncClient": "client", "Batch": "batch", "Client": "client", "Line": "store.logs"}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module 'tontine' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
