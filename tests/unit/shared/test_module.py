"""Modules: how a function gets its name, and how a name finds its function."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from tontine.errors import ConfigError, UnknownTask
from tontine.module import Library, Module, Task, load
from tontine_node.running import declared

SHOP = """
from tontine import Module

shop = Module({name!r}, version="1.2.0", authors=["Shop team <shop@example.org>"])
not_a_module = 5

@shop.task(max_attempts=4, timeout="30s")
def resize(image: str, width: int = 800) -> str:
    return image
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], Path]]:
    """Writes Python files that can be imported; forgets them at the end."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def write(name: str, text: str) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        importlib.invalidate_caches()
        return path

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def task_of(function: Callable[..., Any]) -> Task:
    return Task("shop.task", function)


def test_a_task_is_named_after_its_module_and_function() -> None:
    shop = Module("shop")

    @shop.task
    def resize(image: str) -> str:
        return image.upper()

    @shop.task(name="mail", max_attempts=3, timeout="1m", on_lost="fail")
    async def send(to: str) -> None: ...

    assert list(shop.tasks) == ["shop.resize", "shop.mail"]
    assert resize("a") == "A", "the function stays what it was"
    mail = shop.tasks["shop.mail"]
    assert (mail.max_attempts, mail.timeout, mail.on_lost, mail.is_async) == (3, 60, "fail", True)
    plain = shop.tasks["shop.resize"]
    assert (plain.max_attempts, plain.timeout, plain.on_lost, plain.is_async) == (
        1,
        None,
        "retry",
        False,
    )


def test_a_task_cannot_be_defined_twice() -> None:
    shop = Module("shop")
    shop.task(name="x")(lambda: None)
    with pytest.raises(ConfigError, match=r"shop\.x is defined twice"):
        shop.task(name="x")(lambda: None)


@pytest.mark.parametrize("name", ["", "my shop", "1st", "a..b", ".a", "a-b"])
def test_a_module_needs_a_name_that_python_could_have(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a module"):
        Module(name)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"timeout": 0},
        {"timeout": "-1s"},
        {"timeout": -1},
        {"on_lost": "maybe"},
    ],
)
def test_a_task_option_that_cannot_work_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Module("shop").task(**options)


@pytest.mark.parametrize("args", [{"image": "a"}, {"image": "a", "width": 1}])
def test_arguments_that_fit_are_no_misfit(args: dict[str, Any]) -> None:
    def resize(image: str, width: int = 800) -> None: ...

    assert task_of(resize).misfit(args) is None


@pytest.mark.parametrize(
    ("args", "word"),
    [({}, "image"), ({"image": "a", "height": 1}, "height"), ({"width": 1}, "image")],
)
def test_arguments_that_do_not_fit_are_told_with_the_signature(
    args: dict[str, Any], word: str
) -> None:
    def resize(image: str, width: int = 800) -> None: ...

    reason = task_of(resize).misfit(args)
    assert reason is not None
    assert "width" in reason
    assert word in reason.rsplit(":", 1)[-1]


def test_a_function_that_takes_any_keywords_takes_them_all() -> None:
    def anything(**more: Any) -> None: ...

    def nothing_by_name(image: str, /) -> None: ...

    assert task_of(anything).misfit({"self": 1, "args": 2, "kwargs": 3}) is None
    assert task_of(nothing_by_name).misfit({"image": "a"}) is not None


def test_a_library_finds_tasks_of_all_its_modules() -> None:
    one, two = Module("one"), Module("two", version="2", authors=["A"])
    one.task(name="x")(lambda: 1)
    two.task(name="x")(lambda: 2)
    library = Library((one, two))
    assert [library.find(name).function() for name in ("one.x", "two.x")] == [1, 2]
    assert library.describe()[1] == {
        "name": "two",
        "version": "2",
        "authors": ["A"],
        "tasks": ["two.x"],
    }
    with pytest.raises(UnknownTask, match=r"one\.y"):
        library.find("one.y")


def test_modules_are_loaded_by_import_name_by_attribute_and_from_a_file(
    write: Callable[[str, str], Path],
) -> None:
    write("first_shop", SHOP.format(name="first"))
    write("second_shop", SHOP.format(name="second"))
    path = write("third_shop", SHOP.format(name="third"))
    library = load(["first_shop", "second_shop:shop", str(path)])
    assert [module.name for module in library.modules] == ["first", "second", "third"]
    assert library.find("third.resize").timeout == 30


def test_one_module_given_twice_is_loaded_once(write: Callable[[str, str], Path]) -> None:
    write("only_shop", SHOP.format(name="only"))
    write("reexport", "from only_shop import shop")
    assert len(load(["only_shop", "only_shop:shop", "reexport"]).modules) == 1


def test_two_modules_of_one_name_are_refused(write: Callable[[str, str], Path]) -> None:
    write("twin_a", SHOP.format(name="twin"))
    write("twin_b", SHOP.format(name="twin"))
    with pytest.raises(ConfigError, match="two different modules are named 'twin'"):
        load(["twin_a", "twin_b"])


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (
            {"order": 1, "cent": 1},
            (
                "missing a required argument: 'cents'; it takes no 'cent' (was 'cents' instead of "
                "'cent' meant?)"
            ),
        ),
        (
            {"order": 1, "cents": 1, "cent": 1, "zzz": 2},
            "got an unexpected keyword argument 'cent'; it takes no 'zzz'",
        ),
        (
            {"order": 1, "cents": 1, "nots": 1},
            "got an unexpected keyword argument 'nots' (was 'note' instead of 'nots' meant?)",
        ),
        ({"order": 1}, "missing a required argument: 'cents'"),
    ],
)
def test_a_misspelt_argument_is_told_beside_the_one_that_is_missing(
    args: dict[str, Any], told: str
) -> None:
    def pay(order: int, cents: int, note: str = "") -> None: ...

    assert str(task_of(pay).misfit(args)).endswith(f": {told}")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bare_shop:nothing", "nothing is not a tontine.Module"),
        ("bare_shop:not_a_module", "not_a_module is not a tontine.Module"),
        ("empty_shop", "empty_shop has no tontine.Module"),
        ("no_such_file.py", "there is no file no_such_file.py$"),
        ("no_such_shop", "there is no Python module no_such_shop$"),
    ],
)
def test_what_cannot_be_loaded_says_why(
    write: Callable[[str, str], Path], name: str, reason: str
) -> None:
    write("bare_shop", SHOP.format(name="bare"))
    write("empty_shop", "")
    with pytest.raises(ConfigError, match=reason):
        load([name])


def test_what_cannot_be_imported_fails_as_python_says(write: Callable[[str, str], Path]) -> None:
    write("broken_shop", "1 / 0")
    with pytest.raises(ZeroDivisionError):
        load(["broken_shop"])
    write("needy_shop", "import no_such_library")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load(["needy_shop"])


def test_a_misspelt_module_or_file_is_answered_with_the_nearest(
    write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = write("parcels", "").parent
    package = directory / "depot"
    package.mkdir()
    for name in ("__init__", "tasks"):
        (package / f"{name}.py").touch()
    monkeypatch.chdir(directory)
    for name, told in {
        "depot.taks": "there is no Python module depot.taks; did you mean depot.tasks?",
        "depto.tasks": "there is no Python module depto; did you mean depot.tasks?",
        "parcel": "there is no Python module parcel; did you mean parcels?",
        str(directory / "parcel.py"): f"did you mean {directory / 'parcels.py'}?",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(told)):
            load([name])


def test_a_duration_or_a_time_that_is_none_names_its_argument_or_its_task() -> None:
    shop = Module("shop")
    with pytest.raises(ConfigError, match=r"^timeout='30 parsecs' is not a duration"):
        shop.task(timeout="30 parsecs")
    with pytest.raises(ConfigError, match=r"^every='5 minutes' is not a duration"):
        shop.schedule(every="5 minutes")
    with pytest.raises(ConfigError, match=r"^the schedule of shop.sweep cannot work: .*cron"):

        @shop.schedule(cron="61 * * * *")
        def sweep() -> None: ...


def declaring(version: str = "1.0") -> Module:
    shop = Module("shop", version=version)

    @shop.schedule(cron="0 3 * * *", timezone="Europe/Paris", overlap="skip", max_age="1h")
    @shop.task
    def nightly() -> None: ...

    @shop.task(name="clean")
    @shop.schedule(every="10m", args={"older_than": 7})
    @shop.schedule(every=60, name="shop.often", args={"older_than": 1})
    def tidy(older_than: int) -> None: ...

    assert nightly() is None, "the function stays what it was"
    return shop


def test_a_schedule_is_declared_above_or_below_the_task_and_named_after_it() -> None:
    nightly, often, tidy = declaring().schedules()
    assert (nightly.name, nightly.task, nightly.cron) == (
        "shop.nightly",
        "shop.nightly",
        "0 3 * * *",
    )
    assert (nightly.timezone, nightly.overlap, nightly.max_age) == ("Europe/Paris", "skip", 3600)
    assert (tidy.name, tidy.task, tidy.every, tidy.args) == (
        "shop.clean",
        "shop.clean",
        600,
        {"older_than": 7},
    )
    assert (often.name, often.task) == ("shop.often", "shop.clean")
    assert nightly.declared is not None
    assert (nightly.declared.module, nightly.declared.version) == ("shop", "1.0")


def test_a_node_s_record_names_what_a_module_declares_and_only_then() -> None:
    assert declaring().describe()["schedules"] == ["shop.clean", "shop.nightly", "shop.often"]
    assert "schedules" not in Module("plain").describe()


def test_the_digest_of_a_declaration_is_of_what_it_says_alone() -> None:
    digests = [
        [one.declared.digest for one in declaring(version).schedules() if one.declared]
        for version in "12"
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 3


def test_a_schedule_that_can_never_work_is_told_when_it_is_declared_or_loaded(
    write: Callable[[str, str], Path],
) -> None:
    shop = Module("shop")
    with pytest.raises(ConfigError, match="not a cron expression"):
        shop.schedule(cron="every day")(len)
    with pytest.raises(ConfigError, match="either a cron expression or an interval"):
        shop.schedule()(len)
    head = "from tontine import Module\nshop = Module('shop')\n"
    for number, (text, why) in enumerate(
        [
            ("@shop.schedule(every=5)\ndef f(): ...\n", "is no task"),
            (
                "@shop.schedule(every=5)\n@shop.task\ndef f(x): ...\n",
                "can never run: arguments do not fit",
            ),
            (
                "@shop.schedule(every=5)\n@shop.schedule(every=6)\n@shop.task\ndef f(): ...\n",
                "declared twice",
            ),
            (
                "@shop.schedule(every=5, args={'x': object()})\n@shop.task\ndef f(x): ...\n",
                "cannot be stored",
            ),
        ]
    ):
        write(f"declares_{number}", head + text)
        with pytest.raises(ConfigError, match=why):
            load([f"declares_{number}"])


def test_declared_schedules_reach_the_master_as_they_are() -> None:
    shop = Module("shop", version="2.0")
    moment, token = datetime(2026, 1, 1, tzinfo=UTC), uuid4()

    @shop.schedule(every=60, args={"since": moment, "token": token, "raw": b"\0\xff"})
    @shop.task
    def report(since: datetime, token: UUID, raw: bytes) -> None: ...

    (one,) = declared.unpack(orjson.loads(orjson.dumps(declared.pack(Library((shop,))))))
    assert one == shop.schedules()[0]
    assert one.args == {"since": moment, "token": token, "raw": b"\0\xff"}
    assert report is not None
