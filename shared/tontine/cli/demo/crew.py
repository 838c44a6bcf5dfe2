"""The demo's nodes: real `tontine node` processes with friendly names and a log file each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from ...config import StoreConfig
from ...errors import ConfigError, TontineError
from ...legible import legible
from ...records.node import Sighting
from ...records.states import NodeState
from ...rules.health import has_lease
from ...store import read
from ...store.call import Store

NAMES = ("ada", "bea", "cyd", "dee", "eli", "fay", "gus", "hal", "ivy", "jon", "kim", "lou")
LEASE = 5.0
SLOTS = 4
START_WITHIN = 30.0
STOP_WITHIN = 15.0
_READY = (NodeState.WAITING, NodeState.WORKING)


@dataclass(slots=True)
class Mate:
    """One node process."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    id: str = ""

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def last_words(self) -> str:
        """The last line of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return legible(lines[-1], 300) if lines else "it said nothing"


class Crew:
    """All node processes of one demo."""

    def __init__(self, config: StoreConfig, uri: str, store: Store, directory: Path) -> None:
        self.mates: list[Mate] = []
        # The user's own settings are for the user's own nodes.
        own = {"TONTINE_CONFIG": os.devnull, "TONTINE_URI": uri, "TONTINE_DATABASE": config.database}
        self._environment = os.environ | own
        self._store = store
        self._directory = directory
        self._named = 0

    @property
    def running(self) -> list[Mate]:
        return [mate for mate in self.mates if mate.is_running]

    def launch(self) -> Mate:
        """Start the next node, without waiting for it."""
        lap, place = divmod(self._named, len(NAMES))
        self._named += 1
        name = NAMES[place] + (str(lap + 1) if lap else "")
        return self._start(name, "tontine.demo_tasks", "--slots", str(SLOTS), "--lease", f"{LEASE:g}s")

    def _start(self, name: str, module: str, *options: str) -> Mate:
        log = self._directory / f"{name}.log"
        command = [sys.executable, "-m", "tontine", "node", module, "--name", name, "--grace", "5s", *options]
        with log.open("wb") as out:
            # A session of its own: Ctrl-C is for the command, which then stops its nodes in order.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=self._environment,
                start_new_session=True,
            )
        mate = Mate(name, process, log)
        self.mates.append(mate)
        return mate

    def wait_until_ready(self) -> None:
        """Wait until every running node works; a node that ended instead is an error that says why."""
        until = time.monotonic() + START_WITHIN
        while not all(self.is_ready(mate) for mate in self.mates):
            for mate in self.mates:
                if not mate.is_running:
                    raise TontineError(f"node {mate.name} did not start: {mate.last_words()} (log: {mate.log})")
                if time.monotonic() > until:
                    raise TontineError(f"node {mate.name} is not ready after {START_WITHIN:g} s (log: {mate.log})")
            time.sleep(0.1)

    def is_ready(self, mate: Mate) -> bool:
        """Whether its record says that it works; takes down its id."""
        if not mate.id:
            for node in map(Sighting.from_document, self._store.run(read.read_nodes(dead=False))):
                if (node.pid, node.name) == (mate.process.pid, mate.name) and node.state in _READY:
                    mate.id = node.id
        return bool(mate.id)

    def kill(self, mate: Mate) -> None:
        """End master and workers as a power cut would."""
        with suppress(psutil.NoSuchProcess):
            master = psutil.Process(mate.process.pid)
            for process in [master, *master.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        mate.process.wait()

    def stop_all(self) -> None:
        """Stop all nodes cleanly, and whatever does not stop in time by force."""
        try:
            for mate in self.running:
                mate.process.terminate()
            until = time.monotonic() + STOP_WITHIN
            for mate in self.running:
                with suppress(subprocess.TimeoutExpired):
                    mate.process.wait(max(0.0, until - time.monotonic()))
        finally:
            for mate in self.running:
                self.kill(mate)


def refuse_company(store: Store, database: str) -> None:
    """Refuse to start beside another demo. What was killed a moment ago counts as alive until its lease ends."""
    until = time.monotonic() + LEASE + 1
    while True:
        nodes = map(Sighting.from_document, store.run(read.read_nodes(dead=False)))
        alive = [node for node in nodes if has_lease(node)]
        if not alive:
            return
        if time.monotonic() > until:
            names = ", ".join(sorted(legible(node.name, 40) for node in alive))
            raise ConfigError(
                f"nodes run in the database {database!r} already ({names}): "
                f"`tontine stop --all --database {database}` stops them, or choose another --database"
            )
        time.sleep(0.2)
