"""A real queue for tests: a database of one's own, and a real node on demand."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..async_client import AsyncClient
from ..client import Client
from ..config import DEFAULT_DATABASE
from ..errors import JobNotFinished
from ..records.job import Job
from ..store.call import Store, find
from ..store.connect import uri_of
from ..store.names import JOBS
from ..store.read import count_unfinished
from .cluster import Cluster

SOON = 5.0


@dataclass(frozen=True, slots=True)
class Queue:
    """A database of one's own, and a node on demand."""

    uri: str = field(repr=False)
    """Where it is: its MongoDB, and its database as the path."""
    database: str = DEFAULT_DATABASE
    """The database of its own."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", uri_of(self.uri, self.database))

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """A client of this queue."""
        with Client(self.uri, database=self.database) as client:
            yield client

    @contextlib.asynccontextmanager
    async def async_client(self) -> AsyncIterator[AsyncClient]:
        """An async client of this queue."""
        async with AsyncClient(self.uri, database=self.database) as client:
            yield client

    def cluster(self, *, options: Sequence[str] = ()) -> Cluster:
        """Nodes of this queue, none yet: start, stop, kill and freeze them. `options` are for each
        of them."""
        return Cluster(self.uri, self.database, options=options)

    def submitted(self, task: str | None = None) -> list[Job]:
        """All jobs that were submitted, or those of one task, as they are now and in the order of
        their numbers."""
        with self.client() as client:
            wanted = {} if task is None else {"task": task}
            return [Job.from_document(one) for one in _store(client).run(_found(wanted))]

    def run_until_idle(self, *modules: str, timeout: float = 60.0, soon: float = SOON) -> None:
        """Run a real node with these modules until no job is unfinished, then stop it.

        Jobs that are due later than `soon` seconds from now are left in the queue.
        """
        with self.client() as client, self.cluster(options=("--lease", "5s")) as cluster:
            cluster.launch(*modules)
            until = time.monotonic() + timeout
            while left := _store(client).run(count_unfinished(soon)):
                cluster.check()
                if time.monotonic() > until:
                    raise JobNotFinished(f"{left} jobs had not ended after {timeout:g} s")
                time.sleep(0.05)


def _store(client: Client) -> Store:
    return client._store


def _found(wanted: dict[str, Any]) -> Any:
    return (yield find(JOBS, wanted, sort=[("seq", 1)]))
