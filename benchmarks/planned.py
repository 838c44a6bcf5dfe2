"""Tontine's plans as a contender, and its plain jobs beside them."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tontine import Client, Plan, Step
from tontine.errors import TontineError

from .contender import TONTINE
from .nodes import PROCESSES, Nodes, fresh_nodes
from .peers.wire import STAMPS
from .workflows import Shape

_ITEM = "flow.item"
_PATIENCE = 300.0


class Plans:
    """One node with two worker processes; a new one on a new database for every measurement."""

    name = TONTINE

    def __init__(self, uri: str) -> None:
        self._uri = uri

    @contextmanager
    def stage(self) -> Iterator[_Stage]:
        with (
            tempfile.TemporaryDirectory(prefix="tontine-bench-") as traces,
            fresh_nodes(self._uri) as nodes,
        ):
            yield _Stage(nodes, Path(traces))

    def items(self, count: int) -> float:
        """Items a second of a mapped step, whose jobs all wait when the paused node is let go."""
        with self.stage() as stage:
            stage.pause()
            stage.submit("chord", count, 0)
            return stage.drained(count)

    def plain(self, count: int) -> float:
        """The same jobs without a plan."""
        with self.stage() as stage:
            stage.pause()
            stage.client.submit_many(_ITEM, [{"n": n, "seconds": 0} for n in range(count)])
            return stage.drained(count)


class _Stage:
    def __init__(self, nodes: Nodes, traces: Path) -> None:
        self.traces = traces
        self.client = Client(nodes.store.database)
        self._nodes = nodes
        self._start()
        nodes.wait_until_ready()
        for _ in range(PROCESSES):
            args = {"sent": time.time(), "traces": os.fspath(traces)}
            self.client.wait(self.client.submit("nap.ping", args), timeout=_PATIENCE)
        (traces / STAMPS).unlink()

    def submit(self, shape: Shape, jobs: int, seconds: float) -> None:
        self.client.submit_plan((_chain if shape == "chain" else _chord)(jobs, seconds))

    def check(self) -> None:
        self._nodes.check()

    def replace(self) -> None:
        self._nodes.nodes.pop().signal_all(signal.SIGKILL)
        self._start()

    def pause(self) -> None:
        """Pause the node; another one, without the tasks, does meanwhile what any node can."""
        self._nodes.pause()
        self._nodes.launch("tontine.bench_tasks", options=("--processes", "1"))
        self._nodes.wait_until_ready()

    def drained(self, count: int) -> float:
        """Jobs a second from the first settlement to the last, without the jobs of the first."""
        jobs = self._nodes.store.database.jobs
        self._await(lambda: jobs.count_documents({"task": _ITEM}) == count)
        self._nodes.resume()
        self._await(lambda: jobs.find_one({"task": _ITEM, "state": {"$ne": "done"}}) is None)
        by_time: list[dict[str, Any]] = [
            {"$match": {"task": _ITEM}},
            {"$group": {"_id": "$finished_at", "jobs": {"$sum": 1}}},
            {"$sort": {"_id": 1}},
        ]
        first, *_, last = jobs.aggregate(by_time)
        took: float = (last["_id"] - first["_id"]).total_seconds()
        return (count - int(first["jobs"])) / took

    def _start(self) -> None:
        self._nodes.launch(
            "benchmarks.tasks",
            options=("--processes", str(PROCESSES)),
            environment={"BENCH_TRACES": os.fspath(self.traces)},
        )

    def _await(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE
        while not is_so():
            self.check()
            if time.monotonic() > until:
                raise TontineError(f"this has not come to its end within {_PATIENCE:g} s")
            time.sleep(0.2)


def _chain(links: int, seconds: float) -> Plan:
    plan = Plan("chain")
    sent: Step | float = time.time()
    for number in range(links):
        args = {"sent": sent, "seconds": seconds}
        sent = plan.step("flow.link", args, name=f"link-{number}")
    return plan


def _chord(items: int, seconds: float) -> Plan:
    plan = Plan("chord")
    all_of_them = plan.map(_ITEM, range(items), {"seconds": seconds}, as_="n")
    plan.step("flow.gather", {"results": all_of_them.stream(), "sent": time.time()})
    return plan
