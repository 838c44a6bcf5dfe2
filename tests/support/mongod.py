"""MongoDB servers of special kinds for a test: standalone, with users, or with three members."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.support.eventually import eventually
from tontine.embedded.server import find_mongod


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def mongod(directory: Path, *options: str, **tls: Any) -> Iterator[int]:
    """A mongod of our own on a free port; gone at the end. `tls` is what a client needs to reach
    it."""
    port = free_port()
    (directory / f"mongod-{port}").mkdir(parents=True)
    with restarted(directory, port, *options, **tls):
        yield port


@contextmanager
def restarted(directory: Path, port: int, *options: str, **tls: Any) -> Iterator[int]:
    """A mongod on the data that one on that port has left."""
    data = directory / f"mongod-{port}"
    command = [
        str(find_mongod()),
        "--dbpath",
        str(data),
        "--port",
        str(port),
        "--bind_ip",
        "127.0.0.1",
    ]
    command += ["--nounixsocket", "--wiredTigerCacheSizeGB", "0.25", *options]
    with (directory / f"mongod-{port}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        eventually(lambda: answers(port, **tls), 60, "mongod answers")
        yield port
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def answers(port: int, **tls: Any) -> bool:
    with MongoClient[dict[str, object]](
        "127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=500, **tls
    ) as client:
        try:
            client.admin.command("ping")
        except PyMongoError:
            return False
        return True


@contextmanager
def with_users(directory: Path, *options: str, **tls: Any) -> Iterator[tuple[str, str]]:
    """A replica set with access control: the URI of its root user, and its host:port."""
    key = directory / "keyfile"
    key.write_text("dGVzdHRlc3R0ZXN0dGVzdA==\n")
    key.chmod(0o400)
    with mongod(directory, "--replSet", "rs", "--keyFile", str(key), *options, **tls) as port:
        host = f"127.0.0.1:{port}"
        with MongoClient[dict[str, object]](host, directConnection=True, **tls) as client:
            config = {"_id": "rs", "members": [{"_id": 0, "host": host}]}
            client.admin.command("replSetInitiate", config)
            eventually(lambda: client.admin.command("hello")["isWritablePrimary"], 30, "a primary")
            client.admin.command("createUser", "root", pwd="root", roles=["root"])
        yield f"mongodb://root:root@{host}/?replicaSet=rs", host
