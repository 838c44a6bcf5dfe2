"""What tasks print and log, kept apart from their jobs: a settled job's document does not change any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo import UpdateOne

from .call import Call, Steps, find
from .schema import LOGS

LINES_KEPT = 1000

Part = tuple[int, int, Sequence[tuple[datetime, str]]]
"""A job's number, the attempt's, and lines of it with their times."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one attempt, at the worker's wall clock."""

    attempt: int
    at: datetime
    text: str


def append(parts: Sequence[Part]) -> Steps[None]:
    """Add lines to attempts; of each attempt the newest are kept."""
    updates = []
    for seq, attempt, lines in parts:
        added = [{"at": at, "text": text} for at, text in lines]
        change = {"$push": {"lines": {"$each": added, "$slice": -LINES_KEPT}}, "$currentDate": {"at": True}}
        updates.append(UpdateOne({"seq": seq, "attempt": attempt}, change, upsert=True))
    yield Call(LOGS, "bulk_write", (updates,), {"ordered": True})


def read_lines(seq: int) -> Steps[list[Line]]:
    """All lines of a job, attempt by attempt."""
    found: list[dict[str, Any]] = yield find(LOGS, {"seq": seq}, sort=[("attempt", 1)], hint="attempt")
    return [Line(int(one["attempt"]), line["at"], line["text"]) for one in found for line in one.get("lines", ())]
