"""Judges what really ran, from a record that the tasks themselves keep, against each other and the documents."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..errors import ConfigError
from ..states import JobState
from .invariant import Finding

RAN = ("S2", "S3", "S4")
"""The invariants that a record of runs can show."""


@dataclass(slots=True)
class Run:
    """One attempt as its task saw it: in which process, from when to when (None: it never got there)."""

    attempt: int
    pid: int
    began: float
    ended: float | None = None


class Runs:
    """All runs, by the job's seq."""

    def __init__(self) -> None:
        self.by_seq: dict[int, list[Run]] = defaultdict(list)
        self.meetings: list[tuple[int, int, int]] = []
        """(seq, process, other process): a task that found another process running its job."""

    @classmethod
    def read(cls, lines: Iterable[str]) -> Runs:
        """From JSON lines with `seq`, `attempt`, `event` (began, ended, met), `at` in seconds and `pid`.

        A line that was cut short by the death of its writer is passed over, if something else follows it.
        """
        runs = cls()
        for number, line in enumerate(lines, 1):
            try:
                runs.add(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                if line.endswith("}\n"):
                    raise ConfigError(f"line {number} of the record of runs is not one: {error}") from None
        return runs

    def add(self, note: Mapping[str, Any]) -> None:
        seq, attempt, pid, at = int(note["seq"]), int(note["attempt"]), int(note["pid"]), float(note["at"])
        match note["event"]:
            case "began":
                self.by_seq[seq].append(Run(attempt, pid, at))
            case "ended":
                for run in self.by_seq[seq]:
                    if (run.attempt, run.pid, run.ended) == (attempt, pid, None):
                        run.ended = at
            case "met":
                self.meetings.append((seq, pid, int(note["other"])))
            case other:
                raise ValueError(f"event {other!r} is none of began, ended, met")

    @property
    def total(self) -> int:
        return sum(map(len, self.by_seq.values()))

    @property
    def repeated(self) -> int:
        """Runs beyond the first of their job."""
        return sum(len(runs) - 1 for runs in self.by_seq.values())

    def judge(self, frozen: Collection[int] = ()) -> Iterator[Finding]:
        """What is wrong with the runs themselves; a process that was `frozen` may have run on without knowing."""
        for seq, runs in self.by_seq.items():
            yield from _judge_attempts(seq, runs)
            yield from _judge_overlaps(seq, runs, frozen)
        for seq, pid, other in self.meetings:
            if pid not in frozen and other not in frozen:
                yield Finding("S3", f"process {pid} began it while process {other} was running it", seq)

    def judge_job(self, document: Mapping[str, Any]) -> Iterator[Finding]:
        """What is wrong with a job's document, given what ran."""
        seq, attempt, state = document["seq"], document.get("attempt"), document.get("state")
        runs = self.by_seq.get(seq, [])
        if any(run.attempt > (attempt or 0) for run in runs):
            yield Finding("S4", f"attempt {max(run.attempt for run in runs)} ran, the document says {attempt}", seq)
        if state == JobState.DONE and not any(run.attempt == attempt and run.ended is not None for run in runs):
            yield Finding("S2", f"done at attempt {attempt}, which never ran to its end", seq)


def _judge_attempts(seq: int, runs: list[Run]) -> Iterator[Finding]:
    attempts = [run.attempt for run in runs]
    twice = sorted({attempt for attempt in attempts if attempts.count(attempt) > 1})
    if twice:
        yield Finding("S4", f"attempt {twice[0]} ran twice", seq)


def _judge_overlaps(seq: int, runs: list[Run], frozen: Collection[int]) -> Iterator[Finding]:
    inorder = sorted(runs, key=lambda run: run.began)
    for first, second in pairwise(inorder):
        if first.ended is not None and second.began < first.ended and not {first.pid, second.pid} & set(frozen):
            yield Finding("S3", f"attempts {first.attempt} and {second.attempt} ran at the same time", seq)
