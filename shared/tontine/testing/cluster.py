"""Real `tontine node` processes on one database: the launcher for tests, demo, bench and chaos.

An application tests with it what becomes of its jobs when a node stops, dies or freezes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from ..config import DEFAULT_DATABASE, StoreConfig
from ..errors import TontineError
from ..legible import legible
from ..records.states import Desired, NodeState
from ..store import control, read
from ..store.call import Store
from ..store.connect import open_store

READY = (NodeState.WAITING, NodeState.WORKING)
READY_WITHIN = 60.0
PAUSED_WITHIN = 30.0
STOPPED_WITHIN = 15.0
LOOK_EVERY = 0.05


@dataclass(slots=True)
class NodeProcess:
    """One `tontine node`. Its workers lead sessions of their own, so no group holds them all."""

    name: str
    """The name that it was given."""
    process: subprocess.Popen[bytes]
    """Its master."""
    log: Path
    """Where it writes what it says."""
    id: str = ""
    """The `_id` of its record, once it was seen ready."""

    @property
    def is_running(self) -> bool:
        """Whether its master has not ended."""
        return self.process.poll() is None

    def text(self) -> str:
        """What it said so far."""
        return self.log.read_text(errors="replace")

    def last_words(self) -> str:
        """The last line of its log."""
        lines = self.text().strip().splitlines()
        return legible(lines[-1], 300) if lines else "it said nothing"

    def signal(self, number: int) -> None:
        """Signal the master only."""
        self.process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """Signal the master and all that descends from it."""
        for process in self._family(is_to_freeze=number in (signal.SIGSTOP, signal.SIGKILL)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def kill(self) -> None:
        """End it with its workers, as a power cut would."""
        self.signal_all(signal.SIGKILL)
        self.process.wait()

    def stop(self, within: float = STOPPED_WITHIN) -> None:
        """Let it finish and leave, and end it if it does not in time."""
        self.process.terminate()
        self.wait_or_kill(within)

    def wait_or_kill(self, within: float) -> None:
        """Wait until it has ended, and end it if it does not in time."""
        try:
            self.process.wait(max(0.0, within))
        except subprocess.TimeoutExpired:
            self.kill()

    def workers(self) -> list[psutil.Process]:
        """Its worker processes, without what their tasks have started."""
        return [one for one in psutil.Process(self.process.pid).children() if _is_worker(one)]

    def _family(self, *, is_to_freeze: bool) -> list[psutil.Process]:
        """The master first. Frozen one after another, from the master on, none can start a process
        that escapes."""
        if not self.is_running:
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


def _is_worker(process: psutil.Process) -> bool:
    """Not what a task has left to the master, which may be a fork of a worker."""
    try:
        if os.getsid(process.pid) != process.pid:
            return False
        return any(part.startswith("tontine_node.worker") for part in process.cmdline())
    except (psutil.Error, ProcessLookupError):
        return False


class Cluster:
    """The nodes of one database, each in processes of its own. Leaving it stops them all."""

    def __init__(
        self,
        uri: str,
        database: str = DEFAULT_DATABASE,
        *,
        directory: Path | None = None,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        store: Store | None = None,
    ) -> None:
        """`options` and `environment` are for every node. Logs go to `directory`, else to a
        temporary one."""
        self.uri = uri
        """Where the database is; a node that is launched later goes there."""
        self.nodes: list[NodeProcess] = []
        """All that were launched, also those that have ended."""
        self._temporary = (
            None if directory else tempfile.TemporaryDirectory(prefix="tontine-nodes-")
        )
        self._directory = directory or Path(self._temporary.name if self._temporary else ".")
        self._database = database
        self._options = options
        self._environment = environment or {}
        self._given = store
        self._opened: Store | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> list[NodeProcess]:
        """The nodes whose masters have not ended."""
        return [node for node in self.nodes if node.is_running]

    def start(
        self, *modules: str, count: int = 1, options: Sequence[str] = ()
    ) -> list[NodeProcess]:
        """Start nodes with these modules, and wait until each can work."""
        nodes = [self.launch(*modules, options=options) for _ in range(count)]
        self.wait_until_ready()
        return nodes

    def launch(
        self,
        *modules: str,
        name: str | None = None,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        uri: str | None = None,
        log_to: Path | None = None,
        cwd: Path | None = None,
    ) -> NodeProcess:
        """Start one node without waiting for it."""
        number = len(self.nodes) + 1
        name = name or f"node-{number}"
        is_again = any(node.name == name for node in self.nodes)
        log = self._directory / (f"{name}-{number}.log" if is_again else f"{name}.log")
        log.touch()
        command = [sys.executable, "-m", "tontine", "node", *modules, "--name", name]
        # The URI is not among the arguments, which every user of the machine can read.
        where = {"TONTINE_URI": uri or self.uri, "TONTINE_DATABASE": self._database}
        with (log_to or log).open("wb") as out:
            # A session of its own: Ctrl-C is for whoever launches it, and then stops it in order.
            process = subprocess.Popen(
                [*command, *self._options, *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **where, **self._environment, **(environment or {})},
                start_new_session=True,
                cwd=cwd,
            )
        node = NodeProcess(name, process, log)
        self.nodes.append(node)
        return node

    def wait_until_ready(self, within: float = READY_WITHIN) -> None:
        """Wait until every node can work; one that ended instead is an error that says why."""
        self._wait(lambda: all([self.is_ready(node) for node in self.nodes]), within, "ready")  # noqa: C419

    def is_ready(self, node: NodeProcess) -> bool:
        """Whether its record says that it can work; takes down its id."""
        if not node.id:
            for record in self._records():
                is_its = record.get("pid") == node.process.pid and record.get("name") == node.name
                if is_its and record["state"] in READY:
                    node.id = str(record["_id"])
        return bool(node.id)

    def check(self) -> None:
        """Raise when a node has ended: a test or a measurement without it means nothing."""
        for node in self.nodes:
            if not node.is_running:
                raise TontineError(f"node {node.name} ended: {node.last_words()} (log: {node.log})")

    def pause(self) -> None:
        """Let all nodes finish what runs and begin nothing else; returns when they have."""
        self._store.run(control.ask(None, Desired.PAUSED))
        self._wait(
            lambda: all(record["state"] == NodeState.PAUSED for record in self._records()),
            PAUSED_WITHIN,
            "paused",
        )

    def resume(self) -> None:
        """Let all nodes go on; does not wait until they do."""
        self._store.run(control.ask(None, Desired.RUNNING))

    def stop(self, within: float = STOPPED_WITHIN) -> None:
        """Let all nodes finish and leave, and end those that do not in time."""
        leaving = self.running
        try:
            for node in leaving:
                node.process.terminate()
        finally:
            until = time.monotonic() + within
            for node in leaving:
                node.wait_or_kill(until - time.monotonic())

    def close(self) -> None:
        """Stop all nodes, and forget their logs if nobody said where to keep them."""
        try:
            self.stop()
        finally:
            if self._opened is not None:
                self._opened.database.client.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    @property
    def _store(self) -> Store:
        if self._given is None:
            self._given = self._opened = open_store(StoreConfig(self.uri, self._database))
        return self._given

    def _records(self) -> list[dict[str, Any]]:
        return self._store.run(read.read_nodes(dead=False))

    def _wait(self, is_so: Callable[[], bool], within: float, what: str) -> None:
        until = time.monotonic() + within
        while not is_so():
            self.check()
            if time.monotonic() > until:
                logs = ", ".join(str(node.log) for node in self.nodes)
                raise TontineError(f"the nodes are not {what} after {within:g} s (logs: {logs})")
            time.sleep(LOOK_EVERY)
