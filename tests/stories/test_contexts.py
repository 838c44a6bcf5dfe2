"""docs/contexts.md and examples/mail: a node whose workers have a mail server open, or wait for
it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import ROOT
from tests.support.typed import read

EXAMPLE = ROOT / "examples" / "mail"
PAGE = (ROOT / "docs" / "contexts.md").read_text()


def test_the_files_of_the_page_are_those_of_the_example() -> None:
    page = read(PAGE)
    own = {path.name: path.read_text().strip() for path in EXAMPLE.glob("*.py")}
    assert {name: page.text(name).strip() for name in own} == own
    assert (EXAMPLE / "tontine.toml").read_text() in PAGE


@pytest.mark.story
@pytest.mark.long
def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    page = read(PAGE)
    for name in page.files:
        (tmp_path / name).write_text(page.text(name))
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "4 passed" in ended.stdout, ended.stdout
