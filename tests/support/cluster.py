"""Real node processes on a real MongoDB, that a story can stop, kill and freeze."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually
from tontine import testing
from tontine.records.roster import Roster
from tontine.store import read
from tontine.store.call import Store
from tontine.testing import NodeProcess

ROOT = Path(__file__).resolve().parents[2]
LIVE = ("waiting", "working")
# `STORY_OPTIONS=--no-listen scripts/test tests/stories` tells all stories with polling nodes.
EVERYWHERE = os.environ.get("STORY_OPTIONS", "").split()


class Cluster(testing.Cluster):
    """The nodes of one story."""

    def __init__(self, uri: str, store: Store, directory: Path) -> None:
        super().__init__(
            uri, store.database.name, directory=directory, options=EVERYWHERE, store=store
        )
        self.store = store
        self.database = store.database
        self.directory = directory
        self.ledger = directory / "ledger"
        self.ledger.touch()
        self.options: list[str] = []

    def begin(
        self,
        name: str,
        *options: str,
        modules: str = "tests.support.tasks",
        log_to: str | None = None,
    ) -> NodeProcess:
        """Launch a node with the tasks of the stories, without waiting for it."""
        return self.launch(
            modules,
            name=name,
            options=[*self.options, *options],
            environment={"STORY_LEDGER": str(self.ledger)},
            log_to=Path(log_to) if log_to else None,
            cwd=ROOT,
        )

    def begin_all(self, *names: str, options: tuple[str, ...] = ()) -> list[NodeProcess]:
        """Launch nodes and wait until each owns a share."""
        nodes = [self.begin(name, *options) for name in names]
        for node in nodes:
            self.wait_for_state(node.name, *LIVE)
        self.wait_for_members(self.live_members())
        return nodes

    def live_members(self) -> int:
        return len([node for node in self.records() if node["state"] in LIVE])

    def records(self, *, dead: bool = False) -> list[dict[str, Any]]:
        return self.store.run(read.read_nodes(dead=dead))

    def record(self, name: str) -> dict[str, Any] | None:
        """The newest record of a node of that name."""
        found = [node for node in self.records(dead=True) if node.get("name") == name]
        return max(found, key=lambda node: node["started_at"], default=None)

    def roster(self) -> Roster:
        return self.store.run(read.read_cluster())[0]

    def wait_for_state(self, name: str, *states: str, within: float = 60.0) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            record = self.record(name)
            return record if record and record["state"] in states else None

        return eventually(reached, within, f"node {name} {states}: {self._tail(name)}")

    def wait_for_members(self, count: int, within: float = 60.0) -> None:
        eventually(lambda: len(self.roster().members) == count, within, f"{count} members")

    def jobs(self, **filter: Any) -> list[dict[str, Any]]:
        return list(self.database.jobs.find(filter).sort("seq"))

    def wait_for_all(self, count: int, within: float = 120.0) -> list[dict[str, Any]]:
        """Wait until `count` jobs have ended, and read them."""
        final = {"state": {"$in": ["done", "failed", "cancelled"]}}
        eventually(
            lambda: self.database.jobs.count_documents(final) >= count,
            within,
            f"{count} jobs ended; states: {self.store.run(read.count_states())}",
        )
        return self.jobs(**final)

    def runs(self, what: str = "ran") -> Counter[int]:
        """How often each seq ran, by the ledger."""
        lines = (line.split() for line in self.ledger.read_text().splitlines())
        return Counter(int(line[0]) for line in lines if line[2] == what)

    def _tail(self, name: str) -> str:
        return "".join(node.text()[-2000:] for node in self.nodes if node.name == name)

    def close(self) -> None:
        for node in self.nodes:
            node.signal_all(signal.SIGCONT)
            node.kill()
