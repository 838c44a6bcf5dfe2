"""The nodes that do bench's jobs, which wait until a backlog is there and then begin together."""

from __future__ import annotations

import time
from pathlib import Path

from ...config import StoreConfig
from ...errors import TontineError
from ...records.states import Desired, NodeState
from ...store import control, read
from ...store.call import Store
from ..demo.crew import Crew, Mate

_PAUSE_WITHIN = 30.0


class Hands(Crew):
    """Node processes with the tasks of `tontine.bench_tasks`."""

    def __init__(self, config: StoreConfig, uri: str, store: Store, directory: Path, processes: int) -> None:
        super().__init__(config, uri, store, directory)
        self._processes = processes

    def launch(self) -> Mate:
        """Start the next node, without waiting for it."""
        self._named += 1
        name = f"bench-{self._named}"
        return self._start(name, "tontine.bench_tasks", "--processes", str(self._processes))

    def pause(self) -> None:
        """Wait until all are paused."""
        self._store.run(control.ask(None, Desired.PAUSED))
        until = time.monotonic() + _PAUSE_WITHIN
        while any(node["state"] != NodeState.PAUSED for node in self._store.run(read.read_nodes(dead=False))):
            self.check()
            if time.monotonic() > until:
                raise TontineError(f"the nodes have not paused within {_PAUSE_WITHIN:g} s")
            time.sleep(0.05)

    def resume(self) -> None:
        """Let all begin; does not wait until they have."""
        self._store.run(control.ask(None, Desired.RUNNING))

    def check(self) -> None:
        """Fail when a node has ended: what is measured without it means nothing."""
        for mate in self.mates:
            if not mate.is_running:
                raise TontineError(f"node {mate.name} ended: {mate.last_words()} (log: {mate.log})")
