"""What tasks print and log, kept apart from their jobs: a settled job's document does not change
any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo import UpdateOne

from .call import Operation, bulk_write, find, find_one
from .names import LOGS
from .retention import FOR_EVER, Retention
from .which import read_job

LINES_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of one attempt with their times. `job` is the job's `_id`: its number may have been
    another's before."""

    job: Any
    seq: int
    attempt: int
    lines: Sequence[tuple[datetime, str]]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one attempt, at the worker's wall clock."""

    attempt: int
    """The attempt that printed it."""
    at: datetime
    """When, by the clock of the node's host."""
    text: str
    """The line, without its end."""


def append(parts: Sequence[Part], retention: Retention = FOR_EVER) -> Operation[None]:
    """Add lines to attempts; of each attempt the newest are kept."""
    updates = []
    for part in parts:
        job = {"$literal": part.job}
        # What is there under this number and attempt but is not this job's is an earlier job's, and
        # makes room.
        before = {
            "$cond": [{"$and": [{"$eq": ["$job", job]}, {"$isArray": "$lines"}]}, "$lines", []]
        }
        added = {"$literal": [{"at": at, "text": text} for at, text in part.lines]}
        values = {
            "job": job,
            "at": "$$NOW",
            "expire_at": retention.expiry_of_logs(),
            "lines": {"$slice": [{"$concatArrays": [before, added]}, -LINES_KEPT]},
        }
        updates.append(
            UpdateOne({"seq": part.seq, "attempt": part.attempt}, [{"$set": values}], upsert=True)
        )
    if updates:
        yield bulk_write(LOGS, updates, ordered=True)


def read_lines(seq: int, job: Any) -> Operation[list[Line]]:
    """All lines of a job, attempt by attempt. Lines that do not say whose they are come from older
    nodes."""
    mine = {"seq": seq, "job": {"$in": [job, None]}}
    found: list[dict[str, Any]] = yield find(LOGS, mine, sort=[("attempt", 1)], hint="attempt")
    return [
        Line(int(one["attempt"]), line["at"], line["text"])
        for one in found
        for line in one.get("lines", ())
    ]


def has_lines(seq: int | None, job: Any) -> Operation[bool]:
    """Whether there are any lines of a job."""
    if seq is None:
        return False
    mine = {"seq": seq, "job": {"$in": [job, None]}}
    return (yield find_one(LOGS, mine, projection={"_id": 1})) is not None


def read_lines_of(which: Any = None, key: str | None = None) -> Operation[list[Line]]:
    """The same for a job by anything that names it."""
    job = yield from read_job(which, key)
    return (yield from read_lines(job.seq, job.id))
