"""What the shell completes from the store: nodes and tasks. It asks briefly, starts nothing and never complains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import click

from ..config import StoreConfig
from ..legible import legible

WITHIN = 1.0


def complete_nodes(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The names of live nodes, without those already on the line."""
    named = context.params.get("nodes") or ()
    return _matching((str(node.get("name", "")) for node in _live_nodes(context)), incomplete, named)


def complete_tasks(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The tasks that live nodes have."""
    from ..store.look import tasks_of

    return _matching(tasks_of(_live_nodes(context)), incomplete, ())


def _matching(names: Iterable[str], incomplete: str, without: Iterable[str]) -> list[str]:
    left = set(names) - set(without)
    return sorted(name for name in left if name.startswith(incomplete) and name == legible(name))


def _live_nodes(context: click.Context) -> Iterator[dict[str, Any]]:
    # A shell that completes must stay silent whatever happens: no completion is the only complaint it understands.
    with suppress(Exception):
        yield from _read(StoreConfig.of(context.params.get("uri"), context.params.get("database")))


def _read(config: StoreConfig) -> list[dict[str, Any]]:
    from .. import embedded
    from ..store.connect import open_store
    from ..store.look import hurried, read_nodes

    if config.uri is None:
        running = embedded.status()
        if running is None:
            return []
        config = StoreConfig(running.uri, config.database)
    store = open_store(config)
    try:
        return store.run(hurried(read_nodes(dead=False), WITHIN))
    finally:
        store.database.client.close()
