"""A word about a task that no live node has, for whoever has just named it."""

from __future__ import annotations

from ..errors import StoreError
from ..legible import legible
from ..lookalike import near_tasks
from ..records.node import Sighting
from ..records.task_key import name_of
from ..rules.health import known_tasks
from ..store import read
from ..store.call import Store
from .output import note


def told_unknown(store: Store, task: str) -> str | None:
    """That no live node has this task, and which may have been meant; None where one has it, or
    nobody can tell.

    A producer may not be able to see the nodes, and what it came for is done already.
    """
    try:
        nodes = store.run(read.read_nodes(dead=False))
    except StoreError:
        return None
    live = [Sighting.from_document(node) for node in nodes]
    known = known_tasks(live)
    if name_of(task) in known:
        return None  # whether in a version inside its range, `why` tells
    near = " or ".join(legible(one, 100) for one in near_tasks(name_of(task), known))
    return f"no live node has the task {legible(task, 100)}{f' (is {near} meant?)' if near else ''}"


def warn_of_unknown(store: Store, task: str) -> None:
    """Say on stderr that jobs of this task will wait."""
    if told := told_unknown(store, task):
        note(f"{told}: its jobs will wait for one that does")
