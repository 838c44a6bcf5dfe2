"""What bench measures, one function each. The store operations are the ones that clients and nodes
use."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import quantiles

import bson

from ...client import Client
from ...errors import TontineError
from ...store import claim, fresh, insert, settle
from ...store.call import Store
from ...store.insert import Wish
from ...testing.cluster import Cluster
from ..progress import Meter
from . import scratch

NOOP, ECHO = TASKS = ("bench.noop", "bench.echo")
SUBMITS = 200
_BATCH = 500
_LOOK_EVERY = 0.05
_PATIENCE = 60.0
_BARE = "bench"
_NOTHING = bson.encode({"r": None, "ms": bson.Int64(0)})


@dataclass(frozen=True, slots=True)
class Backlog:
    """Jobs that wait, and how fast they were submitted."""

    first: int
    last: int
    rate: float

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Drained:
    """How fast nodes worked a backlog off; `calls` is operations of the server per job, if it
    tells."""

    rate: float
    calls: float | None


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from just before a submit to the start of the task."""

    p50: float
    p95: float
    p99: float


def submit(store: Store, jobs: int) -> Backlog:
    """Submit a backlog, as `submit_many` does it."""
    with Meter("submitting", jobs) as meter:
        began = time.perf_counter()
        submitted = store.run(insert.submit_many(Wish(NOOP), [None] * jobs, progress=meter.reach))
        took = time.perf_counter() - began
    seqs = [job.seq for job in submitted]
    if seqs[-1] - seqs[0] + 1 != jobs:
        raise TontineError(
            "somebody else submits jobs to this database: nothing can be measured like this"
        )
    return Backlog(seqs[0], seqs[-1], jobs / took)


def run_bare(store: Store, backlog: Backlog) -> float:
    """Find, claim and settle a backlog in this process, with nothing between; jobs a second.

    No node may run meanwhile: it would take these claims for those of a node that is gone, and give
    them back.
    """
    with Meter("bare loop", backlog.count) as meter:
        began = time.perf_counter()
        for start in range(backlog.first, backlog.last + 1, _BATCH):
            found = store.run(
                fresh.find_fresh(range(start, min(start + _BATCH, backlog.last + 1)), [NOOP])
            )
            ours = store.run(claim.claim(_BARE, [int(job["seq"]) for job in found], 0))
            settled = store.run(settle.settle_done(_BARE, 1, dict.fromkeys(ours, _NOTHING)))
            if settled.dropped:
                raise TontineError("a node runs in this database: the bare loop cannot be measured")
            meter.reach(start - backlog.first)
        took = time.perf_counter() - began
    if (
        settled_in_all := store.run(scratch.read_flow(backlog.first, backlog.last)).settled
    ) != backlog.count:
        raise TontineError(f"the bare loop settled {settled_in_all:,} of {backlog.count:,} jobs")
    return backlog.count / took


def drain(store: Store, hands: Cluster, backlog: Backlog) -> Drained:
    """Let the paused nodes work a backlog off."""
    before = store.run(scratch.count_calls())
    began = time.perf_counter()
    hands.resume()
    looks = _wait(store, hands, backlog)
    took = time.perf_counter() - began
    after = store.run(scratch.count_calls())
    flow = store.run(scratch.read_flow(backlog.first, backlog.last))
    if flow.settled != backlog.count:
        raise TontineError(
            f"only {flow.settled:,} of {backlog.count:,} jobs are done: the nodes' logs may say why"
        )
    calls = None if before is None or after is None else (after - before - looks) / backlog.count
    return Drained(_rate(flow, took), calls)


def _rate(flow: scratch.Throughput, took: float) -> float:
    """Jobs a second by server times; the first settlement starts the watch, so its own jobs do not
    count.

    A backlog so small that one settlement ends it is judged by this process's watch, which includes
    the resuming.
    """
    if flow.first is not None and flow.last is not None and flow.last > flow.first:
        return (flow.settled - flow.at_first) / (flow.last - flow.first).total_seconds()
    return flow.settled / took


def _wait(store: Store, hands: Cluster, backlog: Backlog) -> int:
    """Wait until no job is queued or held; how many calls that took."""
    looks, reached, moved_at = 0, backlog.first, time.monotonic()
    with Meter("draining", backlog.count) as meter:
        while True:
            lowest = store.run(fresh.lowest_fresh([NOOP], backlog.first))
            looks += 1
            if lowest is None:
                looks += 1
                if not store.run(scratch.is_held()):
                    return looks
            now = backlog.last if lowest is None else lowest
            if now != reached:
                reached, moved_at = now, time.monotonic()
            hands.check()
            if time.monotonic() - moved_at > _PATIENCE:
                raise TontineError(
                    f"the nodes have not got on for {_PATIENCE:g} s: something is wrong with them"
                )
            meter.reach(reached - backlog.first)
            time.sleep(_LOOK_EVERY)


def latency(store: Store, hands: Cluster) -> Latency:
    """Percentiles of `probe`."""
    percentiles = quantiles(probe(store, hands, SUBMITS), n=100, method="inclusive")
    return Latency(percentiles[49], percentiles[94], percentiles[98])


def probe(store: Store, hands: Cluster, submits: int) -> list[float]:
    """Submit single jobs, each after the one before has ended; milliseconds from each submit to its
    start."""
    client = Client(store.database)
    passed: list[float] = []
    with Meter("single submits", submits) as meter:
        for number in range(submits):
            job = client.submit(ECHO, {"sent": time.time()})
            ended = client.wait(job, timeout=_PATIENCE)
            if not isinstance(ended.result, dict):
                raise TontineError(f"job {job.seq} failed: {ended.error}")
            passed.append((ended.result["started"] - ended.result["sent"]) * 1000)
            hands.check()
            meter.reach(number + 1)
    return passed
