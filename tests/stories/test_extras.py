"""The plain install, without any extra: what needs one says which."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import ROOT

pytestmark = pytest.mark.story

BLOCKER = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec


def find_spec(name, path=None, target=None):
    extras = ("textual", "aiohttp", "fiftyone", "motor", "opentelemetry", "prometheus_client")
    return None if name.partition(".")[0] in extras else find(name, path, target)


PathFinder.find_spec = find_spec
"""


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, str]:
    """An environment in which the packages of the extras cannot be imported, and no mongod is on
    the path."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TONTINE_")}
    return kept | {
        "PYTHONPATH": str(tmp_path),
        "PATH": "",
        "TONTINE_HOME": str(tmp_path / "home"),
        "TERM": "xterm",
    }


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tontine", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60, check=False
    )


def test_the_embedded_default_names_its_extra(plain: dict[str, str]) -> None:
    for arguments in (
        ["jobs"],
        ["node", "--embedded", "tests.support.tasks"],
        ["demo"],
        ["db", "start"],
    ):
        ended = run(plain, *arguments)
        assert ended.returncode == 2
        assert "tontine[embedded]" in ended.stderr
        assert len(ended.stderr.strip().splitlines()) == 1


def test_the_screen_of_the_observer_names_its_extra(
    plain: dict[str, str], mongo_uri: str, database: str
) -> None:
    command = [
        sys.executable,
        "-m",
        "tontine",
        "observe",
        "--uri",
        mongo_uri,
        "--database",
        database,
    ]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=plain
    ) as process:
        os.close(theirs)
        assert process.wait(60) == 2
        said = os.read(ours, 10_000).decode()
        os.close(ours)
    assert "tontine[observer]" in said


def test_the_page_of_the_observer_names_its_extra(plain: dict[str, str]) -> None:
    ended = run(plain, "observe", "--web")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "tontine[web]" in ended.stderr


def test_looking_once_and_submitting_need_no_extra(
    plain: dict[str, str], mongo_uri: str, database: str
) -> None:
    where = ("--uri", mongo_uri, "--database", database)
    assert run(plain, "submit", "story.double", '{"x": 1}', *where).returncode == 0
    once = run(plain, "observe", "--once", *where)
    assert "1 queued" in once.stdout, once.stderr


def test_metrics_name_their_extra(plain: dict[str, str]) -> None:
    ended = run(plain, "metrics")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "tontine[metrics]" in ended.stderr


def test_tracing_names_its_extra(plain: dict[str, str]) -> None:
    command = [sys.executable, "-c", "import tontine.otel"]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=plain, timeout=60, check=False
    )
    assert ended.stderr.strip().endswith(
        "tontine.otel needs the 'otel' extra: pip install 'tontine[otel]'"
    )
