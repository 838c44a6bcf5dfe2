"""The embedded MongoDB never starts or is used without a word; one of them for all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import ROOT
from tests.support.eventually import eventually
from tontine.embedded import server as embedded

pytestmark = pytest.mark.story

SUBMIT_TWICE = """
from tontine import Client
for _ in range(2):
    with Client() as client:
        client.submit("story.double", {"x": 1})
"""


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TONTINE_")}
    return kept | {"TONTINE_HOME": str(home)}


def run(home: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, *command]
    variables = environment(home) | more
    return subprocess.run(
        whole, capture_output=True, text=True, cwd=ROOT, env=variables, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of one that runs."""
    home = tmp_path_factory.mktemp("home").resolve()
    embedded.start(home)
    yield home
    embedded.stop(home)


def test_off_a_terminal_a_node_starts_none_unasked_and_says_what_to_set(tmp_path: Path) -> None:
    """Before: a node in a container without its URI worked on an empty queue of its own."""
    home = tmp_path / "home"
    ended = run(home, "-m", "tontine", "node", "tests.support.tasks")
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert "set TONTINE_URI or --uri, or ask for it with --embedded (TONTINE_EMBEDDED=1)" in line
    assert not home.exists()


def test_where_it_is_ruled_out_nothing_uses_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for command in (
        ("-m", "tontine", "jobs"),
        ("-m", "tontine", "node", "x"),
        ("-c", SUBMIT_TWICE),
    ):
        ended = run(home, *command, TONTINE_EMBEDDED="0")
        assert ended.returncode != 0
        assert (
            "rule the embedded one out: set TONTINE_URI or --uri" in ended.stderr.splitlines()[-1]
        )
    assert not home.exists()


def test_a_command_says_so_in_one_line_beside_its_output(running: Path) -> None:
    ended = run(running, "-m", "tontine", "submit", "story.double", '{"x": 1}', "--json")
    assert json.loads(ended.stdout)["task"] == "story.double"
    line, warning = ended.stderr.splitlines()
    assert (
        line == f"no MongoDB was given (--uri or TONTINE_URI): using the embedded one in {running}"
    )
    assert "no live node has" in warning


def test_a_client_says_so_once_for_all_clients_of_a_process(running: Path) -> None:
    ended = run(running, "-c", SUBMIT_TWICE)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.splitlines() == [
        f"no MongoDB was given (--uri or TONTINE_URI): using the embedded one in {running}"
    ]


def test_a_node_uses_one_that_runs_and_its_start_says_all_that_an_operator_asks(
    running: Path,
) -> None:
    command = [
        sys.executable,
        "-m",
        "tontine",
        "node",
        "tests.support.tasks",
        "--json",
        "--name",
        "ada",
    ]
    log = running / "node.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, cwd=ROOT, env=environment(running)
        )
    try:
        eventually(lambda: '"event":"ready"' in log.read_text(), 60, "the node is ready")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert f"using the embedded one in {running}" in records[0]["message"]
    (ready,) = [record for record in records if record.get("event") == "ready"]
    assert ready["uri"].startswith("mongodb://tontine:***@127.0.0.1:")
    assert (ready["database"], ready["processes"], ready["slots"], ready["lease"]) == (
        "tontine",
        1,
        1,
        20.0,
    )
    assert [module["name"] for module in ready["modules"]] == ["story"]
    assert "story.double" in ready["modules"][0]["tasks"]
