"""Jobs of very unequal length on two nodes with four slots: the time for all of them against the
ideal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tontine import Client
from tontine.errors import TontineError

from ..nodes import fresh_nodes
from ..progress import say
from ..scene import Scene

SLOTS = 4
_NODES = 2


def uneven(seq: int) -> float:
    """Every 20th job takes a second, the others 20 ms."""
    return 1.0 if seq % 20 == 0 else 0.02


def one_sided(seq: int) -> float:
    """All heavy jobs fall to one of two nodes."""
    return 0.2 if seq % 2 == 0 else 0.02


CASES: dict[str, Callable[[int], float]] = {
    "every 20th heavy": uneven,
    "heavy on even seqs": one_sided,
}


def run(scene: Scene) -> None:
    for number in range(scene.plan.rounds):
        for name, length in CASES.items():
            ratio = _once(scene.uri, scene.plan.skew_jobs, length)
            say(f"skew, {name}, round {number + 1} of {scene.plan.rounds}: {ratio:.2f} times ideal")
            scene.record.add("skew", name, "Tontine", ratio, "times ideal")


def _once(uri: str, jobs: int, length: Callable[[int], float]) -> float:
    with fresh_nodes(uri) as nodes:
        nodes.bring_up(_NODES, modules=("benchmarks.tasks",), processes=SLOTS // _NODES)
        client = Client(nodes.store.database)
        # A fresh database numbers from 1, which decides who is heavy.
        batch = client.submit_many(
            "nap.sleep", [{"seconds": length(seq)} for seq in range(1, jobs + 1)]
        )
        client.wait(batch, timeout=600)
        ended = list(nodes.store.database.jobs.find({"state": "done"}))
    if len(ended) != jobs or any(job["args"]["seconds"] != length(job["seq"]) for job in ended):
        raise TontineError(
            f"{len(ended)} of {jobs} jobs are done, or their numbers are not those expected"
        )
    ideal = sum(length(seq) for seq in range(1, jobs + 1)) / SLOTS
    return _makespan(ended) / ideal


def _makespan(jobs: list[dict[str, Any]]) -> float:
    """By server times, from the first start to the last settlement."""
    first, last = min(job["started_at"] for job in jobs), max(job["finished_at"] for job in jobs)
    seconds: float = (last - first).total_seconds()
    return seconds
