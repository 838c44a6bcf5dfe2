"""Jobs with an order between them: what is measured of them, whoever runs them, by the traces that
their tasks leave.

A chain is links, each with what the one before returned; a chord is items, and one step that takes
all their results.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tontine.errors import TontineError

from .peers.wire import STAMPS, tallies

_PATIENCE = 120.0
_LOOK_EVERY = 0.05

Shape = Literal["chain", "chord"]


class Stage(Protocol):
    """Workers that have run a job and wait for the first workflow of an empty store."""

    traces: Path

    def submit(self, shape: Shape, jobs: int, seconds: float) -> None:
        """A chain or a chord of so many jobs that take so many seconds each."""

    def check(self) -> None:
        """Raise if the workers have ended."""

    def replace(self) -> None:
        """Kill all workers with -9, and start others at once."""


class Workflows(Protocol):
    """Somebody who has chains and chords."""

    name: str

    def stage(self) -> AbstractContextManager[Stage]: ...


@dataclass(frozen=True, slots=True)
class Chained:
    """A chain that ended: links a second in all, and milliseconds from the end of each link to the
    start of the next."""

    rate: float
    gaps: list[float]


@dataclass(frozen=True, slots=True)
class Survived:
    """What became of a workflow whose workers were killed in its middle."""

    again: int
    """Its runs less its jobs: how many of these ran a second time."""
    ended_after: float | None
    """Seconds from the kill to its last step; None if that did not come while somebody watched."""


def chain(contender: Workflows, links: int) -> Chained:
    with contender.stage() as stage:
        stage.submit("chain", links, 0)
        _await(stage, links)
        found = _stamps(stage)
    rate = links / (found[-1][1] - found[0][0])
    return Chained(rate, [(started - sent) * 1000 for sent, started in found[1:]])


def chord(contender: Workflows, items: int) -> float:
    """Items a second, from just before its submit until the step after all has their results."""
    with contender.stage() as stage:
        stage.submit("chord", items, 0)
        _await(stage, 1)
        ((sent, started),) = _stamps(stage)
    return items / (started - sent)


def lose(contender: Workflows, shape: Shape, jobs: int, seconds: float, watch: float) -> Survived:
    """Kill all workers when half of the jobs have begun, and see what becomes of the workflow."""
    steps = jobs if shape == "chain" else 1
    with contender.stage() as stage:
        stage.submit(shape, jobs, seconds)
        if not _comes(lambda: _runs(stage) >= jobs // 2, _PATIENCE):
            raise TontineError(f"only {_runs(stage)} of {jobs} jobs ran before the kill")
        stage.replace()
        killed_at = time.monotonic()
        is_over = _comes(lambda: _begun(stage) >= steps, watch)
        after = time.monotonic() - killed_at
        return Survived(_runs(stage) - jobs, after if is_over else None)


def _comes(is_so: Callable[[], bool], within: float) -> bool:
    until = time.monotonic() + within
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_EVERY)
    return True


def _await(stage: Stage, steps: int) -> None:
    """Wait until so many steps have begun; as long as anything moves."""
    seen, moved_at = (0, 0), time.monotonic()
    while _begun(stage) < steps:
        stage.check()
        now = (_begun(stage), _runs(stage))
        if now != seen:
            seen, moved_at = now, time.monotonic()
        if time.monotonic() - moved_at > _PATIENCE:
            raise TontineError(f"nothing has moved for {_PATIENCE:g} s at {seen}")
        time.sleep(_LOOK_EVERY)


def _stamps(stage: Stage) -> list[tuple[float, float]]:
    """What `wire.stamp` has left: when the step before ended, and when this one started."""
    path = stage.traces / STAMPS
    lines = path.read_text().splitlines() if path.exists() else []
    return [(float(sent), float(started)) for sent, started in map(str.split, lines)]


def _begun(stage: Stage) -> int:
    """How many steps have started; one that started twice was sent what it was sent before."""
    return len({sent for sent, _ in _stamps(stage)})


def _runs(stage: Stage) -> int:
    return sum(runs for runs, _, _ in tallies(stage.traces))
