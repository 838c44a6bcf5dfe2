"""The flow: what goes in, waits, runs and comes out, at one moment and over the ten minutes before it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from tontine.records.states import JobState

from ..model.curves import CANCELLED, DONE, FAILED, INCOMING, OUT, RETRIED, Curves
from ..records.picture import Flow, JobRow, Series
from .moment import View, date

SERIES_OVER, SERIES_STEP = 600.0, 5.0
TIMES_OVER = 60.0
TIMES_KEPT = 6_000


class Times:
    """How long jobs waited and ran: the newest ones, to take quantiles of."""

    def __init__(self) -> None:
        self._waits: deque[tuple[float, float]] = deque(maxlen=TIMES_KEPT)
        self._runs: deque[tuple[float, float]] = deque(maxlen=TIMES_KEPT)
        self._sorted: dict[str, tuple[float, list[float]]] = {}

    def note(self, at: float, before: JobRow, row: JobRow) -> None:
        """Learn from one change of a job."""
        if row.state == before.state:
            return
        if row.state == JobState.WORKING:
            due = before.due_at
            if due is not None:
                self._waits.append((at, max(0.0, at - due)))
        elif not row.is_open and (ran := row.ran) is not None:
            self._runs.append((at, ran))

    def waits(self, at: float) -> list[float]:
        return self._recent("waits", self._waits, at)

    def runs(self, at: float) -> list[float]:
        return self._recent("runs", self._runs, at)

    def _recent(self, name: str, times: Iterable[tuple[float, float]], at: float) -> list[float]:
        # Sorting thousands for every frame would cost more than it tells: once a second is enough.
        known = self._sorted.get(name)
        if known is None or not 0 <= at - known[0] < 1:
            found = sorted(seconds for noted, seconds in times if at - TIMES_OVER < noted <= at)
            self._sorted[name] = known = (at, found)
        return known[1]


def quantile(ordered: Sequence[float], part: float) -> float | None:
    """The value that this part of the others does not exceed."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


Memo = dict[str, tuple[int, Series]]


def flow(view: View, curves: Curves, times: Times, *, is_counted: bool = True, memo: Memo | None = None) -> Flow:
    """The flow at a view's moment. What a `memo` keeps of curves is worked out once a second."""
    queued = [row for row in view.unfinished if row.state == JobState.QUEUED and row.seq is not None]
    due = [row for row in queued if (row.due_at or 0.0) <= view.at]
    oldest: JobRow | None = min(due, key=lambda row: row.due_at or 0.0, default=None)
    started = [row for row in view.working if row.started_at is not None]
    size = len(view.members)
    waits, runs = times.waits(view.at), times.runs(view.at)
    return Flow(
        counts=view.counts,
        started=len(started) if view.is_complete else None,
        later=len(queued) - len(due),
        unnumbered=view.unnumbered,
        in_rate=curves.rate((INCOMING,), view.at),
        out_rate=curves.rate(OUT, view.at),
        done_rate=curves.rate((DONE,), view.at),
        failed_rate=curves.rate((FAILED,), view.at),
        retried_rate=curves.rate((RETRIED,), view.at),
        cancelled_rate=curves.rate((CANCELLED,), view.at),
        wait_p50=quantile(waits, 0.5),
        wait_p95=quantile(waits, 0.95),
        run_p50=quantile(runs, 0.5),
        run_p95=quantile(runs, 0.95),
        oldest=oldest.seq if oldest else None,
        oldest_age=view.at - oldest.due_at if oldest and oldest.due_at is not None else None,
        oldest_rank=oldest.seq % size if oldest and oldest.seq is not None and size else None,
        incoming=_remembered(memo, "in", view.at, lambda: _series(curves.flows, (INCOMING,), view.at)),
        outgoing=_remembered(memo, "out", view.at, lambda: _series(curves.flows, OUT, view.at)),
        depth=_remembered(memo, "depth", view.at, lambda: _series(curves.depths, JobState.QUEUED.value, view.at)),
        is_counted=is_counted,
    )


def _remembered(memo: Memo | None, name: str, at: float, read: Callable[[], Series]) -> Series:
    if memo is None:
        return read()
    known = memo.get(name)
    if known is None or known[0] != int(at):
        known = memo[name] = (int(at), read())
    return known[1]


def _series(read: object, what: object, at: float) -> Series:
    columns = int(SERIES_OVER / SERIES_STEP)
    # Columns begin at whole steps, so that they do not change from frame to frame.
    start = (at // SERIES_STEP + 1) * SERIES_STEP - SERIES_OVER
    return Series(date(start), SERIES_STEP, read(what, start, SERIES_STEP, columns))  # type: ignore[operator]
