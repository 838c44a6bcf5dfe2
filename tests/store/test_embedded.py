"""The embedded MongoDB with real processes: it starts once, recovers, and says what went wrong."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from click.testing import CliRunner
from pymongo import MongoClient
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tontine import embedded
from tontine.cli.db import db
from tontine.errors import EmbeddedError, MissingExtra

ENSURE = "from tontine import embedded; print(embedded.ensure(), flush=True)"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home with nothing running in it, before and after."""
    home = (tmp_path / "home").resolve()
    monkeypatch.setenv("TONTINE_HOME", str(home))
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
    return Retrying(stop=stop_after_delay(within), wait=wait_fixed(0.01), retry=retry_if_result(lambda it: not it))(
        check
    )


def put(uri: str, word: str) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(uri, w="majority", serverSelectionTimeoutMS=5000)
    with client:
        client.tests.words.insert_one({"_id": word})


def words(uri: str) -> list[str]:
    client: MongoClient[dict[str, Any]] = MongoClient(uri, serverSelectionTimeoutMS=5000)
    with client:
        return [document["_id"] for document in client.tests.words.find().sort("_id")]


def kill(running: embedded.Running) -> None:
    os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: not mongods(running.home))


def launch(script: str = ENSURE, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, **options)


def test_it_starts_once_and_keeps_address_and_data_over_a_restart(home: Path) -> None:
    assert embedded.status(home) is None
    running = embedded.start(home)

    assert embedded.ensure(home) == running.uri
    assert embedded.start(home) == embedded.status(home) == running
    assert [process.pid for process in mongods(home)] == [running.pid]
    assert running.uri == f"mongodb://127.0.0.1:{running.port}/?replicaSet=tontine"
    assert running.home == home
    assert (home / "mongodb").stat().st_mode & 0o077 == 0
    put(running.uri, "kept")

    assert embedded.stop(home) is True
    assert mongods(home) == []
    assert embedded.status(home) is None
    assert embedded.stop(home) is False

    assert embedded.ensure(home) == running.uri
    assert words(running.uri) == ["kept"]


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
    with launch(f"{ENSURE}; input()", start_new_session=True, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as starter:
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
    taken = embedded.start(squatter).port == first.port  # unless a test beside this one was quicker

    second = embedded.start(home)
    assert second.port != first.port or not taken
    assert words(second.uri) == ["kept"]
    embedded.stop(squatter)
    kill(second)
    assert embedded.ensure(home) == second.uri


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


def test_one_that_hangs_is_reported_and_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_waiting_for_another_starter_has_a_bound(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(home)], capture_output=True, check=False
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


def test_a_disk_that_fills_up_while_it_starts_is_named(home: Path, fake: Callable[[str], Path]) -> None:
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

    with pytest.raises(EmbeddedError, match=r"was written by a version of MongoDB that .*mongod cannot read"):
        embedded.ensure(home)
    assert mongods(home) == []


def test_data_that_a_strange_mongod_has_is_left_to_it(home: Path, tmp_path: Path) -> None:
    data = home / "mongodb" / "data"
    data.mkdir(parents=True)
    flags = f"--port 0 --bind_ip 127.0.0.1 --nounixsocket --logpath {tmp_path}/log --dbpath {data}"
    with subprocess.Popen([embedded.find_mongod(), *flags.split()], stdout=subprocess.DEVNULL) as stranger:
        eventually(lambda: (data / "mongod.lock").exists() and (data / "mongod.lock").read_text())
        try:
            with pytest.raises(EmbeddedError, match="another mongod"):
                embedded.ensure(home)
            assert embedded.stop(home) is False
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_missing_shared_library_is_named_with_its_package(home: Path, fake: Callable[[str], Path]) -> None:
    path = fake(
        'echo "$0: error while loading shared libraries: libcurl.so.4: cannot open shared object file: '
        'No such file or directory" >&2; exit 127'
    )
    with pytest.raises(EmbeddedError) as caught:
        embedded.ensure(home)
    assert str(caught.value).startswith(f"{path} needs the shared library libcurl.so.4")
    assert "apt-get install libcurl4" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_other_early_end_shows_its_reason_and_the_log(home: Path, fake: Callable[[str], Path]) -> None:
    fake("exit 100")
    with pytest.raises(EmbeddedError, match=r"\(exit code 100\): it gave no reason; look into .*/mongod\.out"):
        embedded.ensure(home)

    fake("echo 'Error parsing command line: unrecognised option' >&2; exit 2")
    with pytest.raises(EmbeddedError, match=r"\(exit code 2\): Error parsing command line: unrecognised option; "):
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
    with pytest.raises(MissingExtra, match=r"--uri or TONTINE_URI.*pip install 'tontine\[embedded\]'"):
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
    assert uri.startswith("mongodb://127.0.0.1:")
    for command in ("start", "status"):
        code, text = run(command)
        assert (code, uri in text, str(home) in text) == (0, True, True)
        code, text = run(command, "--json")
        assert (code, orjson.loads(text)["uri"], orjson.loads(text)["home"]) == (0, uri, str(home))

    code, text = run("stop")
    assert (code, "has stopped" in text) == (0, True)
    assert mongods(home) == []
    code, text = run("stop")
    assert (code, "was not running" in text) == (0, True)
