"""A module's origin: the source that was named, and a digest that changes with its files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tontine.module import load
from tontine.origin import origin_of


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "origin_shop"
    (package / "deep").mkdir(parents=True)
    for file in ("__init__.py", "tasks.py", "deep/__init__.py", "deep/more.py"):
        (package / file).touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    return package


def test_a_digest_is_of_the_whole_package_that_a_module_is_in(package: Path) -> None:
    before = origin_of("origin_shop.tasks")
    assert before.source == "origin_shop.tasks"
    assert origin_of("origin_shop.tasks:shop").digest == before.digest
    assert origin_of("origin_shop.tasks") == before
    (package / "deep" / "more.py").write_text("x = 1")
    assert origin_of("origin_shop.tasks").digest != before.digest


def test_that_of_an_inner_package_does_not_change_with_the_outer(package: Path) -> None:
    before = origin_of("origin_shop.deep.more")
    (package / "tasks.py").write_text("x = 1")
    assert origin_of("origin_shop.deep.more") == before


def test_a_file_that_is_renamed_or_that_is_no_code_is_told_apart(package: Path) -> None:
    before = origin_of("origin_shop.tasks")
    (package / "notes.txt").write_text("no code")
    assert origin_of("origin_shop.tasks") == before
    (package / "tasks.py").rename(package / "jobs.py")
    assert origin_of("origin_shop.tasks").digest != before.digest


def test_the_same_files_elsewhere_have_the_same_digest(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tasks.py").write_text("x = 1")
    one, two = (origin_of(str(tmp_path / name / "tasks.py")) for name in ("one", "two"))
    assert one.digest == two.digest


def test_nothing_is_imported_for_it_and_what_is_not_there_has_none(package: Path) -> None:
    assert origin_of("origin_shop.tasks").digest
    assert "origin_shop" not in sys.modules
    assert [origin_of(name).digest for name in ("no_such_thing.at.all", "sys", "none.py")] == [
        ""
    ] * 3


def test_a_library_tells_where_each_module_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "origin_tasks.py"
    file.write_text("from tontine import Module\none, two = Module('one'), Module('two')\n")
    told = load([f"{file}:two", str(file)]).describe()
    assert [(one["name"], one["source"]) for one in told] == [
        ("two", f"{file}:two"),
        ("one", str(file)),
    ]
    assert len({one["digest"] for one in told}) == 1
