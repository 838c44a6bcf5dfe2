"""Looks for queued jobs that no other look would ever come to, because of what somebody wrote
there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bson import Timestamp

from ..records.job import LAST_SEQ
from ..records.share import Part, at_once
from .call import Operation, find_some
from .fresh import KEYS_AT_ONCE
from .indexes import DUE, DUE_INDEX, FRESH, on_index
from .names import JOBS
from .raw import Raw, Some

_NO_NUMBER = "`seq` must be a whole number from 0 on"
_NO_TEXT = "`task` must be a text"
_NO_DATE = "`run_at` must be a date"

Look = tuple[str, dict[str, Any], str]
"""An index, a condition, and what is odd about the jobs that it finds."""


def find_odd(tasks: Sequence[str], limit: int) -> Operation[list[tuple[Raw, str]]]:
    """Queued jobs that cannot be claimed, and why: of any task those whose task is none, of these
    tasks the others."""
    found: list[tuple[Raw, str]] = []
    for index, where, reason in _looks(tasks):
        some_odd: Some = yield from on_index(
            index,
            lambda name, where=where: find_some(  # type: ignore[misc]
                JOBS, where, projection={"_id": 1}, limit=limit, hint=name
            ),
        )
        found += [(job, reason) for job in some_odd]
    return found


def _looks(tasks: Sequence[str]) -> Iterator[Look]:
    # BSON sorts by type first, so that what cannot be a number, a text or a date stands before or
    # behind all that can; `true` is the last that comes before dates, and a timestamp the first
    # after them.
    yield ("fresh", {**FRESH, "$expr": {"$lt": ["$task", ""]}}, _NO_TEXT)
    yield ("fresh", {**FRESH, "$expr": {"$gte": ["$task", {"$literal": {}}]}}, _NO_TEXT)
    early = {"$and": [{"$gt": ["$run_at", None]}, {"$lte": ["$run_at", True]}]}
    for some in at_once([Part(tuple(tasks))], KEYS_AT_ONCE):
        known = {"task": {"$in": list(some[0].keys)}}
        fresh, due = {**FRESH, **known}, {**DUE, **known}
        yield ("fresh", {**fresh, "$expr": {"$gte": ["$seq", LAST_SEQ]}}, _NO_NUMBER)
        yield ("fresh", {**fresh, "seq": {"$lt": 0}}, _NO_NUMBER)
        yield (DUE_INDEX, {**due, "$expr": early}, _NO_DATE)
        yield (DUE_INDEX, {**due, "$expr": {"$gte": ["$run_at", Timestamp(0, 0)]}}, _NO_DATE)
