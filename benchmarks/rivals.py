"""The peers: a script in a venv for the producer, the same one for the workers, and traces that its
tasks leave."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tontine.cli.progress import Meter
from tontine.errors import TontineError

from . import servers
from .contender import Drained
from .peers.wire import tallies
from .record import Record
from .venvs import ROOT, environment, python_of

_PATIENCE = 90.0
_LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Kind:
    """A peer as it takes part: its script, its server, its settings."""

    name: str
    script: str
    server: str
    batch: int | None = None
    is_slow: bool = True


KINDS = (
    Kind("PgQueuer", "pgqueuer", "postgres", 10, is_slow=False),
    Kind("PgQueuer, batch 100", "pgqueuer", "postgres", 100, is_slow=False),
    Kind("Celery", "celery", "redis-server"),
    Kind("Dramatiq", "dramatiq", "redis-server"),
    Kind("Huey", "huey", "redis-server"),
    Kind("taskiq", "taskiq", "redis-server"),
)
SCRIPTS = tuple(dict.fromkeys(kind.script for kind in KINDS))
_SERVERS: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "postgres": servers.postgres,
    "redis-server": servers.redis,
}


def enter(stack: ExitStack, scripts: tuple[str, ...], record: Record) -> list[Rival]:
    """The chosen peers whose servers are here; servers start once, and venvs are made."""
    urls: dict[str, str] = {}
    rivals: list[Rival] = []
    for kind in (kind for kind in KINDS if kind.script in scripts):
        if servers.find(kind.server) is None:
            record.leave_out(f"{kind.name}: {servers.hint(kind.server)}")
            continue
        if kind.server not in urls:
            urls[kind.server] = stack.enter_context(_SERVERS[kind.server]())
        try:
            rivals.append(Rival(kind, python_of(kind.script), urls[kind.server]))
        except TontineError as error:
            record.leave_out(f"{kind.name}: {error}")
    return rivals


class Rival:
    """One peer; every measurement begins with an empty store and new processes."""

    def __init__(self, kind: Kind, python: Path, url: str) -> None:
        self.name = kind.name
        self.is_slow = kind.is_slow
        self._kind = kind
        self._python = python
        self._url = url

    def drain(self, jobs: int) -> Drained:
        with self.stage() as traces:
            filled = self.ask(traces, "fill", jobs)
            with self.working(traces) as workers:
                drained = _watch(traces, jobs, self.name, workers)
            return Drained(jobs / filled["seconds"], drained)

    def submit(self, jobs: int) -> float:
        with self.stage() as traces:
            return jobs / float(self.ask(traces, "submit", jobs)["seconds"])

    def latency(self, probes: int, warm_up: int) -> list[float]:
        with self.stage() as traces, self.working(traces):
            passed: list[float] = self.ask(traces, "latency", warm_up + probes)["milliseconds"]
            return passed[warm_up:]

    @contextmanager
    def stage(self) -> Iterator[Path]:
        """An empty store, and a directory for traces."""
        self._empty()
        with tempfile.TemporaryDirectory(prefix="tontine-bench-") as directory:
            yield Path(directory)

    def _empty(self) -> None:
        if self._kind.server == "redis-server":
            flush = [str(servers.beside("redis-server", "redis-cli")), "-u", self._url, "flushall"]
            self._run(flush)
            return
        reset = "drop schema public cascade; create schema public"
        psql = [str(servers.beside("postgres", "psql")), "-q", "-d", self._url, "-c", reset]
        self._run(psql)
        self._run(self._command("prepare"))

    def _run(self, command: list[str], traces: Path = ROOT) -> str:
        """What a command writes to stdout; one that fails is an error that says why."""
        environment = self._environment(traces)
        ran = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            raise TontineError(
                f"{self.name}: `{' '.join(command[1:])}` failed: {ran.stderr.strip()[-800:]}"
            )
        return ran.stdout

    def _command(self, *words: str) -> list[str]:
        return [str(self._python), "-m", f"benchmarks.peers.{self._kind.script}", *words]

    def _environment(self, traces: Path) -> dict[str, str]:
        ours = {
            "BENCH_URL": self._url,
            "BENCH_TRACES": str(traces),
            "BENCH_BATCH": str(self._kind.batch or 0),
        }
        return environment() | ours

    def ask(self, traces: Path, *words: Any) -> dict[str, Any]:
        """One command to the producer; its answer is the last line that it writes."""
        said = self._run(self._command(*map(str, words)), traces)
        answer: dict[str, Any] = json.loads(said.splitlines()[-1])
        return answer

    @contextmanager
    def working(self, traces: Path, settings: Mapping[str, str] | None = None) -> Iterator[Workers]:
        """Its workers, as long as they are needed."""
        log = traces / "workers.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                self._command("work"),
                env=self._environment(traces) | dict(settings or {}),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            yield Workers(process, log)
        finally:
            # Its store is emptied before anybody uses it again: nothing is lost by force.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a peer, in a process group of their own."""

    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        if self.process.poll() is not None:
            raise TontineError(f"the workers ended: {self.last_words()}")

    def last_words(self) -> str:
        return self.log.read_text(errors="replace").strip()[-800:] or "they said nothing"


def _watch(traces: Path, jobs: int, name: str, workers: Workers) -> float:
    """Wait until all have run; jobs a second from the first run to the last."""
    reached, moved_at = 0, time.monotonic()
    with Meter(f"{name} draining", jobs) as meter:
        while True:
            books = tallies(traces)
            count = sum(book[0] for book in books)
            if count >= jobs:
                took: float = max(book[2] for book in books) - min(
                    book[1] for book in books if book[0]
                )
                return (jobs - 1) / took
            if count != reached:
                reached, moved_at = count, time.monotonic()
            workers.check()
            if time.monotonic() - moved_at > _PATIENCE:
                raise TontineError(
                    f"{name} stopped at {count:,} of {jobs:,} jobs: {workers.last_words()}"
                )
            meter.reach(count)
            time.sleep(_LOOK_EVERY)
