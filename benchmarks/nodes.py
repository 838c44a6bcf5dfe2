"""`tontine node` processes on a database of their own, with what a part needs to know of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil

from tontine.cli.demo.crew import SETTINGS_ASIDE
from tontine.config import StoreConfig
from tontine.store import schema
from tontine.store.call import Store
from tontine.store.connect import open_store
from tontine.testing import Cluster, NodeProcess

PROCESSES = 2
_JOIN_WITHIN = 300.0
_AT_ONCE = 4


class Nodes(Cluster):
    """The nodes of one measurement."""

    def __init__(self, uri: str, store: Store, directory: Path) -> None:
        super().__init__(
            uri,
            store.database.name,
            directory=directory,
            options=("--grace", "5s"),
            environment=SETTINGS_ASIDE,
            store=store,
        )
        self.store = store

    def bring_up(
        self,
        count: int = 1,
        *,
        modules: Sequence[str] = ("tontine.bench_tasks",),
        processes: int = PROCESSES,
    ) -> None:
        """Start nodes, a few at a time, and wait until they own their shares."""
        for number in range(count):
            self.launch(*modules, options=("--processes", str(processes)))
            if number % _AT_ONCE == _AT_ONCE - 1 or number == count - 1:
                self.wait_until_ready(_JOIN_WITHIN)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """As if they were not there; for less than a lease, or they would have much to put right
        afterwards."""
        processes = [*self.masters(), *self.workers()]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def masters(self) -> list[psutil.Process]:
        return [psutil.Process(node.process.pid) for node in self.nodes]

    def workers(self) -> list[psutil.Process]:
        return [worker for node in self.nodes for worker in node.workers()]


def cpu_of(node: NodeProcess) -> float:
    """Seconds of CPU that a node, its workers included, has taken so far."""
    master = psutil.Process(node.process.pid)
    times = [process.cpu_times() for process in (master, *master.children(recursive=True))]
    return sum(one.user + one.system for one in times)


@contextmanager
def fresh_store(uri: str) -> Iterator[Store]:
    """An initialized database, dropped at the end."""
    name = f"bench_{uuid4().hex[:8]}"
    store = open_store(StoreConfig(uri, name))
    try:
        store.run(schema.init())
        yield store
    finally:
        store.database.client.drop_database(name)
        store.database.client.close()


@contextmanager
def fresh_nodes(uri: str) -> Iterator[Nodes]:
    """Nodes-to-be on a fresh database; whatever was started is stopped at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="tontine-bench-") as directory,
        fresh_store(uri) as store,
    ):
        nodes = Nodes(uri, store, Path(directory))
        try:
            yield nodes
        finally:
            nodes.stop()
