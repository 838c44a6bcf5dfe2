"""The result of a job that has counted or observed something, as its worker reports it."""

from __future__ import annotations

from typing import Any, NamedTuple

from tontine import verdict
from tontine.records.counted import Noted


class CountedEnd(NamedTuple):
    """A result as BSON, with the counts beside it, and all that was noted as a row of a report."""

    result: bytes
    noted: list[Any]


def counted(result: bytes, noted: Noted) -> CountedEnd:
    """Only what was counted is stored with the job; what was observed is for the node alone."""
    body = verdict.with_counts(result, noted.counts) if noted.counts else result
    return CountedEnd(body, noted.to_row())
