"""Identical nodes share one job queue in MongoDB: no leader, no broker, and survivors inherit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .current import current_job
from .errors import Reject, Retry, TontineError
from .job import Job
from .module import Module
from .states import JobState

if TYPE_CHECKING:
    from .client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "Job", "JobState", "Module", "Reject", "Retry", "TontineError", "current_job"]


def __getattr__(name: str) -> object:
    # Workers import this package for Module alone; only who makes a client pays for loading pymongo.
    if name in ("Client", "AsyncClient"):
        from . import client

        return getattr(client, name)
    raise AttributeError(f"module 'tontine' has no attribute {name!r}")
