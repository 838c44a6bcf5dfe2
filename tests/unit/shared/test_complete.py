"""What the shell completes from the disk."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tontine.cli.complete import complete_arguments, complete_modules

COMMAND = click.Command("node", params=[click.Argument(["modules"])])


def modules(incomplete: str) -> list[tuple[str, str]]:
    items = complete_modules(click.Context(COMMAND), COMMAND.params[0], incomplete)
    return [(item.type, item.value) for item in items]


def arguments(incomplete: str) -> list[str]:
    return complete_arguments(click.Context(COMMAND), COMMAND.params[0], incomplete)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "tasks.py",
        "shop/__init__.py",
        "shop/tasks.py",
        "shop/inner/__init__.py",
        "docs/a.json",
        "b.json",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    monkeypatch.chdir(tmp_path)


def test_a_node_takes_modules_and_files() -> None:
    assert modules("") == [("plain", "shop"), ("plain", "tasks.py")]
    assert modules("ta") == [("plain", "tasks.py")]
    assert modules("shop.") == [("plain", "shop.inner"), ("plain", "shop.tasks")]


@pytest.mark.parametrize("elsewhere", ["shop/t", "/etc/", "nothing.here", "x" * 5000])
def test_what_is_elsewhere_is_left_to_the_shell(elsewhere: str) -> None:
    assert modules(elsewhere) == [("file", elsewhere)]


def test_arguments_are_completed_behind_an_at() -> None:
    assert arguments("") == []
    assert arguments("@") == ["@b.json"]
    assert arguments("@docs/") == ["@docs/a.json"]
    assert arguments("@nowhere/") == []
