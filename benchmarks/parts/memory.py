"""Whether a node grows with the jobs it has done: its memory after a few and after very many."""

from __future__ import annotations

import time

from tontine.cli.bench import measure

from ..contender import TONTINE
from ..nodes import Nodes, fresh_nodes
from ..progress import say
from ..scene import Scene

_AT_ONCE = 100_000
_REST = 2.0


def run(scene: Scene) -> None:
    few, many = scene.plan.memory
    with fresh_nodes(scene.uri) as nodes:
        nodes.bring_up()
        _drain(nodes, few)
        _note(scene, nodes, few)
        for start in range(few, many, _AT_ONCE):
            _drain(nodes, min(_AT_ONCE, many - start))
            say(f"memory: {min(start + _AT_ONCE, many):,} of {many:,} jobs done")
        _note(scene, nodes, many)


def _drain(nodes: Nodes, jobs: int) -> None:
    nodes.pause()
    measure.drain(nodes.store, nodes, measure.submit(nodes.store, jobs))


def measure_of(jobs: int) -> str:
    return f"after {jobs:,} jobs"


def _note(scene: Scene, nodes: Nodes, jobs: int) -> None:
    time.sleep(_REST)  # what the last batches took is given back
    for what, processes in (("master", nodes.masters()), ("worker", nodes.workers())):
        used = max(process.memory_info().rss for process in processes) / 1024**2
        scene.record.add("memory", f"{what} {measure_of(jobs)}", TONTINE, used, "MB")
        say(f"memory of a {what} {measure_of(jobs)}: {used:.1f} MB")
