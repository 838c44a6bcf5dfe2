"""Tasks: what of each waits, what ended lately and how long it took, and which nodes have it.
Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tontine.records.task_key import fits, has_range, name_of

from ..records.job import JobList, JobRow
from ..records.ledger import TaskRow
from ..records.node import NodeRow
from .flow import quantile

OVER = 600.0
"""Seconds that rates and times are taken over, if so much is known."""


def task_rows(
    jobs: JobList,
    nodes: Iterable[NodeRow],
    now: float,
    queued: Mapping[str, int] | None,
    *,
    is_whole: bool,
) -> tuple[TaskRow, ...]:
    """All tasks that are known, by name. `queued` was counted in the store, for when the rows are
    not all there are."""
    living = [node for node in nodes if node.state != "dead"]
    having: dict[str, list[tuple[str, str]]] = {}
    for node in living:
        for module in node.modules:
            for task in module.tasks if module.is_offered else ():
                having.setdefault(task, []).append((node.name, module.version))
    waiting = Counter(row.task for row in jobs.rows if row.state == "queued")
    working = Counter(row.task for row in jobs.rows if row.state == "working")
    counted: Mapping[str, int] | None = waiting if jobs.is_complete else queued
    ended = [row for row in jobs.rows if not row.is_open and row.finished_at is not None]
    # Where every job is known, none has ended before the first one came.
    first = min((row.created_at for row in jobs.rows if row.created_at is not None), default=now)
    span = min(OVER, now - max(jobs.ended_since, first))
    recent: dict[str, list[JobRow]] = {}
    for row in ended:
        if (row.finished_at or 0.0) > now - span:
            recent.setdefault(row.task, []).append(row)
    names = having.keys() | waiting.keys() | working.keys() | recent.keys() | (queued or {}).keys()
    return tuple(
        _row(
            name,
            None if counted is None else counted.get(name, 0),
            working[name],
            recent.get(name, ()),
            span,
            _inside(name, having.get(name_of(name), ())),
            is_partial=not jobs.is_complete and not is_whole,
        )
        for name in sorted(names)
    )


def _inside(key: str, having: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Those of these nodes whose version is inside the range that jobs ask for, if they do."""
    return [one for one in having if fits(key, one[1])] if has_range(key) else having


def _row(
    name: str,
    queued: int | None,
    working: int,
    ended: Sequence[JobRow],
    span: float,
    having: Sequence[tuple[str, str]],
    *,
    is_partial: bool,
) -> TaskRow:
    runs = sorted(row.ran for row in ended if row.ran is not None)
    waits = sorted(
        max(0.0, row.started_at - due)
        for row in ended
        if row.started_at is not None and (due := row.due_at) is not None
    )
    failed = sum(row.state == "failed" for row in ended)
    return TaskRow(
        name=name,
        queued=queued,
        working=working,
        rate=len(ended) / span if span >= 1 else None,
        failing=failed / len(ended) if ended else None,
        wait_p50=quantile(waits, 0.5),
        wait_p95=quantile(waits, 0.95),
        run_p50=quantile(runs, 0.5),
        run_p95=quantile(runs, 0.95),
        nodes=tuple(sorted({node for node, _ in having})),
        versions=tuple(sorted({version for _, version in having})),
        is_partial=is_partial,
    )
