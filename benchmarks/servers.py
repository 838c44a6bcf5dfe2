"""Private servers for one run: on free ports, in directories that are removed afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tontine.config import StoreConfig
from tontine.diagnose.doctor import read as checkup
from tontine.embedded import server as embedded
from tontine.errors import TontineError
from tontine.store.connect import open_store

from .progress import say

PACKAGES = {"redis-server": "redis-server", "postgres": "postgresql"}
HOST = "127.0.0.1"
_START_WITHIN = 60.0


def stop_when_told() -> None:
    """Let a run that is terminated end like one that is interrupted: what it started ends with
    it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def find(program: str) -> Path | None:
    """Where a server's program is; Debian keeps PostgreSQL's outside PATH."""
    if found := shutil.which(program):
        return Path(found)
    kept = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return kept[-1] if kept else None


def beside(program: str, tool: str) -> Path:
    """A tool that comes with a server, wherever its package keeps it."""
    server = find(program)
    assert server is not None
    for found in (server.with_name(tool), server.resolve().with_name(tool)):
        if found.exists():
            return found
    raise TontineError(f"{server} is here, but not its {tool}")


def hint(program: str) -> str:
    return (
        f"no {program} here: `scripts/bench --install-servers`, or apt-get install "
        f"{PACKAGES[program]}"
    )


def install() -> None:
    """Debian's packages for what is missing."""
    missing = [package for program, package in PACKAGES.items() if find(program) is None]
    if not missing:
        say("redis-server and postgresql are here")
        return
    if os.getuid() or not shutil.which("apt-get"):
        raise TontineError(
            f"only root of a Debian system can do that: apt-get install {' '.join(missing)}"
        )
    say(f"installing {' and '.join(missing)} with apt-get")
    # Runlevel 1: the packages must not start servers of their own.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    subprocess.run(["apt-get", "update", "-qq"], env=environment, check=False)
    subprocess.run(
        ["apt-get", "install", "-qq", "-y", *missing], env=environment, check=True, stdout=2
    )


def versions(uri: str) -> dict[str, str]:
    """Of MongoDB, and of the other servers that are here, as they say it themselves."""
    store = open_store(StoreConfig(uri))
    try:
        found = {"mongod": store.run(checkup.version())}
    finally:
        store.database.client.close()
    for program in PACKAGES:
        if (path := find(program)) is not None:
            said = subprocess.run(
                [str(path), "--version"], capture_output=True, text=True, check=False
            ).stdout
            number = re.search(r"\d+(\.\d+)+", said)
            found[program] = number[0] if number else ""
    return found


@contextmanager
def mongodb() -> Iterator[str]:
    """A replica set of one, as `tontine db start` makes it; its URI."""
    with tempfile.TemporaryDirectory(prefix="tontine-bench-") as directory:
        home = Path(directory)
        try:
            yield embedded.start(home).uri
        finally:
            embedded.stop(home)


@contextmanager
def redis() -> Iterator[str]:
    """Redis as it comes; its URL."""
    program = find("redis-server")
    assert program is not None
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="tontine-bench-") as directory:
        command = [str(program), "--port", str(port), "--bind", HOST, "--dir", directory]
        with _serving(command, Path(directory, "log"), lambda: _answers(port)):
            yield f"redis://{HOST}:{port}/0"


@contextmanager
def postgres() -> Iterator[str]:
    """PostgreSQL as it comes, which commits synchronously; its URL. It does not run as root."""
    program = find("postgres")
    assert program is not None
    port, user = free_port(), _somebody()
    with tempfile.TemporaryDirectory(prefix="tontine-bench-") as directory:
        if user:
            shutil.chown(directory, user)
        data, log = Path(directory, "data"), Path(directory, "log")
        make = [
            str(beside("postgres", "initdb")),
            "-D",
            str(data),
            "-U",
            "bench",
            "-A",
            "trust",
            "-E",
            "UTF8",
        ]
        made = subprocess.run(
            make, user=user, cwd=directory, capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise TontineError(f"initdb failed: {made.stderr.strip()}")
        command = [str(program), "-D", str(data), "-p", str(port), "-h", HOST, "-k", directory]
        ready = [str(beside("postgres", "pg_isready")), "-q", "-h", HOST, "-p", str(port)]
        with _serving(
            command, log, lambda: not subprocess.run(ready, check=False).returncode, user=user
        ):
            yield f"postgresql://bench@{HOST}:{port}/postgres"


def _somebody() -> str | None:
    """Whom to run PostgreSQL as, which refuses to be root's."""
    if os.getuid():
        return None
    names = {one.pw_name for one in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextmanager
def _serving(
    command: list[str], log: Path, answers: Callable[[], bool], user: str | None = None
) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            user=user,
            cwd=log.parent,
            start_new_session=True,  # Ctrl-C is for the benchmark, which then stops it
        )
    try:
        until = time.monotonic() + _START_WITHIN
        while not answers():
            if process.poll() is not None or time.monotonic() > until:
                raise TontineError(
                    f"{command[0]} does not start: {log.read_text(errors='replace')[-500:]}"
                )
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
