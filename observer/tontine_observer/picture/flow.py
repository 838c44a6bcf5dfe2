"""The flow: what goes in, waits, runs and comes out, at one moment and over the ten minutes before
it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tontine.records.states import JobState
from tontine.rules.health import empties_in

from ..model.curves import CANCELLED, DONE, FAILED, INCOMING, OUT, RETRIED, Curves
from ..model.times import Times
from ..records.flow import Flow, Series
from ..records.job import JobRow
from ..records.values import date
from .moment import Moment

SERIES_OVER, SERIES_STEP = 600.0, 5.0
RATE_OVER = 60.0


def quantile(ordered: Sequence[float], part: float) -> float | None:
    """The value that this part of the others does not exceed."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


Memo = dict[str, tuple[int, Series]]


def flow(
    moment: Moment,
    curves: Curves,
    times: Times,
    *,
    is_counted: bool = True,
    memo: Memo | None = None,
) -> Flow:
    """The flow at a moment. What a `memo` keeps of curves is worked out once a second."""
    queued = [
        row for row in moment.unfinished if row.state == JobState.QUEUED and row.seq is not None
    ]
    due = [row for row in queued if (row.due_at or 0.0) <= moment.at]
    oldest: JobRow | None = min(due, key=lambda row: row.due_at or 0.0, default=None)
    started = [row for row in moment.working if row.started_at is not None]
    waits, runs = times.waits(moment.at), times.runs(moment.at)
    return Flow(
        counts=moment.counts,
        started=len(started) if moment.is_complete else None,
        later=len(queued) - len(due),
        unnumbered=moment.unnumbered,
        in_rate=curves.rate((INCOMING,), moment.at),
        out_rate=curves.rate(OUT, moment.at),
        done_rate=curves.rate((DONE,), moment.at),
        failed_rate=curves.rate((FAILED,), moment.at),
        retried_rate=curves.rate((RETRIED,), moment.at),
        cancelled_rate=curves.rate((CANCELLED,), moment.at),
        wait_p50=quantile(waits, 0.5),
        wait_p95=quantile(waits, 0.95),
        run_p50=quantile(runs, 0.5),
        run_p95=quantile(runs, 0.95),
        oldest=oldest.seq if oldest else None,
        oldest_age=moment.at - oldest.due_at if oldest and oldest.due_at is not None else None,
        oldest_rank=moment.roster.rank_of(oldest.seq, oldest.task)
        if oldest and oldest.seq is not None
        else None,
        incoming=_remembered(
            memo, "in", moment.at, lambda: _series(curves.flows, (INCOMING,), moment.at)
        ),
        outgoing=_remembered(memo, "out", moment.at, lambda: _series(curves.flows, OUT, moment.at)),
        depth=_remembered(
            memo,
            "depth",
            moment.at,
            lambda: _series(curves.depths, JobState.QUEUED.value, moment.at),
        ),
        empty_in=empties_in(
            len(due) if moment.is_complete else moment.counts.get(JobState.QUEUED, 0),
            curves.rate((INCOMING,), moment.at, RATE_OVER),
            curves.rate(OUT, moment.at, RATE_OVER),
        ),
        is_counted=is_counted,
    )


def _remembered(memo: Memo | None, name: str, at: float, read: Callable[[], Series]) -> Series:
    if memo is None:
        return read()
    known = memo.get(name)
    if known is None or known[0] != int(at):
        known = memo[name] = (int(at), read())
    return known[1]


T = TypeVar("T")
Read = Callable[[T, float, float, int], tuple[float | None, ...]]


def _series(read: Read[T], what: T, at: float) -> Series:
    columns = int(SERIES_OVER / SERIES_STEP)
    # Columns begin at whole steps, so that they do not change from frame to frame.
    start = (at // SERIES_STEP + 1) * SERIES_STEP - SERIES_OVER
    return Series(date(start), SERIES_STEP, read(what, start, SERIES_STEP, columns))
