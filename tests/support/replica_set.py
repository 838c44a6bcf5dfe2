"""A replica set of real mongods that a test can kill, freeze, depose and bring back, member by
member."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.support.eventually import eventually
from tests.support.mongod import free_port
from tontine.embedded.server import find_mongod

NAME = "rs"
HOST = "127.0.0.1"

_OPTIONS = (
    *("--bind_ip", HOST, "--nounixsocket", "--replSet", NAME, "--oplogSize", "256", "--quiet"),
    *("--wiredTigerCacheSizeGB", "0.25"),
    *("--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=32MB)"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
)


@dataclass(slots=True)
class Server:
    """One member: a mongod, its port and its data."""

    port: int
    data: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        command = [
            str(find_mongod()),
            "--dbpath",
            str(self.data),
            "--port",
            str(self.port),
            *_OPTIONS,
        ]
        with self.data.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def ask(self, command: str | dict[str, Any], within: float = 2.0) -> dict[str, Any] | None:
        """A command to this member alone; None when it does not answer."""
        options: dict[str, Any] = {
            "serverSelectionTimeoutMS": 1000 * within,
            "socketTimeoutMS": 1000 * within,
        }
        with MongoClient[dict[str, Any]](
            HOST, self.port, directConnection=True, **options
        ) as client:
            try:
                return client.admin.command(command)
            except PyMongoError:
                return None


class ReplicaSet:
    """Three members by default. `election` is how many seconds without a primary call for a new one
    (10 by default)."""

    def __init__(self, directory: Path, members: int = 3, election: float = 10.0) -> None:
        self.servers = [Server(port, directory / f"mongod-{port}") for port in _ports(members)]
        self._election = election

    @property
    def uri(self) -> str:
        return self.uri_of(HOST)

    def uri_of(self, host: str) -> str:
        """The address as seen through a host that stands in for all members."""
        hosts = ",".join(f"{host}:{server.port}" for server in self.servers)
        return f"mongodb://{hosts}/?replicaSet={NAME}"

    def __enter__(self) -> Self:
        try:
            for server in self.servers:
                server.start()
            eventually(
                lambda: all(server.ask("ping") for server in self.servers),
                60,
                "every mongod answers",
            )
            settings = {
                "electionTimeoutMillis": int(1000 * self._election),
                "heartbeatIntervalMillis": 500,
            }
            hosts = [
                {"_id": place, "host": f"{HOST}:{server.port}"}
                for place, server in enumerate(self.servers)
            ]
            self.servers[0].ask(
                {"replSetInitiate": {"_id": NAME, "members": hosts, "settings": settings}}, 20
            )
            eventually(self.primary, 60, "a primary")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def primary(self) -> Server | None:
        """The member that takes writes now."""
        for server in self.servers:
            answer = server.ask("hello", 1.0) if server.is_up else None
            if answer is not None and answer.get("isWritablePrimary"):
                return server
        return None

    def depose(self) -> Server | None:
        """Ask the primary to step down at once; who it was."""
        server = self.primary()
        if server is not None:
            server.ask({"replSetStepDown": 30, "secondaryCatchUpPeriodSecs": 5, "force": True}, 15)
        return server

    def close(self) -> None:
        for server in self.servers:
            server.kill()


def _ports(count: int) -> Sequence[int]:
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return sorted(ports)
