"""MC1: a worker opens its connections and configures before its first job, and closes in
reverse."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from pathlib import Path

import pytest

from tests.support.worker_process import worker_process
from tontine.verdict import NoResult
from tontine_node.config import ContextConfig
from tontine_node.running.pipe import BrokenModules, Orders
from tontine_node.worker.main import _load
from tontine_node.worker.opening import Opening

PROFILE = """
import asyncio, os, sys, time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tontine import Context, Module

mail = Context("mail")
letters = Module("letters")


def note(what):
    with Path("notes").open("a") as file:
        file.write(what + "\\n")


def noted(name):
    note(f"open {name}")
    return name


note("import " + os.environ["SMTP_HOST"])


@mail.connection
@asynccontextmanager
async def smtp():
    asyncio.get_running_loop()
    yield noted("smtp with " + database())
    note("close smtp with " + database())


@mail.connection
@contextmanager
def database():
    yield noted("database")
    note("close database")


@mail.connection
@contextmanager
def cache():
    yield noted("cache on " + database())
    note("close cache")


@mail.connection
@asynccontextmanager
async def pool():
    yield noted("pool on " + smtp())
    note("close pool")


@mail.configure
async def configure():
    note("configure with " + pool())


@letters.on_worker_start
def started():
    note("started with " + cache())


@letters.task
async def send():
    return smtp()


@letters.task
def look():
    return database()
"""
MAIL = ContextConfig("mail", ("postal",), "postal:mail", env={"SMTP_HOST": "somewhere"})
OPENED = [
    "import somewhere",
    "open database",
    "open cache on database",
    "open smtp with database",
    "open pool on smtp with database",
    "configure with pool on smtp with database",
    "started with cache on database",
]
CLOSED = ["close pool", "close smtp with database", "close cache", "close database"]


def notes(directory: Path) -> list[str]:
    return (directory / "notes").read_text().splitlines()


def broken_by(text: str, directory: Path) -> BrokenModules:
    """What a worker would say whose profile is this one; it has closed what it had opened."""
    file = directory / "postal.py"
    file.write_text(PROFILE + text)
    spec = importlib.util.spec_from_file_location("profile_of_a_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loop = asyncio.new_event_loop()
    opening = Opening(module.mail, loop)
    broken = opening.get_ready()
    opening.close()
    loop.close()
    assert broken is not None
    return broken


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, on the path of modules, with the variables of the context."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SMTP_HOST", "somewhere")
    return tmp_path


def line_of(pattern: str, directory: Path) -> int:
    lines = (directory / "postal.py").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if re.search(pattern, line))


def test_a_worker_is_ready_once_all_is_open_and_closes_in_reverse_when_retired(
    tmp_path: Path,
) -> None:
    (tmp_path / "postal.py").write_text(PROFILE)
    with worker_process(MAIL, tmp_path) as worker:
        assert "letters.send" in worker.hello().tasks
        assert notes(tmp_path) == OPENED
        assert worker.run("letters.send") == "smtp with database"
        assert worker.run("letters.look") == "database"
        worker.order(Orders(retire=True))
        assert worker.end() == 0
    assert notes(tmp_path) == [*OPENED, *CLOSED]


def test_a_worker_that_is_told_to_retire_while_it_opens_closes_what_it_has_opened(
    tmp_path: Path,
) -> None:
    (tmp_path / "postal.py").write_text(PROFILE)
    with worker_process(MAIL, tmp_path) as worker:
        worker.order(Orders(retire=True))
        assert worker.end() == 0
    assert notes(tmp_path) == [*OPENED, *CLOSED]


def test_a_worker_without_a_context_ends_when_retired(tmp_path: Path) -> None:
    (tmp_path / "postal.py").write_text(PROFILE)
    plain = ContextConfig("default", ("postal",), env=MAIL.env)
    with worker_process(plain, tmp_path) as worker:
        worker.hello()
        how = worker.run("letters.send")
        assert isinstance(how, NoResult)
        assert how.type == "NotOpen"
        told = "the connection smtp belongs to context mail; this task runs in default"
        assert how.message == told
        worker.order(Orders(retire=True))
        assert worker.end() == 0


FAILS = """
@mail.connection
@asynccontextmanager
async def broken():
    raise ConnectionRefusedError("nobody\\n  listens")
    yield
"""


def test_a_connection_that_fails_is_told_with_its_place_and_what_was_open_is_closed(
    here: Path,
) -> None:
    broken = broken_by(FAILS, here)
    place = f"postal.py:{line_of('raise ConnectionRefused', here)}"
    why = f"cannot be opened: ConnectionRefusedError: nobody listens ({place})"
    assert broken == BrokenModules(f"the connection broken of context mail {why}", "connection")
    assert notes(here) == [*OPENED[:5], *CLOSED]


def test_a_sync_connection_that_fails_is_told_likewise(here: Path) -> None:
    text = FAILS.replace("async ", "").replace("asynccontext", "context")
    broken = broken_by(text.replace("ConnectionRefusedError", "SystemExit"), here)
    assert broken.why.startswith("the connection broken of context mail cannot be opened: SystemEx")
    assert broken.phase == "connection"
    assert notes(here) == [*OPENED[:3], *CLOSED[2:]]


def test_a_place_is_the_user_s_also_where_a_library_fails(here: Path) -> None:
    text = FAILS.replace(
        'raise ConnectionRefusedError("nobody\\n  listens")',
        'await asyncio.open_connection("127.0.0.1", 1)',
    )
    broken = broken_by(text, here)
    assert f"(postal.py:{line_of('open_connection', here)})" in broken.why


@pytest.mark.parametrize("colour", ["", "async "])
def test_configure_that_fails_is_told_with_its_place(here: Path, colour: str) -> None:
    text = f'mail.configured = None\n@mail.configure\n{colour}def setup():\n    {{}}["key"]\n'
    broken = broken_by(text, here)
    place = f"postal.py:{line_of('key', here)}"
    told = f"setup() of context mail failed: KeyError: 'key' ({place})"
    assert broken == BrokenModules(told, "configure")
    assert notes(here) == [*OPENED[:5], *CLOSED]


def test_what_gives_no_context_manager_is_a_mistake_in_the_configuration(here: Path) -> None:
    broken = broken_by("\n@mail.connection\ndef address():\n    return 'host'\n", here)
    place = f"postal.py:{line_of('@mail.connection', here)}"
    assert "the connection address of context mail cannot be entered: it gives a str" in broken.why
    assert broken.phase == "configuration"
    assert place.startswith("postal.py")


@pytest.mark.parametrize(
    ("profile", "why", "phase"),
    [
        (
            "letters_and_mail:letters",
            "is no tontine.Context: it is of type tontine.module.M",
            "conf",
        ),
        ("letters_and_mail:mial", "no mial in letters_and_mail; was mail meant?", "configuration"),
        ("nowhere:mail", "there is no Python module nowhere", "configuration"),
        (
            "failing:mail",
            "failing:mail cannot be imported: ZeroDivisionError",
            "import",
        ),
    ],
)
def test_a_profile_that_cannot_be_had_is_told(
    here: Path, profile: str, why: str, phase: str
) -> None:
    (here / "failing.py").write_text("1 / 0")
    (here / "letters_and_mail.py").write_text(PROFILE)
    broken = _load(ContextConfig("mail", ("letters_and_mail",), profile))
    assert isinstance(broken, BrokenModules)
    assert why in broken.why
    assert broken.phase.startswith(phase)


def test_a_connection_that_does_not_close_does_not_keep_the_worker(tmp_path: Path) -> None:
    text = """
@mail.connection
@contextmanager
def stubborn():
    yield
    note("closing for ever")
    time.sleep(3600)

@mail.connection
@asynccontextmanager
async def unhappy():
    yield
    raise RuntimeError("does not like to be closed")
"""
    (tmp_path / "postal.py").write_text(PROFILE + text)
    with worker_process(MAIL, tmp_path) as worker:
        worker.hello()
        worker.order(Orders(retire=True))
        assert worker.end() == 0
        said = worker.log.read_text()
    assert notes(tmp_path)[len(OPENED) :] == [*CLOSED[:2], "closing for ever"]
    assert "the connection unhappy of context mail could not be closed" in said
    assert "does not like to be closed" in said
    assert "the connections did not close within 5 s" in said
