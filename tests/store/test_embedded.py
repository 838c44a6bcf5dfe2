"""The embedded MongoDB with real processes: it starts once, recovers, and says what went wrong."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from click.testing import CliRunner
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pymongo.uri_parser import parse_uri
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tests.support.mongod import free_port, restarted
from tontine.cli.db import db
from tontine.embedded import server as embedded
from tontine.errors import EmbeddedError, MissingExtra
from tontine.uri import shown

ENSURE = "from tontine.embedded import server as embedded; print(embedded.ensure(), flush=True)"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home with nothing running in it, before and after, and ports that no server of
    another test looks for."""
    home = (tmp_path / "home").resolve()
    monkeypatch.setenv("TONTINE_HOME", str(home))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = embedded.PORTS.stop + 100 * (worker % 20)
    monkeypatch.setattr(embedded, "PORTS", range(first, first + 100))
    yield home
    for process in mongods(home):
        process.kill()
    eventually(lambda: not mongods(home))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes TONTINE_MONGOD a shell script."""

    def write(script: str) -> Path:
        path = tmp_path / "fake-mongod"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("TONTINE_MONGOD", str(path))
        return path

    return write


def mongods(home: Path) -> list[psutil.Process]:
    """Every live process with a path below that home on its command line; a zombie has none."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(argument.startswith(f"{home}/") for argument in process.info["cmdline"] or ())
    ]


def eventually(check: Callable[[], Any], within: float = 10) -> Any:
    return Retrying(
        stop=stop_after_delay(within),
        wait=wait_fixed(0.01),
        retry=retry_if_result(lambda it: not it),
    )(check)


def put(uri: str, word: str) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(
        uri, w="majority", serverSelectionTimeoutMS=5000
    )
    with client:
        client.tests.words.insert_one({"_id": word})


def words(uri: str) -> list[str]:
    client: MongoClient[dict[str, Any]] = MongoClient(uri, serverSelectionTimeoutMS=5000)
    with client:
        return [document["_id"] for document in client.tests.words.find().sort("_id")]


def password_of(uri: str) -> str:
    return str(parse_uri(uri)["password"])


def as_nobody(port: int, command: str, *arguments: Any, **options: Any) -> Any:
    """What a user of this machine gets who only knows the port."""
    client: MongoClient[dict[str, Any]] = MongoClient("127.0.0.1", port, directConnection=True)
    with client:
        return client.admin.command(command, *arguments, **options)


def modes(home: Path) -> dict[str, int]:
    root = home / "mongodb"
    return {path.name: path.stat().st_mode & 0o777 for path in (root, *root.iterdir())}


@contextmanager
def of_an_earlier_version(home: Path) -> Iterator[int]:
    """A mongod as versions without access control started it, with a word in it, and all that they
    left open."""
    root = home / "mongodb"
    (root / "data").mkdir(parents=True)
    port = free_port()
    flags = (
        f"--dbpath {root}/data --port {port} --logpath {root}/mongod.log --bind_ip 127.0.0.1 "
        "--nounixsocket"
    )
    command = [str(embedded.find_mongod()), *flags.split(), "--replSet", "tontine"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            (root / "port").write_text(str(port))
            members = [{"_id": 0, "host": f"127.0.0.1:{port}"}]
            as_nobody(port, "replSetInitiate", {"_id": "tontine", "members": members})
            eventually(lambda: as_nobody(port, "hello")["isWritablePrimary"])
            put(f"mongodb://127.0.0.1:{port}/?replicaSet=tontine", "kept")
            yield port
        finally:
            process.kill()


def kill(running: embedded.EmbeddedMongoDB) -> None:
    os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: not mongods(running.home))


def launch(script: str = ENSURE, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, **options
    )


def test_it_starts_once_and_keeps_address_and_data_over_a_restart(home: Path) -> None:
    assert embedded.status(home) is None
    running = embedded.start(home)

    assert embedded.ensure(home) == running.uri
    assert embedded.start(home) == embedded.status(home) == running
    assert [process.pid for process in mongods(home)] == [running.pid]
    assert (running.is_guarded, f"@127.0.0.1:{running.port}/" in running.uri) == (True, True)
    assert running.home == home
    put(running.uri, "kept")

    assert embedded.stop(home) is True
    assert mongods(home) == []
    assert embedded.status(home) is None
    assert embedded.stop(home) is False

    assert embedded.ensure(home) == running.uri
    assert words(running.uri) == ["kept"]


def test_what_was_stopped_has_let_go_of_port_and_data(home: Path) -> None:
    for _ in range(3):
        running = embedded.start(home)
        embedded.stop(home)
        with (home / "mongodb/data/mongod.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        socket.create_server(("127.0.0.1", running.port)).close()


def test_what_was_killed_a_moment_ago_is_started_again(home: Path) -> None:
    running = embedded.start(home)
    for _ in range(3):
        kill(running)  # its command line is gone, its other threads have yet to end
        again = embedded.start(home)
        assert again.uri == running.uri
        running = again


def test_nobody_gets_in_without_the_password_or_makes_a_user(home: Path) -> None:
    running = embedded.start(home)
    for command, arguments, options in (
        ("listDatabases", (), {}),
        ("createUser", ("me",), {"pwd": "me", "roles": ["root"]}),
        ("shutdown", (), {}),
    ):
        with pytest.raises(OperationFailure, match="requires authentication"):
            as_nobody(running.port, command, *arguments, **options)


def test_a_stranger_on_its_port_gets_neither_password_nor_data(home: Path, tmp_path: Path) -> None:
    running = embedded.start(home)
    put(running.uri, "kept")
    embedded.stop(home)
    (tmp_path / f"mongod-{running.port}").mkdir()
    with restarted(tmp_path, running.port, "--replSet", "tontine"):
        members = [{"_id": 0, "host": f"127.0.0.1:{running.port}"}]
        as_nobody(running.port, "replSetInitiate", {"_id": "tontine", "members": members})
        eventually(lambda: as_nobody(running.port, "hello")["isWritablePrimary"])
        with pytest.raises(OperationFailure, match="Authentication failed"):
            put(running.uri, "taken")
        ours = embedded.start(home)
        assert ours.port != running.port
        assert words(ours.uri) == ["kept"]


def test_a_process_of_another_user_is_not_ours(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = embedded.start(home)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert embedded.status(home) is None
        assert embedded.stop(home) is False
        with pytest.raises(EmbeddedError, match=r"is another user's: .*TONTINE_HOME"):
            embedded.start(home)
    assert embedded.status(home) == running


def test_what_is_open_to_others_is_closed(home: Path) -> None:
    running = embedded.start(home)
    assert not any(mode & 0o077 for mode in modes(home).values())
    for path in (home / "mongodb", *(home / "mongodb").iterdir()):
        path.chmod(0o777)

    embedded.status(home)
    assert modes(home)["key"] == 0o700
    kill(running)
    embedded.start(home)
    assert not any(mode & 0o077 for mode in modes(home).values())


def test_a_running_one_of_an_earlier_version_works_on_and_is_closed_by_a_restart(
    home: Path,
) -> None:
    with of_an_earlier_version(home) as port:
        running = embedded.status(home)
        assert running is not None
        assert (running.port, running.is_guarded) == (port, False)
        assert words(running.uri) == ["kept"]
        assert embedded.start(home) == running
        assert "tontine db stop" in CliRunner().invoke(db, ["status"]).stdout
        as_nobody(port, "listDatabases")
        embedded.stop(home)

    restarted = embedded.start(home)
    assert (restarted.is_guarded, words(restarted.uri)) == (True, ["kept"])
    assert password_of(restarted.uri) == password_of(running.uri)
    with pytest.raises(OperationFailure, match="requires authentication"):
        as_nobody(restarted.port, "listDatabases")
    assert "tontine db stop" not in CliRunner().invoke(db, ["status"]).stdout


def test_data_of_an_earlier_version_gets_its_user(home: Path) -> None:
    with of_an_earlier_version(home):
        pass
    running = embedded.start(home)
    assert (running.is_guarded, words(running.uri)) == (True, ["kept"])
    assert not any(mode & 0o077 for mode in modes(home).values())


def test_what_a_killed_starter_left_is_finished(home: Path) -> None:
    key = home / "mongodb" / "key"
    key.parent.mkdir(parents=True)
    (key.parent / "key.new").write_text("half")
    first = embedded.start(home)
    put(first.uri, "kept")

    client: MongoClient[dict[str, Any]] = MongoClient(first.uri)
    with client:  # as if it had been killed before it made the user
        client.admin.command("dropUser", "tontine")
    assert embedded.status(home) == first
    assert words(first.uri) == ["kept"]

    kill(first)
    key.write_text("")  # or while it wrote the key, on a disk that was full
    second = embedded.start(home)
    assert password_of(second.uri) != password_of(first.uri)
    assert words(second.uri) == ["kept"]


def test_a_lost_key_is_named_and_a_restart_makes_another(home: Path) -> None:
    running = embedded.start(home)
    put(running.uri, "kept")
    (home / "mongodb" / "key").unlink()
    for look in (embedded.status, embedded.start):
        with pytest.raises(
            EmbeddedError, match=r"/key is not what .*`tontine db stop` and `tontine db start`"
        ):
            look(home)
    assert words(running.uri) == ["kept"]

    assert embedded.stop(home) is True
    again = embedded.start(home)
    assert again.uri != running.uri
    assert words(again.uri) == ["kept"]


def test_it_listens_on_loopback_alone_and_has_change_streams(home: Path) -> None:
    running = embedded.start(home)
    listening = [
        connection.laddr
        for connection in psutil.Process(running.pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening == [("127.0.0.1", running.port)]

    client: MongoClient[dict[str, Any]] = MongoClient(running.uri)
    with client, client.tests.watch() as stream:
        client.tests.words.insert_one({"_id": "seen"})
        assert next(stream)["fullDocument"] == {"_id": "seen"}


def test_four_processes_at_once_end_up_with_one(home: Path) -> None:
    starters = [launch() for _ in range(4)]
    uris = {starter.communicate(timeout=60)[0] for starter in starters}

    assert len(uris) == 1
    assert len(mongods(home)) == 1
    assert embedded.ensure(home) == uris.pop().strip()


def test_it_outlives_its_starter_and_a_ctrl_c_there(home: Path) -> None:
    with launch(
        f"{ENSURE}; input()", start_new_session=True, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as starter:
        assert starter.stdout
        uri = starter.stdout.readline().strip()
        assert psutil.Process(starter.pid).children() == []
        os.killpg(starter.pid, signal.SIGINT)
        starter.communicate(timeout=10)

    assert starter.returncode != 0
    put(uri, "alive")
    assert embedded.ensure(home) == uri
    assert words(uri) == ["alive"]


def test_after_a_kill_it_serves_the_same_data_at_the_same_address(home: Path) -> None:
    first = embedded.start(home)
    put(first.uri, "kept")
    kill(first)
    assert embedded.status(home) is None

    second = embedded.start(home)
    assert second.uri == first.uri
    assert second.pid != first.pid
    assert words(second.uri) == ["kept"]


def test_a_port_that_was_taken_meanwhile_is_replaced(home: Path) -> None:
    first = embedded.start(home)
    put(first.uri, "kept")
    kill(first)
    squatter = home / "another home"
    (squatter / "mongodb").mkdir(parents=True)
    (squatter / "mongodb" / "port").write_text(str(first.port))
    assert embedded.start(squatter).port == first.port

    second = embedded.start(home)
    assert second.port != first.port
    assert words(second.uri) == ["kept"]
    assert (home / "mongodb" / "port").read_text() == str(second.port), "it stays there from now on"
    embedded.stop(squatter)
    kill(second)
    assert words(embedded.ensure(home)) == ["kept"]


def test_a_stale_lock_file_harms_no_other_process(home: Path) -> None:
    with launch("input()", stdin=subprocess.PIPE) as bystander:
        first = embedded.start(home)
        kill(first)
        lock_file = home / "mongodb" / "data" / "mongod.lock"
        lock_file.write_text(f"{bystander.pid}\n")

        assert embedded.status(home) is None
        assert embedded.stop(home) is False
        second = embedded.start(home)
        assert second.pid not in (first.pid, bystander.pid)
        assert embedded.stop(home) is True

        assert bystander.poll() is None
        bystander.communicate("\n", timeout=10)
    assert bystander.returncode == 0


def test_a_running_mongod_is_found_without_its_files(home: Path) -> None:
    running = embedded.start(home)
    (home / "mongodb" / "data" / "mongod.lock").unlink()
    (home / "mongodb" / "port").unlink()

    assert embedded.start(home) == running
    assert embedded.stop(home) is True
    assert mongods(home) == []


def test_a_mongod_whose_starter_was_killed_is_taken_over(home: Path) -> None:
    def serving() -> list[psutil.Process]:
        return [process for process in mongods(home) if "mongod" in process.name()]

    with launch() as starter:
        (early,) = eventually(serving)
        starter.kill()

    assert embedded.start(home).pid == early.pid
    assert len(serving()) == 1


def test_one_that_hangs_is_reported_and_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = embedded.start(home)
    monkeypatch.setattr(embedded, "ANSWER_WITHIN", 0.2)
    monkeypatch.setattr(embedded, "START_WITHIN", 0.2)
    os.kill(running.pid, signal.SIGSTOP)
    try:
        with pytest.raises(EmbeddedError, match=r"has not answered .*mongod\.log"):
            embedded.status(home)
        with pytest.raises(EmbeddedError, match=r"has not answered .*mongod\.log"):
            embedded.start(home)
    finally:
        os.kill(running.pid, signal.SIGCONT)
    monkeypatch.undo()
    assert embedded.status(home) == running


def test_waiting_for_another_starter_has_a_bound(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "LOCK_WITHIN", 0.2)
    (home / "mongodb").mkdir(parents=True)
    with (home / "mongodb" / "lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(EmbeddedError, match="another process has been starting"):
            embedded.start(home)
    assert mongods(home) == []


def test_a_long_log_is_moved_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = embedded.start(home)
    length = running.log.stat().st_size
    monkeypatch.setattr(embedded, "LOG_LIMIT", length - 1)
    embedded.ensure(home)

    assert (home / "mongodb" / "mongod.log.old").stat().st_size >= length
    assert running.log.stat().st_size < length


@pytest.mark.parametrize("place", ["file/home", "/proc/1/home"])
def test_an_unwritable_home_is_named(place: str, home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    unwritable = tmp_path / place
    with pytest.raises(EmbeddedError, match=f"{place}/mongodb cannot be written .*TONTINE_HOME"):
        embedded.ensure(unwritable)
    assert embedded.status(unwritable) is None
    assert embedded.stop(unwritable) is False


def test_a_disk_without_space_is_named(home: Path) -> None:
    home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(home)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not permitted here")
    try:
        with pytest.raises(EmbeddedError, match=r"has \d+ MB left.*TONTINE_HOME"):
            embedded.ensure(home)
        free = os.statvfs(home).f_bavail * os.statvfs(home).f_frsize
        (home / "filler").write_bytes(bytes(free))
        with pytest.raises(EmbeddedError, match=r"is full|has 0 MB left"):
            embedded.ensure(home)
    finally:
        subprocess.run(["umount", str(home)], check=True)


def test_a_disk_that_fills_up_while_it_starts_is_named(
    home: Path, fake: Callable[[str], Path]
) -> None:
    line = {
        "s": "E",
        "msg": "WiredTiger error message",
        "attr": {"message": {"error_str": "No space left on device"}},
    }
    fake(f"echo '{orjson.dumps(line).decode()}'; exit 14")
    with pytest.raises(EmbeddedError, match=r"is full: free some space"):
        embedded.ensure(home)


def test_data_of_another_version_is_named(home: Path) -> None:
    embedded.start(home)
    embedded.stop(home)
    turtle = home / "mongodb" / "data" / "WiredTiger.turtle"
    turtle.write_text(turtle.read_text().replace("version=(major=1,", "version=(major=99,"))

    with pytest.raises(
        EmbeddedError, match=r"was written by a version of MongoDB that .*mongod cannot read"
    ):
        embedded.ensure(home)
    assert mongods(home) == []


def test_data_that_a_strange_mongod_has_is_left_to_it(home: Path, tmp_path: Path) -> None:
    data = home / "mongodb" / "data"
    data.mkdir(parents=True)
    flags = f"--port 0 --bind_ip 127.0.0.1 --nounixsocket --logpath {tmp_path}/log --dbpath {data}"
    with subprocess.Popen(
        [embedded.find_mongod(), *flags.split()], stdout=subprocess.DEVNULL
    ) as stranger:
        eventually(lambda: (data / "mongod.lock").exists() and (data / "mongod.lock").read_text())
        try:
            with pytest.raises(EmbeddedError, match="another mongod"):
                embedded.ensure(home)
            assert embedded.stop(home) is False
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_missing_shared_library_is_named_with_its_package(
    home: Path, fake: Callable[[str], Path]
) -> None:
    path = fake(
        'echo "$0: error while loading shared libraries: libcurl.so.4: cannot open shared object '
        "file: "
        'No such file or directory" >&2; exit 127'
    )
    with pytest.raises(EmbeddedError) as caught:
        embedded.ensure(home)
    assert str(caught.value).startswith(f"{path} needs the shared library libcurl.so.4")
    assert "apt-get install libcurl4" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_other_early_end_shows_its_reason_and_the_log(
    home: Path, fake: Callable[[str], Path]
) -> None:
    fake("exit 100")
    with pytest.raises(
        EmbeddedError, match=r"\(exit code 100\): it gave no reason; look into .*/mongod\.out"
    ):
        embedded.ensure(home)

    fake("echo 'Error parsing command line: unrecognised option' >&2; exit 2")
    with pytest.raises(
        EmbeddedError, match=r"\(exit code 2\): Error parsing command line: unrecognised option; "
    ):
        embedded.ensure(home)

    fake("exit 48")
    with pytest.raises(EmbeddedError, match=r"cannot listen on any port of 127\.0\.0\.1"):
        embedded.ensure(home)
    assert mongods(home) == []


def test_mongod_is_looked_for_in_the_order_that_is_promised(
    home: Path, tmp_path: Path, fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = fake("exit 0")
    assert embedded.find_mongod() == chosen

    monkeypatch.delenv("TONTINE_MONGOD")
    on_path = tmp_path / "bin" / "mongod"
    on_path.parent.mkdir()
    chosen.rename(on_path)
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert embedded.find_mongod() == on_path

    monkeypatch.setenv("PATH", "")
    bundled = tmp_path / "site-packages" / "fiftyone" / "db" / "bin" / "mongod"
    bundled.parent.mkdir(parents=True)
    bundled.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    assert embedded.find_mongod() == bundled

    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(
        MissingExtra, match=r"--uri or TONTINE_URI.*pip install 'tontine\[embedded\]'"
    ):
        embedded.find_mongod()


@pytest.mark.parametrize("name", ["nowhere/mongod", "", "plain"])
def test_a_wrong_override_is_an_error_not_a_fallback(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").touch(mode=0o644)
    monkeypatch.setenv("TONTINE_MONGOD", str(tmp_path / name))
    with pytest.raises(EmbeddedError, match=r"TONTINE_MONGOD is .*, no executable file"):
        embedded.find_mongod()


def test_a_bundled_mongod_without_its_executable_bit_is_copied(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = embedded.find_mongod()
    bundled = tmp_path / "site-packages" / "fiftyone" / "db" / "bin" / "mongod"
    bundled.parent.mkdir(parents=True)
    bundled.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    bundled.chmod(0o644)
    monkeypatch.delenv("TONTINE_MONGOD", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")

    assert embedded.find_mongod() == bundled
    embedded.start(home)
    assert (home / "mongodb" / "bin" / "mongod").read_bytes() == bundled.read_bytes()
    assert bundled.stat().st_mode & 0o777 == 0o644


def test_the_command_starts_shows_and_stops_it(home: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        outcome = CliRunner().invoke(db, arguments, catch_exceptions=False)
        return outcome.exit_code, outcome.stdout

    code, text = run("status")
    assert (code, str(home) in text) == (1, True)
    code, text = run("status", "--json")
    assert (code, orjson.loads(text)) == (1, {"running": False, "home": str(home)})

    code, text = run("uri")
    uri = text.strip()
    assert code == 0
    assert words(uri) == []
    for command in ("start", "status"):
        code, text = run(command)
        assert (code, shown(uri) in text, str(home) in text) == (0, True, True)
        code, text = run(command, "--json")
        told = orjson.loads(text)
        assert (code, told["uri"], told["home"], told["is_guarded"]) == (
            0,
            shown(uri),
            str(home),
            True,
        )
    assert password_of(uri) not in f"{shown(uri)} {embedded.start(home)}"

    code, text = run("stop")
    assert (code, "has stopped" in text) == (0, True)
    assert mongods(home) == []
    code, text = run("stop")
    assert (code, "was not running" in text) == (0, True)
