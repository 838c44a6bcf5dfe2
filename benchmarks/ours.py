"""Tontine as its users run it, and the bare loop of its store calls, which it cannot beat by
much."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tontine import Client
from tontine.cli.bench import measure
from tontine.errors import TontineError
from tontine.store.call import Store

from . import hearing
from .contender import BARE, TONTINE, Drained
from .nodes import Nodes, fresh_nodes, fresh_store
from .peers import wire


class Tontine:
    """One node with two worker processes; a new one on a new database for every measurement."""

    name = TONTINE
    is_slow = False

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def drain(self, jobs: int) -> Drained:
        """The node is there and paused while the backlog comes in; timed by settlements."""
        with fresh_nodes(self._uri) as nodes:
            nodes.bring_up()
            nodes.pause()
            backlog = measure.submit(nodes.store, jobs)
            drained = measure.drain(nodes.store, nodes, backlog)
            return Drained(backlog.rate, drained.rate, drained.calls)

    def submit(self, jobs: int) -> float:
        with fresh_store(self._uri) as store:
            client = Client(store.database)
            client.submit(measure.NOOP)
            began = time.perf_counter()
            for _ in range(jobs):
                client.submit(measure.NOOP)
            return jobs / (time.perf_counter() - began)

    def latency(self, probes: int, warm_up: int) -> list[float]:
        with fresh_nodes(self._uri) as nodes:
            nodes.bring_up(modules=("benchmarks.tasks",))
            return ping(nodes, warm_up + probes)[warm_up:]


def ping(nodes: Nodes, count: int) -> list[float]:
    """Milliseconds from submit to start, measured as the peers' are."""
    with tempfile.TemporaryDirectory(prefix="tontine-bench-") as traces:
        return _probe(nodes.store, count, traces)


def _probe(store: Store, count: int, traces: str) -> list[float]:
    client = Client(store.database)
    return wire.probe(
        count,
        lambda sent: client.submit(hearing.TASK, {"sent": sent, "traces": traces}),
        Path(traces),
    )


class Bare:
    """Find, claim and settle 500 jobs at a time in one process over one connection: no workers, the
    same indexes.

    Or, for a single job: hear of it and claim it.
    """

    name = BARE
    is_slow = False

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def drain(self, jobs: int) -> Drained:
        with fresh_store(self._uri) as store:
            backlog = measure.submit(store, jobs)
            return Drained(backlog.rate, measure.run_bare(store, backlog))

    def latency(self, probes: int, warm_up: int) -> list[float]:
        """Until somebody who only hears and claims has claimed the job; nobody runs it."""
        with (
            fresh_store(self._uri) as store,
            tempfile.TemporaryDirectory(prefix="tontine-bench-") as traces,
        ):
            command = [
                sys.executable,
                "-m",
                "benchmarks.hearing",
                self._uri,
                store.database.name,
                traces,
            ]
            hearer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                assert hearer.stdout is not None
                if hearer.stdout.readline().strip() != hearing.READY:
                    raise TontineError("the process that hears and claims did not start")
                return _probe(store, warm_up + probes, traces)[warm_up:]
            finally:
                hearer.terminate()
                hearer.communicate()
