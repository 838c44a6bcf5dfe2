"""docs/coming-from.md and coming-from-workflows.md: our half of each pair does what the page says,
theirs is at least Python."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.store import read

PAGE = (ROOT / "docs" / "coming-from.md").read_text()
WORKFLOWS = (ROOT / "docs" / "coming-from-workflows.md").read_text()


def blocks(fence: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{fence}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    ("peer", "page", "count"),
    [
        ("celery", PAGE, 1),
        ("rq", PAGE, 1),
        ("dramatiq", PAGE, 1),
        ("celery", WORKFLOWS, 2),
        ("airflow", WORKFLOWS, 1),
        ("temporal", WORKFLOWS, 1),
    ],
    ids=["celery", "rq", "dramatiq", "canvas", "airflow", "temporal"],
)
def test_their_half_can_be_parsed(peer: str, page: str, count: int) -> None:
    found = blocks(f"python {peer}", page)
    assert len(found) == count
    for block in found:
        ast.parse(block)


@pytest.mark.story
def test_our_half_works_as_it_is_written(cluster: Cluster, tmp_path: Path) -> None:
    files = re.findall(r"^```python (\w+\.py)$", PAGE, re.MULTILINE)
    for name in files:
        (tmp_path / name).write_text(blocks(f"python {re.escape(name)}")[0])
    first, *others = [str(tmp_path / name) for name in files]
    node = cluster.begin("a", "--lease", "5s", *others, modules=first)
    (inserted,) = re.findall(r"insertOne\((.*)\);", blocks("js tontine")[0])
    cluster.database.jobs.insert_one({"_id": "raw", **yaml.safe_load(inserted)})
    with Client(cluster.database) as client:
        for block in blocks("python tontine"):
            exec(compile(block, "docs/coming-from.md", "exec"), {"client": client})
    done = eventually(
        lambda: cluster.store.run(read.read_final(["raw"])), what="the job of another driver"
    )
    assert done[0].result == "report for ada@example.org"
    assert node.process.poll() is None
    assert "Traceback" not in node.text()
    assert len(files) == 4


@pytest.mark.story
def test_our_workflows_work_as_they_are_written(cluster: Cluster, tmp_path: Path) -> None:
    (tasks,) = blocks("python from_workflows.py", WORKFLOWS)
    file = tmp_path / "from_workflows.py"
    file.write_text(tasks)
    node = cluster.begin("a", "--lease", "5s", modules=str(file))
    ours = blocks("python", WORKFLOWS)
    assert len(ours) == 4
    with Client(cluster.database) as client:
        names = {"client": client}
        for block in ours:
            exec(compile(block, "docs/coming-from-workflows.md", "exec"), names)
    assert node.process.poll() is None
    assert "Traceback" not in node.text()


@pytest.mark.story
def test_its_commands_are_accepted(cluster: Cluster) -> None:
    for line in re.findall(r"^\$ tontine (.*)$", PAGE, re.MULTILINE):
        command = [sys.executable, "-m", "tontine", *shlex.split(line)]
        command += ["--uri", cluster.uri, "--database", cluster.database.name]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
    assert cluster.database.schedules.count_documents({"task": "reports.send"}) == 1
