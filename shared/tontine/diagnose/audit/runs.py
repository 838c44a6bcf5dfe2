"""Judges what really ran, from a record that the tasks themselves keep, against each other and the
documents."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ...errors import ConfigError
from ...records.states import JobState
from .invariant import Finding

RAN = ("S2", "S3", "S4")
"""The invariants that a record of runs can show."""

LAST_BREATH = 2.0
"""Seconds that a worker may need, once it is no longer frozen, to see that its time is over and end
itself (N6)."""


@dataclass(slots=True)
class RunRecord:
    """One attempt as its task saw it: in which process, from when to when (None: it never got
    there)."""

    attempt: int
    pid: int
    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Meeting:
    """A task that found another process running its job."""

    seq: int
    pid: int
    other: int
    at: float


@dataclass(frozen=True, slots=True)
class Spell:
    """For how long a process was frozen, by the clock of the record."""

    pid: int
    since: float
    until: float

    def excuses(self, pids: Collection[int], since: float, until: float) -> bool:
        """Whether one of these processes could not know from `since` to `until` that it should not
        run."""
        return self.pid in pids and self.since <= until and since <= self.until + LAST_BREATH


class Runs:
    """All runs, by the job's seq."""

    def __init__(self) -> None:
        self.by_seq: dict[int, list[RunRecord]] = defaultdict(list)
        self.meetings: list[Meeting] = []

    @classmethod
    def read(cls, lines: Iterable[str]) -> Runs:
        """From JSON lines with `seq`, `attempt`, `event` (began, ended, met), `at` in seconds and
        `pid`.

        A note that was cut short by the death of its writer is passed over; the next one may be on
        the same line.
        """
        runs = cls()
        for number, line in enumerate(lines, 1):
            try:
                if (note := _note(line)) is not None:
                    runs.add(note)
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f"line {number} of the record of runs is not one: {error}"
                ) from None
        return runs

    def add(self, note: Mapping[str, Any]) -> None:
        seq, attempt, pid, at = (
            int(note["seq"]),
            int(note["attempt"]),
            int(note["pid"]),
            float(note["at"]),
        )
        match note["event"]:
            case "began":
                self.by_seq[seq].append(RunRecord(attempt, pid, at))
            case "ended":
                self._end(seq, attempt, pid, at)
            case "met":
                self.meetings.append(Meeting(seq, pid, int(note["other"]), at))
            case other:
                raise ValueError(f"event {other!r} is none of began, ended, met")

    def _end(self, seq: int, attempt: int, pid: int, at: float) -> None:
        for run in self.by_seq[seq]:
            if (run.attempt, run.pid, run.ended) == (attempt, pid, None):
                run.ended = at
                return
        self.by_seq[seq].append(
            RunRecord(attempt, pid, at, at)
        )  # its beginning was cut short: it ran all the same

    @property
    def total(self) -> int:
        return sum(map(len, self.by_seq.values()))

    @property
    def repeated(self) -> int:
        """Runs beyond the first of their job."""
        return sum(len(runs) - 1 for runs in self.by_seq.values() if runs)

    def judge(self, frozen: Collection[Spell] = ()) -> Iterator[Finding]:
        """What is wrong with the runs themselves; a process that was `frozen` may have run on
        without knowing."""
        for seq, runs in self.by_seq.items():
            yield from _judge_attempts(seq, runs)
            yield from _judge_overlaps(seq, runs, frozen)
        for met in self.meetings:
            if not any(spell.excuses((met.pid, met.other), met.at, met.at) for spell in frozen):
                fact = f"process {met.pid} began it while process {met.other} was running it"
                yield Finding("S3", fact, met.seq)

    def judge_job(self, document: Mapping[str, Any]) -> Iterator[Finding]:
        """What is wrong with a job's document, given all that ran, at a time when nothing runs."""
        yield from self.judge_attempt(document)
        yield from self.judge_result(document)

    def judge_attempt(self, document: Mapping[str, Any]) -> Iterator[Finding]:
        """No attempt ran that was never made. The record must have been read before the
        document."""
        attempt, ran = (
            document.get("attempt"),
            [run.attempt for run in self.by_seq.get(document["seq"], ())],
        )
        if max(ran, default=0) > (attempt or 0):
            yield Finding(
                "S4", f"attempt {max(ran)} ran, the document says {attempt}", document["seq"]
            )

    def judge_result(self, document: Mapping[str, Any]) -> Iterator[Finding]:
        """What is done was done by a run. The record must have been read after the document."""
        attempt, runs = document.get("attempt"), self.by_seq.get(document["seq"], ())
        is_done = document.get("state") == JobState.DONE
        if is_done and not any(run.attempt == attempt and run.ended is not None for run in runs):
            yield Finding(
                "S2", f"done at attempt {attempt}, which never ran to its end", document["seq"]
            )


def _note(line: str) -> Any:
    """The note of a line; None when it was cut short. What begins otherwise was never one."""
    text = line.strip()
    if text and not text.startswith("{"):
        raise ValueError("it does not begin like a note")
    for start in (0, text.rfind("{")):
        try:
            return json.loads(text[start:])
        except ValueError:
            continue
    return None


def _judge_attempts(seq: int, runs: list[RunRecord]) -> Iterator[Finding]:
    attempts = [run.attempt for run in runs]
    twice = sorted({attempt for attempt in attempts if attempts.count(attempt) > 1})
    if twice:
        yield Finding("S4", f"attempt {twice[0]} ran twice", seq)


def _judge_overlaps(
    seq: int, runs: list[RunRecord], frozen: Collection[Spell]
) -> Iterator[Finding]:
    for first, second in combinations(sorted(runs, key=lambda run: run.began), 2):
        if first.ended is None or second.began >= first.ended:
            continue
        until = first.ended if second.ended is None else min(first.ended, second.ended)
        if not any(spell.excuses((first.pid, second.pid), second.began, until) for spell in frozen):
            yield Finding(
                "S3", f"attempts {first.attempt} and {second.attempt} ran at the same time", seq
            )
