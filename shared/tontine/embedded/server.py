"""The embedded MongoDB: a real mongod, a replica set of one on a loopback port, that outlives its
starter.

No record of our own can go stale: mongod's lock file and the process table say which process it is
and its command line where it listens. That it serves our data it proves itself: it and we know the
key in our directory, and neither shows it to the other. Starting and stopping hold a file lock, so
that any number of processes end up with one mongod.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from .. import config
from ..errors import EmbeddedError
from ..key import Key, close_to_others, make_key, read_key
from ..postmortem import DISK_FULL, NOT_WRITABLE, OR_ANOTHER, explain
from .mongod import executable, find_mongod, launch

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from pymongo import MongoClient

__all__ = ["EmbeddedMongoDB", "ensure", "find_mongod", "start", "status", "stop"]

T = TypeVar("T")

START_WITHIN = 60.0
STOP_WITHIN = 30.0
LOCK_WITHIN = 90.0
RELEASE_WITHIN = 5.0
PORT_WITHIN = 0.5
ANSWER_WITHIN = 5.0
USER = "tontine"
SPACE_NEEDED = 64 << 20
LOG_LIMIT = 16 << 20

# Below the ports that systems give to outgoing connections, so that ours is still free after a
# restart.
PORTS = range(28100, 30000)


@dataclass(frozen=True, slots=True)
class EmbeddedMongoDB:
    """An embedded MongoDB that answers, as a writable primary."""

    uri: str = field(repr=False)
    pid: int
    port: int
    version: str
    mongod: Path
    home: Path
    log: Path
    is_guarded: bool
    """Whether it has access control: one that an earlier version started has not, until it is
    restarted."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The directories of one embedded MongoDB."""

    home: Path
    root: Path
    data: Path
    log: Path
    key: Path

    @classmethod
    def of(cls, home: Path | None) -> _Place:
        chosen = (home or config.home()).expanduser().resolve()
        root = chosen / "mongodb"
        return cls(chosen, root, root / "data", root / "mongod.log", root / "key")


@dataclass(frozen=True, slots=True)
class _Mongod:
    """A live process of our own user that serves our data, or soon will."""

    process: psutil.Process
    path: Path
    port: int
    is_guarded: bool


class _Unknown(Exception):
    """What listens there does not know our user or our key."""


def ensure(home: Path | None = None) -> str:
    """The URI of the embedded MongoDB, which is started if it does not run."""
    return start(home).uri


def start(home: Path | None = None) -> EmbeddedMongoDB:
    """Starts the embedded MongoDB, unless it runs already."""
    place = _Place.of(home)
    found = _find(place)
    with suppress(_Unknown):
        if found and (running := _greet(place, found)):
            return running
    with _locked(place):
        return _adopt(place) or _launch(place)


def status(home: Path | None = None) -> EmbeddedMongoDB | None:
    """The embedded MongoDB if it runs; one that runs and does not answer is an error."""
    place = _Place.of(home)
    found = _find(place)
    if found is None:
        return None
    try:
        running = _until(lambda: _greet(place, found), ANSWER_WITHIN)
    except _Unknown:  # an earlier version started it, or its starter is not done
        with _locked(place):
            return _adopt(place)
    if running is None and _recognize(found.process, place):
        raise _silent(place, ANSWER_WITHIN)
    return running


def stop(home: Path | None = None) -> bool:
    """Ends the embedded MongoDB cleanly and waits until it is gone; False if there was none."""
    place = _Place.of(home)
    if _find(place) is None:
        return False
    with _locked(place):
        found = _find(place)
        if found is None:
            return False
        process = found.process
        try:
            process.terminate()
        except psutil.NoSuchProcess:
            return True
        if not _until(lambda: _has_ended(process), STOP_WITHIN):
            raise EmbeddedError(
                f"mongod (pid {process.pid}) has not ended within {STOP_WITHIN:g} s: look into "
                f"{place.log}; "
                f"kill -9 {process.pid} loses no acknowledged write"
            )
        return True


def _has_ended(process: psutil.Process) -> bool | None:
    """Whether it has let go of its files and its port: its command line is gone some milliseconds
    earlier, and so is the first of its threads."""
    with suppress(psutil.NoSuchProcess):
        if process.is_running() and (
            process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
        ):
            return None
    return True


def _until(check: Callable[[], T], within: float) -> T | None:
    """The first answer of `check` that is not None, or None when the time is up."""
    attempts = Retrying(
        stop=stop_after_delay(within),
        wait=wait_fixed(0.03),
        retry=retry_if_result(lambda answer: answer is None),
        retry_error_callback=lambda _: None,
    )
    return attempts(check)


@contextmanager
def _locked(place: _Place) -> Iterator[None]:
    """Held by one process at a time, to start or stop; an OSError meanwhile becomes a message."""
    if sys.platform == "win32":
        raise EmbeddedError(
            f"the embedded MongoDB runs on Linux and macOS: use one of them, {OR_ANOTHER}"
        )
    try:
        _close(place)
        lock = place.root / "lock"
        lock.touch(mode=0o600)
        # Not inheritable: mongod would hold the lock for as long as it lives.
        with lock.open("ab") as file:
            if not _until(lambda: _try_lock(file.fileno()), LOCK_WITHIN):
                raise EmbeddedError(
                    "another process has been starting or stopping the embedded MongoDB in "
                    f"{place.root} for "
                    f"{LOCK_WITHIN:g} s: look into {place.log} and try again"
                )
            yield
    except OSError as error:
        text = DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else NOT_WRITABLE
        raise EmbeddedError(text.format(root=place.root, reason=error.strerror)) from error


def _close(place: _Place) -> None:
    """Makes our directories, or closes to others what an earlier version left open."""
    for directory in (place.home, place.root, place.data):
        if not directory.is_dir():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.root.stat().st_uid != os.geteuid():
        raise EmbeddedError(
            f"{place.root} is another user's: start as that user, set TONTINE_HOME, {OR_ANOTHER}"
        )
    for path in (place.root, *place.root.iterdir()):
        close_to_others(path)


def _try_lock(descriptor: int) -> bool | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return True


def _find(place: _Place) -> _Mongod | None:
    """The mongod that has our data directory: from its lock file, else from the process table."""
    with suppress(OSError, ValueError, psutil.Error):
        pid = int((place.data / "mongod.lock").read_text())
        if found := _recognize(psutil.Process(pid), place):
            return found
    return next(
        filter(None, (_recognize(process, place) for process in psutil.process_iter())), None
    )


def _recognize(process: psutil.Process, place: _Place) -> _Mongod | None:
    """Our mongod, or None: by now its process id may be something else's."""
    try:
        match process.cmdline():
            case [path, "--dbpath", data, "--port", port, *options] if data == str(
                place.data
            ) and _is_ours(process):
                return _Mongod(process, Path(path), int(port), "--keyFile" in options)
    except (psutil.Error, OSError, ValueError):  # gone, a zombie, or not ours to look at
        pass
    return None


def _is_ours(process: psutil.Process) -> bool:
    # Anybody can start something whose command line looks like our mongod's.
    return sys.platform == "win32" or process.uids().effective == os.geteuid()


def _greet(place: _Place, found: _Mongod) -> EmbeddedMongoDB | None:
    """That mongod, if it is a writable primary and knows our user."""
    if (key := read_key(place.key)) is None:
        raise _Unknown
    if not _answers(found.port):
        return None
    with _client(found.port, limit=1.0, username=USER, password=key.password) as client:
        return _describe(place, found, key, client)
    return None


def _prepare(place: _Place, port: int) -> EmbeddedMongoDB | None:
    """The mongod on that port, once it is a replica set of one that knows our user: both are seen
    to here."""
    found = _find(place)
    if found is None or found.port != port or not _answers(port):
        return None
    if not found.is_guarded and not _listens(
        found
    ):  # it proves nothing, and is about to be told our password
        return None
    key = make_key(place.key)
    # mongod's own user, whom the key file makes. Both sides prove that they know the key before
    # anything is told, and no moment is open in which somebody else may be the first to make a
    # user.
    own = {"username": "__system", "password": key.text, "authSource": "local"}
    try:
        with _client(port, limit=ANSWER_WITHIN, **own if found.is_guarded else {}) as client:
            _form(client, f"127.0.0.1:{port}")
            if running := _describe(place, found, key, client):
                _let_in(client, key.password)
                return running
    except _Unknown as error:
        if not _listens(found):
            return None
        raise EmbeddedError(
            f"{place.key} is not what the mongod of {place.root} (pid {found.process.pid}) was "
            "started with: "
            "`tontine db stop` and `tontine db start` give it a new one; all data stays, only "
            "the password in its URI "
            "changes"
        ) from error
    return None


def _answers(port: int) -> bool:
    # The driver would try again and again for as long as it may.
    with closing(socket.socket()) as probe:
        probe.settimeout(1.0)
        return not probe.connect_ex(("127.0.0.1", port))


def _listens(found: _Mongod) -> bool:
    """Whether the port is really that process's: a mongod whose port was taken lives for a
    moment."""
    with suppress(psutil.Error):
        return any(
            connection.status == psutil.CONN_LISTEN and connection.laddr.port == found.port
            for connection in found.process.net_connections()
        )
    return False


@contextmanager
def _client(
    port: int, *, limit: float, **credentials: Any
) -> Iterator[MongoClient[dict[str, Any]]]:
    """Speaks to what listens on that port; what it does not answer ends the block in silence."""
    from pymongo import MongoClient
    from pymongo.errors import ConfigurationError, OperationFailure, PyMongoError

    milliseconds = int(limit * 1000)
    client: MongoClient[dict[str, Any]] = MongoClient(
        "127.0.0.1",
        port,
        directConnection=True,
        serverSelectionTimeoutMS=milliseconds,
        socketTimeoutMS=milliseconds,
        **credentials,
    )
    with client:
        try:
            yield client
        except ConfigurationError as error:  # a version that the driver no longer speaks to
            raise EmbeddedError(
                f"{error}: set TONTINE_MONGOD to a newer mongod, {OR_ANOTHER}"
            ) from error
        except PyMongoError as error:
            if isinstance(error, OperationFailure) and error.code == 18:  # AuthenticationFailed
                raise _Unknown from error


def _describe(
    place: _Place, found: _Mongod, key: Key, client: MongoClient[dict[str, Any]]
) -> EmbeddedMongoDB | None:
    if not client.admin.command("hello")["isWritablePrimary"]:
        return None
    _trim_log(place, client)
    return EmbeddedMongoDB(
        uri=f"mongodb://{USER}:{key.password}@127.0.0.1:{found.port}/?replicaSet=tontine&authSource=admin",
        pid=found.process.pid,
        port=found.port,
        version=client.server_info()["version"],
        mongod=found.path,
        home=place.home,
        log=place.log,
        is_guarded=found.is_guarded,
    )


def _form(client: MongoClient[dict[str, Any]], host: str) -> None:
    """Makes the mongod a replica set of one that knows itself by this address."""
    from pymongo.errors import OperationFailure

    members = [{"_id": 0, "host": host}]
    try:
        current = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code != 94:  # NotYetInitialized
            raise
        client.admin.command("replSetInitiate", {"_id": "tontine", "members": members})
        return
    if [member["host"] for member in current["members"]] != [host]:
        moved = current | {"version": current["version"] + 1, "members": members}
        client.admin.command("replSetReconfig", moved, force=True)


def _let_in(client: MongoClient[dict[str, Any]], password: str) -> None:
    """Makes our user, or gives it the password that belongs to the key as it is now."""
    from pymongo.errors import OperationFailure

    user: dict[str, Any] = {"pwd": password, "roles": ["root"], "mechanisms": ["SCRAM-SHA-256"]}
    try:
        client.admin.command("updateUser", USER, **user)
    except OperationFailure as error:
        if error.code != 11:  # UserNotFound
            raise
        client.admin.command("createUser", USER, **user)


def _trim_log(place: _Place, client: MongoClient[dict[str, Any]]) -> None:
    """Moves a long log away; this one and the one before are kept."""
    with suppress(OSError):  # somebody else is moving it, or it is another user's
        if place.log.stat().st_size > LOG_LIMIT:
            place.log.replace(place.root / "mongod.log.old")
            client.admin.command("logRotate", "server")


def _adopt(place: _Place) -> EmbeddedMongoDB | None:
    """One that runs already: left by a starter that was killed, of an earlier version, still
    recovering or ending."""
    found = _find(place)
    if found is None:
        return None
    outcome = _wait(place, found.port, lambda: None if _recognize(found.process, place) else 0)
    return outcome if isinstance(outcome, EmbeddedMongoDB) else None


def _launch(place: _Place) -> EmbeddedMongoDB:
    """Starts a mongod on the first free port that it gets."""
    mongod = executable(find_mongod(), place.root / "bin")
    if (free := shutil.disk_usage(place.root).free) < SPACE_NEEDED:
        raise EmbeddedError(
            f"the disk that holds {place.root} has {free >> 20} MB left, and the embedded "
            "MongoDB needs "
            f"{SPACE_NEEDED >> 20}: free some space, set TONTINE_HOME to another disk, {OR_ANOTHER}"
        )
    make_key(place.key)
    _await_release(place)
    output = place.root / "mongod.out"
    for port in islice(_free_ports(place), 5):
        outcome = _spawn(place, mongod, port, output)
        if isinstance(outcome, EmbeddedMongoDB):
            last = place.root / "port"
            last.touch(mode=0o600)
            last.write_text(str(port))
            return outcome
        if outcome != 48:  # the exit code for a port that somebody else bound first
            why = explain(outcome, mongod=mongod, root=place.root, output=output, log=place.log)
            raise EmbeddedError(why)
    raise EmbeddedError(
        f"mongod cannot listen on any port of 127.0.0.1 from {PORTS[0]} to {PORTS[-1]}: "
        f"look into {place.log}, {OR_ANOTHER}"
    )


def _await_release(place: _Place) -> None:
    """Lets a mongod that was killed let go of the data; one that goes on having them says so
    itself to the one that is started."""
    with suppress(FileNotFoundError), (place.data / "mongod.lock").open("rb+") as lock:
        _until(lambda: _try_lock(lock.fileno()), RELEASE_WITHIN)


def _free_ports(place: _Place) -> Iterator[int]:
    """Loopback ports that can be bound now: the last one first, so that a URI outlives a restart,
    also of a mongod that still lets go of it."""
    with suppress(OSError, ValueError):
        last = int((place.root / "port").read_text())
        is_free = _until(lambda: _is_free(last) or None, PORT_WITHIN)
        if is_free and last in PORTS:
            yield last
    first = zlib.crc32(bytes(place.data)) % len(PORTS)
    yield from filter(_is_free, (*PORTS[first:], *PORTS[:first]))


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _spawn(place: _Place, mongod: Path, port: int, output: Path) -> EmbeddedMongoDB | int:
    """Starts mongod in a session of its own and waits until it serves, or ends with an exit
    code."""
    with suppress(FileNotFoundError):  # what a failed start logs is then all about that start
        place.log.replace(place.root / "mongod.log.old")
    launcher = launch(mongod, port, data=place.data, log=place.log, key=place.key, output=output)
    try:
        return _wait(place, port, launcher.poll)
    finally:
        launcher.kill()
        launcher.wait()


def _wait(place: _Place, port: int, ended: Callable[[], int | None]) -> EmbeddedMongoDB | int:
    """The mongod on that port once it serves, or its exit code once it has `ended`."""

    def check() -> EmbeddedMongoDB | int | None:
        code = ended()
        return _prepare(place, port) if code is None else code

    outcome: EmbeddedMongoDB | int | None = _until(check, START_WITHIN)
    if outcome is None:
        raise _silent(place, START_WITHIN)
    return outcome


def _silent(place: _Place, within: float) -> EmbeddedError:
    return EmbeddedError(
        f"the mongod of {place.root} has not answered for {within:g} s: it is still recovering, "
        "or hangs; "
        f"look into {place.log} and try again, or run `tontine db stop` first"
    )
