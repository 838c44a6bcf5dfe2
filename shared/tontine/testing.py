"""Testing help for applications: run a task inline with a job around it, or real jobs on a real node until all ended.

A pytest fixture, `tontine_queue`, comes with the package.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import Any

from .client import Client
from .config import DEFAULT_DATABASE
from .current import CurrentJob, enter
from .errors import JobNotFinished, TontineError
from .job import Job
from .offspring import recorded
from .store.call import Store
from .store.look import count_unfinished

SOON = 5.0


@dataclass(slots=True)
class Run:
    """What came of a task that was run inline."""

    result: Any = None
    progress: list[tuple[float, str]] = field(default_factory=list)
    submitted: list[Job] = field(default_factory=list)
    """What it submitted with `current_job().submit(...)`."""


def run_task(
    function: Callable[..., Any], *, seq: int = 1, attempt: int = 1, cancelled: bool = False, **args: Any
) -> Run:
    """Call a sync or async task as a worker would, with `current_job()` at hand; what it raises is raised.

    `attempt` and `cancelled` are what the task will see of its job.
    """
    run = Run()
    job = CurrentJob(
        seq,
        seq,
        function.__name__,
        attempt,
        lambda _, value, note: run.progress.append((value, note)),
        submit=recorded(run.submitted),
    )
    if cancelled:
        job.mark_cancelled()

    def call() -> Any:
        enter(job)
        if inspect.iscoroutinefunction(function):
            return asyncio.run(function(**args))
        return function(**args)

    run.result = copy_context().run(call)
    return run


@dataclass(frozen=True, slots=True)
class Queue:
    """A database of one's own, and a node on demand."""

    uri: str = field(repr=False)
    database: str = DEFAULT_DATABASE

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """A client of this queue."""
        with Client(self.uri, database=self.database) as client:
            yield client

    def run_until_idle(self, *modules: str, timeout: float = 60.0, soon: float = SOON) -> None:
        """Run a real node with these modules until no job is unfinished, then stop it.

        Jobs that are due later than `soon` seconds from now are left in the queue.
        """
        with Client(self.uri, database=self.database) as client, self._node(modules) as node:
            until = time.monotonic() + timeout
            while left := _unfinished(client, soon):
                node.check()
                if time.monotonic() > until:
                    raise JobNotFinished(f"{left} jobs had not ended after {timeout:g} s")
                time.sleep(0.05)

    @contextlib.contextmanager
    def _node(self, modules: tuple[str, ...]) -> Iterator[_Node]:
        command = [sys.executable, "-m", "tontine", "node", *modules, "--lease", "5s"]
        # Not among the arguments, which every user of the machine can read.
        environment = os.environ | {"TONTINE_URI": self.uri, "TONTINE_DATABASE": self.database}
        with TemporaryFile() as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
            node = _Node(process, log)
            try:
                yield node
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()


@dataclass(frozen=True, slots=True)
class _Node:
    process: subprocess.Popen[bytes]
    log: Any

    def check(self) -> None:
        """A node that ended by itself says why."""
        if self.process.poll() is not None:
            self.log.seek(0)
            lines = self.log.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise TontineError(f"the node ended: {lines[-1]}")


def _unfinished(client: Client, soon: float) -> int:
    store: Store = client._store
    return store.run(count_unfinished(soon))
