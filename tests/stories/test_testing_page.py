"""The tests of docs/testing.md, run as they stand there by an application's own pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import ROOT
from tests.support.typed import read

pytestmark = [pytest.mark.story, pytest.mark.long]

PAGE = ROOT / "docs" / "testing.md"


def test_the_tests_of_the_page_pass(mongo_uri: str, tmp_path: Path) -> None:
    page = read(PAGE.read_text())
    for name in page.files:
        (tmp_path / name).write_text(page.text(name))
    settings = (
        "[pytest]\npythonpath = .\nasyncio_mode = "
        "auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    (tmp_path / "pytest.ini").write_text(settings)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        "--durations",
        "3",
    ]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"TONTINE_TEST_URI": mongo_uri},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "11 passed" in ended.stdout, ended.stdout
