"""What nodes cost that have nothing to do: store calls, CPU, memory, and what they take from one
that works."""

from __future__ import annotations

import time
from collections import Counter

import psutil

from ..commands import asked_for
from ..contender import TONTINE
from ..nodes import Nodes, cpu_of, fresh_nodes, fresh_store
from ..progress import say
from ..scene import Scene

# What drivers send by themselves, and what asks for the counts.
_DRIVER = {"hello", "isMaster", "serverStatus", "endSessions", "buildInfo", "ping"}
_SETTLE_FOR = 5.0
"""A node that has just joined looks around more than one that has been there for a while."""

_THAW_FOR = 3.0
"""Frozen nodes have a little to make up for."""
_PAIRS = 3
"""Drains with and without idle nodes in each round: the difference is small, and the noise is not.
"""


def run(scene: Scene) -> None:
    plan = scene.plan
    with fresh_store(scene.uri) as store:
        base = asked_for(store, plan.idle_for, _DRIVER)
    for count in dict.fromkeys((1, plan.idle_nodes)):
        with fresh_nodes(scene.uri) as nodes:
            say(f"idle: starting {count} node{'' if count == 1 else 's'}")
            # One process each is enough to be idle; the single one has two, like everywhere else.
            nodes.bring_up(count, processes=2 if count == 1 else 1)
            time.sleep(min(_SETTLE_FOR, plan.idle_for))
            for _ in range(plan.rounds):
                _cost(scene, nodes, count, base)
            if count > 1:
                _slowing(scene, nodes, count)


def _cost(scene: Scene, nodes: Nodes, count: int, base: Counter[str]) -> None:
    cpu, began = [cpu_of(node) for node in nodes.nodes], time.monotonic()
    calls = asked_for(nodes.store, scene.plan.idle_for, _DRIVER) - base
    took = time.monotonic() - began
    used = sum(cpu_of(node) - before for node, before in zip(nodes.nodes, cpu, strict=True)) / took
    name = measure_of(count)
    add = scene.record.add
    rate = calls.total() / took / count
    add("idle", f"{name}: store calls per node", TONTINE, rate, "calls/s")
    for command, times in calls.most_common():
        add("idle", f"{name}: {command} per node", TONTINE, times / took / count, "calls/s")
    add("idle", f"{name}: CPU per node", TONTINE, 100 * used / count, "% of a core")
    add("idle", f"{name}: memory of a node's master", TONTINE, _mean_memory(nodes.masters()), "MB")
    add("idle", f"{name}: memory of a worker", TONTINE, _mean_memory(nodes.workers()), "MB")
    say(f"idle, {name}: {rate:.2f} calls/s and {100 * used / count:.2f} % of a core per node")


def measure_of(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _mean_memory(processes: list[psutil.Process]) -> float:
    """What each has for itself: shared libraries are not counted once for every node."""
    return sum(process.memory_full_info().uss for process in processes) / len(processes) / 1024**2


def _slowing(scene: Scene, nodes: Nodes, count: int) -> None:
    """What a drain loses to idle nodes: in a database of its own, because in theirs they would
    share the work."""
    for _ in range(_PAIRS * scene.plan.rounds):
        with nodes.frozen():
            _drain(scene, "drain alone")
        time.sleep(min(_THAW_FOR, scene.plan.idle_for))
        _drain(scene, f"drain beside {count} idle nodes")


def _drain(scene: Scene, what: str) -> None:
    rate = scene.tontine.drain(scene.plan.slowed).drained
    say(f"idle, {what}: {rate:,.0f} jobs/s")
    scene.record.add("idle", what, TONTINE, rate, "jobs/s")
