"""Compares jobs with a record of what ran that goes on growing while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .invariant import Finding
from .runs import Runs

_DOUBTS_KEPT = 100_000


class Record:
    """The record is read before the jobs, to know which attempts were made, and after them, to know
    which had ended."""

    def __init__(self, read: Callable[[], Runs]) -> None:
        self._read = read
        self._before = read()
        self._doubtful: list[Mapping[str, Any]] = []

    def see(self, document: Mapping[str, Any]) -> Iterator[Finding]:
        """What is wrong with a job for certain, by what had run before it was read; jobs of others
        are passed over."""
        if document["seq"] not in self._before.by_seq:
            return
        yield from self._before.judge_attempt(document)
        if any(self._before.judge_result(document)) and len(self._doubtful) < _DOUBTS_KEPT:
            self._doubtful.append(
                {name: document.get(name) for name in ("seq", "state", "attempt")}
            )

    def conclude(self) -> tuple[int, list[Finding]]:
        """How many runs there were, and what is wrong with them and the jobs that were in doubt."""
        after = self._read()
        findings = list(after.judge())
        for document in self._doubtful:
            findings += after.judge_result(document)
        return after.total, findings
