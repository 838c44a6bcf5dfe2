"""What a job may be given beside its arguments: the keywords of every call that submits. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from .config import Duration, seconds


class BatchOptions(TypedDict, total=False):
    """The keywords of `submit_many`: they hold for each of its jobs."""

    delay: Duration | None
    """Not before so long after it was submitted."""
    run_at: datetime | None
    """Not before this time."""
    priority: int
    """Higher first, lower last; 0 by default."""
    max_attempts: int | None
    """How many attempts may fail, instead of its task's number."""
    version: str | None
    """Only by nodes that have the task's module in a version of this range, like `>=1.2,<2`."""
    timeout: Duration | None
    """How long an attempt may take, instead of its task's limit."""
    max_age: Duration | None
    """Cancelled if it has not started so long after it was due."""
    meta: Mapping[str, Any] | None
    """What the producer wants to know of it later; no argument of its task."""


class JobOptions(BatchOptions, total=False):
    """The keywords of `submit`."""

    key: str | None
    """At most one unfinished job has it: a second submit gets that one, marked `existed`."""
    unique_for: Duration | None
    """The key stays taken for so long after the job was done."""


_DURATIONS = ("delay", "timeout", "max_age", "unique_for")


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, with durations in seconds. A keyword that there is not is refused, as Python
    does."""
    for name in options:
        if name not in JobOptions.__annotations__:
            meant = difflib.get_close_matches(name, JobOptions.__annotations__, n=1)
            hint = f"; was '{meant[0]}' meant?" if meant else ""
            raise TypeError(f"submit got an unexpected keyword argument '{name}'{hint}")
    said = {name: value for name, value in options.items() if value is not None}
    return {name: seconds(value) if name in _DURATIONS else value for name, value in said.items()}
