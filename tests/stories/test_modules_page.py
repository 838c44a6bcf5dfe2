"""docs/modules.md: its commands are run, and answer what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import ROOT, Cluster

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs" / "modules.md").read_text()
TASKS = """
from tontine import Module

{name} = Module("{name}", version="{version}")

@{name}.task
def work() -> int:
    return 1
"""


def sessions() -> list[tuple[list[str], str]]:
    """Each `tontine module` command of the page, and the answer below it."""
    text = "\n".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL))
    found = re.findall(
        r"^\$ tontine (module [^\n#]*?) *(?:#[^\n]*)?\n((?:[^$\n].*\n)*)", text, re.M
    )
    return [(command.split(), answer) for command, answer in found]


def blurred(text: str) -> list[list[str]]:
    """Words only: columns are as wide as their contents, and digests are what files are."""
    lines = re.sub(r"\b[0-9a-f]{12}\b", "DIGEST", text).splitlines()
    return [line.split() for line in lines if line.strip()]


def test_the_page_is_true(cluster: Cluster, mongo_uri: str, tmp_path: Path) -> None:
    directory = tmp_path / "app"
    directory.mkdir()
    (directory / "shop_tasks.py").write_text(TASKS.format(name="shop", version="1.2.0"))
    (directory / "etl_tasks.py").write_text(TASKS.format(name="etl", version="0.9"))
    (settings,) = re.findall(r"```toml tontine.toml\n(.*?)```", PAGE, re.DOTALL)
    (directory / "tontine.toml").write_text(settings)
    cluster.launch(name="web-1", cwd=directory)
    cluster.wait_for_state("web-1", "waiting", "working")
    where = {"TONTINE_URI": mongo_uri, "TONTINE_DATABASE": cluster.database.name}
    commands = sessions()
    assert len(commands) == 5
    for command, answer in commands:
        ran = subprocess.run(
            [sys.executable, "-m", "tontine", *command],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **where},
            cwd=directory,
            timeout=120,
        )
        said = ran.stderr + ran.stdout if ran.stderr else ran.stdout
        assert blurred(said) == blurred(answer), command
        assert ran.returncode == (2 if "./x.py" in command else 0), command
