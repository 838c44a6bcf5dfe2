"""What a newcomer relies on: the README's commands, the scripts, the wheel, the changelog."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"tontine": "shared", "tontine_node": "node", "tontine_observer": "observer"}
DRAWERS = {"utils", "common", "helpers", "types", "base"}
SCRIPTS = [*sorted((ROOT / "scripts").iterdir()), ROOT / ".ci/run"]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return loaded


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names in a wheel of this repo, by the build backend itself: an isolated build needs a
    network."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stderr
    (built,) = target.glob("tontine-*.whl")
    with ZipFile(built) as archive:
        return archive.namelist()


def readme_commands() -> list[str]:
    """The lines that start with `scripts/` in the README's shell blocks."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    return [line for block in blocks for line in block.splitlines() if line.startswith("scripts/")]


def package_files() -> Iterator[str]:
    """Every file of the three packages, as the wheel names it."""
    for package, parent in PACKAGES.items():
        for path in (ROOT / parent / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(ROOT / parent).as_posix()


def test_two_commands_in_the_readme_do_all_set_up() -> None:
    assert readme_commands() == ["scripts/demo", "scripts/check"]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    _, tests = readme_commands()
    last = (ROOT / ".ci/run").read_text().splitlines()[-1]
    assert last.startswith("exec ")
    assert f'/../{tests}" ' in last


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_can_be_run_and_stops_at_its_first_error(script: Path) -> None:
    text = script.read_text()
    assert os.access(script, os.X_OK)
    assert text.startswith("#!/usr/bin/env ")
    if text.startswith("#!/usr/bin/env bash\n"):
        assert "\nset -euo pipefail\n" in text
        subprocess.run(["bash", "-n", script], check=True)


def test_bootstrap_says_which_python_it_needs(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/bootstrap").write_text((ROOT / "scripts/bootstrap").read_text())
    old = tmp_path / "bin"
    old.mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        (old / name).write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 || exit 1\n')
        (old / name).chmod(0o755)
    run = subprocess.run(
        ["bash", "scripts/bootstrap"],
        cwd=tmp_path,
        env={"PATH": f"{old}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr == "bootstrap: Python 3.11 or newer is needed; found Python 3.9.2\n"
    assert not (tmp_path / ".venv").exists()


def test_the_wheel_holds_every_file_of_the_three_packages(wheel: list[str]) -> None:
    assert [name for name in package_files() if name not in wheel] == []
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(wheel)


def test_the_wheel_holds_nothing_else_but_its_metadata_and_the_licence(
    wheel: list[str], project: dict[str, Any]
) -> None:
    metadata = f"{project['name']}-{project['version']}.dist-info"
    assert {name.split("/")[0] for name in wheel} == {*PACKAGES, metadata}
    assert f"{metadata}/licenses/LICENSE" in wheel


def test_no_module_is_a_drawer_or_named_like_one_of_the_standard_library() -> None:
    forbidden = DRAWERS | sys.stdlib_module_names
    modules = [path for name in package_files() if (path := Path(name)).suffix == ".py"]
    assert [path for path in modules if forbidden.intersection(path.with_suffix("").parts)] == []


def test_the_changelog_knows_the_version(project: dict[str, Any]) -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert project["version"] in headings or headings == ["Unreleased"]
