"""Failures by their kind: the same task, the same error, the same message but for its numbers.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tontine.records.states import JobState

from ..records.job import JobRow
from ..records.ledger import Failed, FailureRow
from ..records.request import MOST

COLUMNS = 24
_ID = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b", re.I)
_HEX = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b", re.I)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def signature(message: str) -> str:
    """A message without what differs from one failure to the next."""
    return _NUMBER.sub("#", _HEX.sub("#", _ID.sub("#", message)))


def parts(error: str) -> tuple[str, str]:
    """The type and the message of an error as a row has it."""
    kind, _, message = error.partition(": ")
    return kind or "no reason given", message


def failures_of(rows: Sequence[JobRow], until: float) -> tuple[FailureRow, ...]:
    """The groups of those rows that have failed."""
    failed = [
        Failed(row.seq or 0, row.task, *parts(row.error), row.finished_at or until)
        for row in rows
        if row.state == JobState.FAILED
    ]
    return grouped(failed, rows, min((one.at for one in failed), default=until), until)


def grouped(
    failed: Iterable[Failed], rows: Iterable[JobRow], since: float, until: float
) -> tuple[FailureRow, ...]:
    """The groups, the one that failed last first; `rows` are jobs that may be tried again."""
    groups: dict[tuple[str, str, str], list[Failed]] = {}
    for one in failed:
        groups.setdefault((one.task, one.kind, signature(one.message)), []).append(one)
    again: dict[tuple[str, str, str], list[JobRow]] = {}
    for row in rows:
        if row.is_open and row.error:
            kind, message = parts(row.error)
            again.setdefault((row.task, kind, signature(message)), []).append(row)
    found = [
        _row(key, groups.get(key, ()), again.get(key, ()), since, until)
        for key in groups.keys() | again.keys()
    ]
    return tuple(sorted(found, key=lambda row: (-(row.last or 0.0), row.key)))


def _row(
    key: tuple[str, str, str],
    failed: Sequence[Failed],
    again: Sequence[JobRow],
    since: float,
    until: float,
) -> FailureRow:
    moments = [one.at for one in failed]
    newest = sorted(failed, key=lambda one: -one.at)[:MOST]
    return FailureRow(
        *key,
        first=min(moments, default=None),
        last=max(moments, default=None),
        count=len(failed),
        curve=_curve([one.at for one in failed], since, until),
        seqs=tuple(one.seq for one in newest),
        again=tuple(again[:MOST]),
    )


def _curve(moments: Iterable[float], since: float, until: float) -> tuple[float, ...]:
    counts = [0.0] * COLUMNS
    step = max(1e-6, (until - since) / COLUMNS)
    for at in moments:
        counts[max(0, min(COLUMNS - 1, int((at - since) / step)))] += 1
    return tuple(counts)
