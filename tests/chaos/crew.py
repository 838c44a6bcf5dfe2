"""The nodes of a chaos run: processes behind bad networks, of which it is known what was done to
each and when."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.cluster import ROOT
from tests.support.proxy import Proxy
from tests.support.replica_set import HOST, ReplicaSet
from tontine.clock import SystemClock
from tontine.diagnose.audit.runs import Spell
from tontine.testing import Cluster, NodeProcess

WORKERS, SHAKY = 2, "shaky"
ALL_WORKERS = WORKERS + 1
COMES_AND_GOES = "tests.chaos.etl"
"""The source that is taken from nodes, and given back."""
STARTED_AFTER = 15.0
"""Seconds. Until then a master may still be importing what it needs."""
_NO_STORE = "stopped, but MongoDB did not take"
_UNSAID = 120
"""How Python ends where the last words, here that MongoDB did not take all, cannot be written."""
_SETTINGS = f"""
[contexts.default]
modules = ["tests.chaos.tasks", "tests.chaos.plan_tasks", "{COMES_AND_GOES}"]
processes = {WORKERS}
slots = 2

[contexts.{SHAKY}]
modules = ["tests.chaos.letters"]
profile = "tests.chaos.letters:shaky"
slots = 2
"""


def _is_goodbye(code: int, log: str) -> bool:
    """Whether a node that was asked to stop may end so: well, before it had begun, or with no store
    to tell."""
    return code in (0, -signal.SIGTERM) or (code == 1 and _NO_STORE in log)


def make_wrong_clock(directory: Path) -> Path | None:
    """The library that makes a process's wall clock wrong; None without a C compiler."""
    if (compiler := shutil.which("cc")) is None:
        return None
    source, library = Path(__file__).with_name("wrong_clock.c"), directory / "wrong_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@dataclass(slots=True)
class Hand:
    """One place for a node: its name and network stay, its processes come and go."""

    name: str
    proxy: Proxy
    clock: float = 0.0
    log_to: str | None = None
    node: NodeProcess | None = None
    is_leaving: bool = False
    starts: int = 0
    frozen: list[tuple[psutil.Process, float]] = field(default_factory=list)

    @property
    def start_name(self) -> str:
        """Tells one start of a node from the next."""
        return f"{self.name}-{self.starts}"

    @property
    def is_up(self) -> bool:
        return self.node is not None and self.node.process.poll() is None


class Crew:
    """Starts, hurts and buries node processes. Whoever ends without having been told to is
    remembered."""

    def __init__(self, servers: ReplicaSet, database: str, directory: Path, lease: float) -> None:
        self.hands: list[Hand] = []
        self.deserters: list[str] = []
        self.spells: list[Spell] = []
        """Which process was frozen, from when to when."""
        self.killed: set[str] = set()
        """Which starts of nodes were ended with -9: what their tasks had started cannot be helped.
        """
        self.runs, self.left = directory / "runs.jsonl", directory / "left.jsonl"
        self.stages, self.counts = directory / "stages.jsonl", directory / "counts.jsonl"
        for record in (self.runs, self.left, self.stages, self.counts):
            record.touch()
        self._directory = directory
        self._servers = servers
        settings = directory / "tontine.toml"
        settings.write_text(_SETTINGS)
        options = ("--lease", f"{lease}s", "--grace", "15s", "--config", str(settings))
        self._cluster = Cluster(servers.uri, database, directory=directory, options=options)
        self._proxies = 0
        self._lost_before = 0
        self._wrong_clock = make_wrong_clock(directory)

    def proxy(self) -> Proxy:
        """A network of its own for one more process: a loopback address as long as the servers'
        own."""
        self._proxies += 1
        number = self._proxies
        address = f"127.{number // 81}.{number // 9 % 9}.{1 + number % 9}"
        return Proxy(address, HOST, [server.port for server in self._servers.servers])

    def hire(self, name: str, clock: float = 0.0, log_to: str | None = None) -> Hand:
        hand = Hand(name, self.proxy(), clock, log_to)
        self.hands.append(hand)
        self.start(hand)
        return hand

    def start(self, hand: Hand) -> None:
        hand.starts += 1
        hand.is_leaving = False
        hand.node = self._cluster.launch(
            name=hand.name,
            uri=self._servers.uri_of(hand.proxy.address),
            environment=self._environment(hand),
            log_to=Path(hand.log_to) if hand.log_to else None,
            cwd=ROOT,
        )

    def _environment(self, hand: Hand) -> dict[str, str]:
        environment = {
            "CHAOS_RUNS": str(self.runs),
            "CHAOS_LOCKS": str(self._directory / "locks"),
            "CHAOS_LEFT": str(self.left),
            "CHAOS_STAGES": str(self.stages),
            "CHAOS_COUNTS": str(self.counts),
            "CHAOS_NO_POST": str(self.no_post(hand)),
        }
        environment["CHAOS_NODE"] = hand.start_name
        if hand.clock and self._wrong_clock is not None:
            environment |= {
                "LD_PRELOAD": str(self._wrong_clock),
                "WRONG_CLOCK": f"{hand.clock * 60:.0f}",
            }
        return environment

    def kill(self, hand: Hand, *, master_only: bool = False) -> None:
        if hand.node is not None:
            if hand.is_up:
                self.killed.add(hand.start_name)
            (hand.node.signal if master_only else hand.node.signal_all)(signal.SIGKILL)
            hand.node.process.wait()
            hand.node = None

    def ask_to_stop(self, hand: Hand) -> None:
        hand.is_leaving = True
        if hand.is_up and hand.node is not None:
            hand.node.signal(signal.SIGTERM)

    def workers(self, hand: Hand) -> list[psutil.Process]:
        try:
            return hand.node.workers() if hand.node is not None and hand.is_up else []
        except psutil.Error:
            return []

    def no_post(self, hand: Hand) -> Path:
        """As long as this file is there, a node cannot open what its second context needs."""
        return self._directory / f"{hand.name}.no-post"

    def workers_of(self, hand: Hand, context: str) -> list[psutil.Process]:
        """Its workers of one context, which is the last that they are told."""
        found = []
        for worker in self.workers(hand):
            with suppress(psutil.Error, ValueError, IndexError):
                if json.loads(worker.cmdline()[-1])["name"] == context:
                    found.append(worker)
        return found

    def starve(self, hand: Hand) -> Callable[[], None] | None:
        """No new descriptor for a master, and so no new worker; what gives it back. Not for one
        that still imports what it needs: nothing could help it."""
        if hand.node is None or not self.workers(hand):
            return None
        master = psutil.Process(hand.node.process.pid)
        before = master.rlimit(psutil.RLIMIT_NOFILE)
        master.rlimit(psutil.RLIMIT_NOFILE, (min(master.num_fds(), before[1]), before[1]))

        def feed() -> None:
            with suppress(psutil.Error):
                master.rlimit(psutil.RLIMIT_NOFILE, before)

        return feed

    def count_workers(self, hand: Hand) -> int:
        """Its worker processes; what tasks have started and left to it does not count."""
        return len(self.workers(hand))

    def freeze(self, hand: Hand, processes: list[psutil.Process]) -> None:
        for process in processes:
            with suppress(psutil.Error):
                process.suspend()
                hand.frozen.append((process, SystemClock().now()))

    def thaw(self, hand: Hand) -> None:
        for process, since in hand.frozen:
            with suppress(psutil.Error):
                process.resume()
            self.spells.append(Spell(process.pid, since, SystemClock().now()))
        hand.frozen.clear()

    def look(self) -> None:
        """Notice who ended, and who did so without having been asked."""
        for hand in self.hands:
            code = hand.node.process.poll() if hand.node is not None else None
            if code is None or hand.node is None:
                continue
            log = hand.node.text() if hand.log_to is None else _NO_STORE
            if code == _UNSAID and hand.log_to is not None:
                code = 1
            if not hand.is_leaving or not _is_goodbye(code, log):
                self.deserters.append(
                    f"{hand.name} ended by itself with code {code}: {log[-1500:]}"
                )
            hand.node = None

    def dismiss(self, hand: Hand) -> None:
        """Forget somebody who has left."""
        self._lost_before += hand.proxy.lost
        hand.proxy.close()
        self.hands.remove(hand)

    @property
    def answers_lost(self) -> int:
        """Writes whose answers never came back."""
        return self._lost_before + sum(hand.proxy.lost for hand in self.hands)

    def memory(self) -> dict[int, int]:
        """Resident memory of each master that has started, by its process id."""
        sizes = {}
        for hand in self.hands:
            if hand.is_up and hand.node is not None:
                with suppress(psutil.Error):
                    process = psutil.Process(hand.node.process.pid)
                    if time.time() - process.create_time() > STARTED_AFTER:
                        sizes[process.pid] = process.memory_info().rss
        return sizes

    def stop_all(self, within: float) -> list[str]:
        """Ask every node to stop; those that did not in time."""
        for hand in self.hands:
            self.ask_to_stop(hand)
        until = time.monotonic() + within
        while time.monotonic() < until and any(hand.is_up for hand in self.hands):
            time.sleep(0.1)
        return [
            f"{hand.name} did not stop within {within:.0f} s" for hand in self.hands if hand.is_up
        ]

    def close(self) -> None:
        for hand in list(self.hands):
            self.thaw(hand)
            self.kill(hand)
            hand.proxy.close()
