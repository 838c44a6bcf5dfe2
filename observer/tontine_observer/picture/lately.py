"""How it went lately: what ended well and what did not, how long it waited and ran. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tontine.records.states import JobState
from tontine.rules.complaint import Outcomes
from tontine.rules.health import LATELY, LATEST_JOBS

from ..records.job import JobRow
from .moment import Moment

LOOKED_AT = 500
"""Of the jobs that ended last: what they waited and ran is what is usual."""
WAITS_FROM, RUNS_FROM = 20, 5
"""From so many on one may speak of what is usual."""

NOTHING = Outcomes("")


@dataclass(frozen=True, slots=True)
class Lately:
    """The jobs that ended lately, as far as they are known."""

    tasks: tuple[Outcomes, ...] = ()
    every: Outcomes = NOTHING
    ended_at: float | None = None
    """When the last of them ended."""
    usual_wait: float | None = None
    usual_run: float | None = None
    """What nine in ten do not exceed; None where too few are known."""


def lately(moment: Moment, last: Iterable[JobRow], outcomes: Iterable[JobRow]) -> Lately:
    """What the jobs that ended last tell, in all and of each task, the newest first, and those that
    failed and wait for another attempt."""
    ended = [row for row in last if _is_late(row, moment.at)]
    tasks: dict[str, Outcomes] = {}
    of_tasks = (row for row in outcomes if _is_late(row, moment.at))
    for row in (*_failed_once(moment.unfinished), *of_tasks):
        known = tasks.get(row.task, Outcomes(row.task))
        if known.ended < LATEST_JOBS:
            tasks[row.task] = _counted(known, row, moment.at)
    every = Outcomes(
        "",
        sum(one.done for one in tasks.values()),
        sum(one.failed for one in tasks.values()),
        next((one.error for one in tasks.values() if one.error), ""),
        min((one.ago for one in tasks.values() if one.failed), default=0.0),
    )
    return Lately(
        tuple(tasks.values()),
        every,
        max((row.finished_at or 0.0 for row in ended), default=None),
        _usual([_waited(row) for row in ended], WAITS_FROM),
        _usual([row.ran for row in ended], RUNS_FROM),
    )


def _is_late(row: JobRow, now: float) -> bool:
    return bool(row.finished_at) and now - (row.finished_at or 0.0) < LATELY


def _failed_once(rows: Iterable[JobRow]) -> list[JobRow]:
    """Queued jobs whose last attempt failed: they have not ended, but that went wrong."""
    return [row for row in rows if row.fails and row.state == JobState.QUEUED]


def _counted(known: Outcomes, row: JobRow, now: float) -> Outcomes:
    match row.state:
        case JobState.DONE:
            return replace(known, done=known.done + 1)
        case JobState.CANCELLED:
            return known
    return known.with_failure(row.error, now - (row.finished_at or now))


def _waited(row: JobRow) -> float | None:
    if row.started_at is None or row.due_at is None:
        return None
    return max(0.0, row.started_at - row.due_at)


def _usual(values: Sequence[float | None], least: int) -> float | None:
    known = sorted(value for value in values if value is not None)
    return known[int(0.9 * (len(known) - 1))] if len(known) >= least else None
