"""Waiting for submitted jobs: any number of them, in bounded memory and with a bounded load on the
store."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from ..legible import count, duration, legible
from ..records.job import Job
from ..records.states import FINAL, OPEN, JobState
from ..store import read
from ..store.call import Store
from .output import console, json_text, note, write_json
from .progress import Meter
from .unknown import told_unknown

PIECE = 2000
PIECES_AT_ONCE = 10
ERRORS_SHOWN = 5
_PAUSE_AT_LEAST, _PAUSE_AT_MOST = 0.02, 1.0
_LOOK_FOR_NODES_EVERY = 2.0
_ENDS = [state.value for state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)]
_UNHAPPY = [JobState.FAILED.value, JobState.CANCELLED.value]


@dataclass(slots=True)
class Awaited:
    """What was submitted: the ranges of its numbers, and the job itself when it is one."""

    task: str
    size: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)
    first: Job | None = None

    def add(self, jobs: Sequence[Job]) -> None:
        self.first = self.first or jobs[0]
        self.size += len(jobs)
        for job in jobs:
            if self.ranges and self.ranges[-1][1] == job.seq - 1:
                self.ranges[-1] = (self.ranges[-1][0], job.seq)
            else:
                self.ranges.append((job.seq, job.seq))

    def headline(self) -> str:
        if self.first is not None and self.first.existed:
            return f"job {self.first.seq} has this key already"
        if self.size == 1 and self.first is not None:
            return f"submitted job {self.first.seq}"
        return f"submitted jobs {self.ranges[0][0]} to {self.ranges[-1][1]} ({self.size})"


class Outcomes:
    """How many jobs of some ranges have ended. Looks at pieces in turns, and never again at one
    that has."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self._open: deque[tuple[int, int]] = deque(_pieces(ranges))
        self._partly: dict[tuple[int, int], int] = {}
        self.ended: Counter[str] = Counter()
        self.gone = 0

    @property
    def is_complete(self) -> bool:
        return not self._open

    @property
    def reached(self) -> int:
        """Jobs known to have ended, as far as each piece was last looked at."""
        return self.ended.total() + self.gone + sum(self._partly.values())

    def next_pieces(self) -> list[tuple[int, int]]:
        """What to look at now; each goes back in the line unless it turns out to have ended."""
        return [self._open.popleft() for _ in range(min(PIECES_AT_ONCE, len(self._open)))]

    def learn(self, piece: tuple[int, int], counts: Mapping[str, int]) -> None:
        ended = {state: counts.get(state, 0) for state in _ENDS}
        if any(counts.get(state.value) for state in OPEN):
            self._open.append(piece)
            self._partly[piece] = sum(ended.values())
            return
        self._partly.pop(piece, None)
        self.ended.update(ended)
        self.gone += piece[1] - piece[0] + 1 - sum(ended.values())  # removed before we looked


def _pieces(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for first, last in ranges:
        for start in range(first, last + 1, PIECE):
            yield start, min(start + PIECE - 1, last)


class _Hint:
    """Says once that nobody can run the task, if that is why nothing happens."""

    def __init__(self, store: Store, task: str) -> None:
        self._store = store
        self._task = task
        self._look_at = time.monotonic() + _LOOK_FOR_NODES_EVERY / 2

    def look(self, meter: Meter) -> None:
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_FOR_NODES_EVERY
        if told := told_unknown(self._store, self._task):
            meter.say(f"{told}: it stays queued until one does")
            self._look_at = float("inf")


def wait(store: Store, batch: Awaited, *, as_json: bool) -> int:
    """Wait until all of the batch have ended and show how; the exit code."""
    try:
        if batch.size == 1 and batch.first is not None:
            return _wait_for_one(store, batch.first, as_json=as_json)
        return _wait_for_many(store, batch, as_json=as_json)
    except KeyboardInterrupt:
        note("no longer waiting: what was submitted stays in the queue")
        raise


def _wait_for_one(store: Store, job: Job, *, as_json: bool) -> int:
    hint, pause = _Hint(store, job.task), _PAUSE_AT_LEAST
    with Meter(f"job {job.seq}", 1) as meter:
        while True:
            document = store.run(read.read_by_id(job.id))
            if document is None or document.get("state") in FINAL:
                break
            progress = document.get("progress")
            if isinstance(progress, Mapping) and isinstance(
                value := progress.get("value"), int | float
            ):
                meter.reach(value, str(progress.get("note") or ""))
            elif document.get("state") != JobState.WORKING:
                hint.look(meter)
            time.sleep(pause)
            pause = min(pause * 1.3, 0.25)
    return _show_one(job, document, as_json=as_json)


def _show_one(job: Job, document: Mapping[str, Any] | None, *, as_json: bool) -> int:
    if document is None:
        note(f"job {job.seq} was removed before it was seen to end")
        return 1
    if as_json:
        write_json(document)
    elif document["state"] != JobState.DONE:
        note(_how(document))
    else:
        console().print(json_text(document.get("result"), indent=True))
    return int(document["state"] != JobState.DONE)


def _wait_for_many(store: Store, batch: Awaited, *, as_json: bool) -> int:
    began = time.monotonic()
    tally, hint, pause = Outcomes(batch.ranges), _Hint(store, batch.task), _PAUSE_AT_LEAST
    with Meter("running", batch.size) as meter:
        while not tally.is_complete:
            before, asked = tally.reached, time.monotonic()
            pieces = tally.next_pieces()
            for first, last in pieces:
                tally.learn((first, last), store.run(read.count_between(first, last)))
            meter.reach(tally.reached)
            if tally.reached - before < PIECE * len(pieces) and not tally.is_complete:
                # Looking takes a fifth of the time at most, and less and less of it while nothing
                # happens.
                pause = pause * 1.5 if tally.reached == before else _PAUSE_AT_LEAST
                pause = min(max(pause, 4 * (time.monotonic() - asked)), _PAUSE_AT_MOST)
                time.sleep(pause)
            if tally.reached == before:
                hint.look(meter)
    if as_json:
        _write_all(store, batch)
    else:
        _show_many(store, batch, tally, time.monotonic() - began)
    return int(any(tally.ended[state] for state in _UNHAPPY))


def _write_all(store: Store, batch: Awaited) -> None:
    for first, last in _pieces(batch.ranges):
        for start in range(first, last + 1, 100):  # results may be large
            for document in store.run(read.read_ended(start, min(start + 99, last), 100)):
                write_json(document)


def _show_many(store: Store, batch: Awaited, tally: Outcomes, took: float) -> None:
    parts = [f"{tally.ended[state]:,} {state}" for state in _ENDS if tally.ended[state]]
    parts += [f"{tally.gone:,} removed meanwhile"] if tally.gone else []
    click.echo(f"{count(batch.size, 'job')} ended in {duration(took)}: {', '.join(parts)}")
    left = ERRORS_SHOWN
    for first, last in batch.ranges if any(tally.ended[state] for state in _UNHAPPY) else ():
        for document in store.run(read.read_ended(first, last, left, _UNHAPPY)):
            note(_how(document))
            left -= 1
        if not left:
            note("... `tontine jobs --state failed` lists more")
            return


def _how(document: Mapping[str, Any]) -> str:
    error = document.get("error")
    why = f": {error.get('type')}: {error.get('message')}" if isinstance(error, Mapping) else ""
    return legible(f"job {document.get('seq')} {document['state']}{why}", 500)
