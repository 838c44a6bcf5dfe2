"""Real node processes on a real MongoDB, that a story can stop, kill and freeze."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.support.eventually import eventually
from tontine.records.roster import Roster
from tontine.store import look
from tontine.store.call import Store

ROOT = Path(__file__).resolve().parents[2]
LIVE = ("waiting", "working")
# `STORY_OPTIONS=--no-listen scripts/test tests/stories` tells all stories with polling nodes.
EVERYWHERE = os.environ.get("STORY_OPTIONS", "").split()


@dataclass(slots=True)
class NodeProcess:
    """One `tontine node`. Its workers lead sessions of their own, so no group holds them all."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def signal(self, number: int) -> None:
        """Signal the master only."""
        self.process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """Signal the master and all that descends from it."""
        for process in self._family(is_to_freeze=number in (signal.SIGSTOP, signal.SIGKILL)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def _family(self, *, is_to_freeze: bool) -> list[psutil.Process]:
        """The master first. Frozen one after another, from the master on, none can start a process that escapes."""
        if self.process.poll() is not None:
            return []
        family = [psutil.Process(self.process.pid)]
        while True:
            with contextlib.suppress(psutil.NoSuchProcess):
                if is_to_freeze:
                    family[-1].suspend()
            with contextlib.suppress(psutil.NoSuchProcess):
                new = [one for one in family[0].children(recursive=True) if one not in family]
                if new:
                    family.append(new[0])
                    continue
            return family

    def workers(self) -> list[psutil.Process]:
        return [one for one in psutil.Process(self.process.pid).children() if _is_worker(one)]

    def text(self) -> str:
        return self.log.read_text(errors="replace")


def _is_worker(process: psutil.Process) -> bool:
    """Not what a task has left to the master, which may be a fork of a worker."""
    try:
        return os.getsid(process.pid) == process.pid and "tontine_node.worker.main" in process.cmdline()
    except (psutil.Error, ProcessLookupError):
        return False


class Cluster:
    """The nodes of one story."""

    def __init__(self, uri: str, store: Store, directory: Path) -> None:
        self.uri = uri
        self.store = store
        self.database = store.database
        self.directory = directory
        self.ledger = directory / "ledger"
        self.ledger.touch()
        self.nodes: dict[str, NodeProcess] = {}
        self.options: list[str] = []

    def launch(
        self, name: str, *options: str, modules: str = "tests.support.tasks", log_to: str | None = None
    ) -> NodeProcess:
        """Start a node without waiting for it."""
        command = [sys.executable, "-m", "tontine", "node", modules, "--name", name]
        command += ["--uri", self.uri, "--database", self.database.name, *EVERYWHERE, *self.options, *options]
        log = self.directory / f"{name}-{len(self.nodes)}.log"
        log.touch()
        with Path(log_to or log).open("wb") as out:
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=ROOT,
                env=os.environ | {"STORY_LEDGER": str(self.ledger)},
            )
        node = NodeProcess(name, process, log)
        self.nodes[f"{name}-{len(self.nodes)}"] = node
        return node

    def start(self, *names: str, options: tuple[str, ...] = ()) -> list[NodeProcess]:
        """Start nodes and wait until each owns a share."""
        nodes = [self.launch(name, *options) for name in names]
        for node in nodes:
            self.wait_for_state(node.name, *LIVE)
        self.wait_for_members(self.live_members())
        return nodes

    def live_members(self) -> int:
        return len([node for node in self.records() if node["state"] in LIVE])

    def records(self, *, dead: bool = False) -> list[dict[str, Any]]:
        return self.store.run(look.read_nodes(dead=dead))

    def record(self, name: str) -> dict[str, Any] | None:
        """The newest record of a node of that name."""
        found = [node for node in self.records(dead=True) if node.get("name") == name]
        return max(found, key=lambda node: node["started_at"], default=None)

    def roster(self) -> Roster:
        return self.store.run(look.read_cluster())[0]

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
            f"{count} jobs ended; states: {self.store.run(look.count_states())}",
        )
        return self.jobs(**final)

    def runs(self, what: str = "ran") -> Counter[int]:
        """How often each seq ran, by the ledger."""
        lines = (line.split() for line in self.ledger.read_text().splitlines())
        return Counter(int(line[0]) for line in lines if line[2] == what)

    def _tail(self, name: str) -> str:
        return "".join(node.text()[-2000:] for node in self.nodes.values() if node.name == name)

    def close(self) -> None:
        for node in self.nodes.values():
            node.signal_all(signal.SIGCONT)
            node.signal_all(signal.SIGKILL)
            node.process.wait()
