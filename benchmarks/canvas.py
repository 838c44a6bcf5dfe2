"""Celery's canvas as a contender: `chain` and `chord`, with early and with late acknowledgement."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .peers.wire import STAMPS
from .rivals import Rival, Workers
from .workflows import Shape

_AS_IT_COMES = 3600
"""Seconds of Celery's visibility timeout on Redis."""


class Canvas:
    """Celery's workers and their workflows. With `late` a message is acknowledged after its run,
    and given again when it was not for so many seconds."""

    def __init__(self, celery: Rival, late: int | None = None) -> None:
        self.name = celery.name
        self._celery = celery
        self._settings = {} if late is None else {"BENCH_LATE": str(late)}
        if late is not None:
            self.name += ", acks_late" + (f", {late} s" if late != _AS_IT_COMES else "")

    @classmethod
    def usual(cls, rivals: list[Rival]) -> list[Canvas]:
        """As it comes, and with late acknowledgement."""
        return [cls(one, late) for one in _celeries(rivals) for late in (None, _AS_IT_COMES)]

    @classmethod
    def hasty(cls, rivals: list[Rival]) -> list[Canvas]:
        """With as short a visibility timeout as tasks of a few seconds allow."""
        return [cls(one, 15) for one in _celeries(rivals)]

    @contextmanager
    def stage(self) -> Iterator[_Stage]:
        with self._celery.stage() as traces, ExitStack() as stack:
            stage = _Stage(self._celery, self._settings, traces, stack)
            self._celery.ask(traces, "latency", 2)
            (traces / STAMPS).unlink()
            yield stage


class _Stage:
    def __init__(
        self, celery: Rival, settings: dict[str, str], traces: Path, stack: ExitStack
    ) -> None:
        self.traces = traces
        self._celery = celery
        self._settings = settings
        self._stack = stack
        self._workers = self._start()

    def submit(self, shape: Shape, jobs: int, seconds: float) -> None:
        self._celery.ask(self.traces, shape, jobs, seconds)

    def check(self) -> None:
        self._workers.check()

    def replace(self) -> None:
        os.killpg(self._workers.process.pid, signal.SIGKILL)
        self._workers = self._start()

    def _start(self) -> Workers:
        return self._stack.enter_context(self._celery.working(self.traces, self._settings))


def _celeries(rivals: list[Rival]) -> list[Rival]:
    return [rival for rival in rivals if rival.name == "Celery"]
