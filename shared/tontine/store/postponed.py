"""(3) Looks for jobs with a time or a priority of their own: one call for all that a node serves.
None of them decides anything: the claim does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from ..records.job import SUSPECT
from ..records.share import Part, at_once
from .call import Operation, find_some
from .fresh import FIELDS, KEYS_AT_ONCE, ago, either
from .indexes import DUE, DUE_INDEX, NUMBERED, RANKED, RANKED_INDEX, on_index
from .names import JOBS
from .raw import Raw, Some

Sort = list[tuple[str, int]]


def find_due(
    parts: Sequence[Part], ahead: float, limit: int, *, suspects: bool = True
) -> Operation[Some]:
    """Postponed jobs of these parts that are due within `ahead` seconds; `wait` says in how many ms
    (F5 a)."""
    soon = {"$add": ["$$NOW", round(ahead * 1000)]}
    wait = {"$subtract": ["$run_at", "$$NOW"]}
    where = {**_DATED, "$expr": {"$lte": ["$run_at", soon]}, **_unless(suspects)}
    return (yield from _find(DUE_INDEX, where, parts, limit, wait=wait))


def find_overdue(
    tasks: Sequence[str], age: float, limit: int, *, suspects: bool = True
) -> Operation[Some]:
    """The oldest postponed jobs of any share that have been due for more than `age` seconds
    (F6)."""
    where = {**_DATED, "$expr": {"$lt": ["$run_at", ago(age)]}, **_unless(suspects)}
    return (yield from _find(DUE_INDEX, where, [Part(tuple(tasks))], limit))


_DATED = {**DUE, "run_at": {"$type": "date"}}


def find_ranked(
    parts: Sequence[Part],
    limit: int,
    *,
    low: bool = False,
    age: float = 0.0,
    suspects: bool = True,
) -> Operation[Some]:
    """Due jobs of these parts with a priority, the highest first, with or without the `low` ones
    below zero."""
    # Without a time of its own a job is due, whatever its `created_at` says; only helpers wait for
    # it to grow old.
    since = "$created_at" if age else datetime(1970, 1, 1, tzinfo=UTC)
    where = {
        **RANKED,
        "priority": RANKED["priority"] if low else {"$gt": 0},
        "$expr": {"$lte": [{"$ifNull": ["$run_at", since]}, ago(age)]},
        **_unless(suspects),
    }
    return (yield from _find(RANKED_INDEX, where, parts, limit))


_ORDER: dict[str, tuple[Sort, Callable[[Raw], Any]]] = {
    DUE_INDEX: ([("run_at", 1)], lambda job: job["run_at"]),
    RANKED_INDEX: (
        [("priority", -1), ("seq", 1)],
        lambda job: (-(job["priority"] or 0), job["seq"]),
    ),
}


def _find(
    index: str, where: dict[str, Any], parts: Sequence[Part], limit: int, **more: Any
) -> Operation[Some]:
    """Those of all parts that come first in the order of an index."""
    sort, place = _ORDER[index]
    answers: list[Some] = []
    for some in at_once(parts, KEYS_AT_ONCE):
        wanted = either([{**where, **_of(part)} for part in some])
        answer: Some = yield from on_index(
            index,
            lambda name, wanted=wanted: find_some(  # type: ignore[misc]
                JOBS,
                wanted,
                projection={**FIELDS, **more},
                sort=sort,
                limit=limit,
                hint=name,
                lean=True,
            ),
        )
        answers.append(answer)
    if len(answers) == 1:
        return answers[0]
    merged = Some(sorted((job for answer in answers for job in answer), key=place)[:limit])
    merged.is_cut = any(answer.is_cut for answer in answers)
    return merged


def _of(part: Part) -> dict[str, Any]:
    mine = NUMBERED if part.share is None else {"seq": part.share.query()}
    return {"task": {"$in": list(part.keys)}, **mine}


def _unless(suspects: bool) -> dict[str, Any]:
    """Leave out jobs that may be poison, as long as they could not be claimed anyway (P2)."""
    return {} if suspects else {"lost": {"$lt": SUSPECT}}
