"""The examples of docs/plans.md, run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.module import load

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs" / "plans.md").read_text()


@pytest.mark.usefixtures("own_tasks")
def test_the_page_about_plans_works_as_it_is_written(cluster: Cluster, tmp_path: Path) -> None:
    (tasks,) = re.findall(r"```python tasks.py\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "tasks.py"
    file.write_text(tasks)
    cluster.options = ["--lease", "5s", "--processes", "2"]
    node = cluster.begin("a", modules=str(file))
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 15
    with Client(cluster.database) as client:
        names: dict[str, Any] = {"client": client, "tasks": load([str(file)]).modules[0]}
        for block in blocks:
            exec(compile(block, "docs/plans.md", "exec"), names)
    eventually(
        lambda: cluster.database.plans.find_one({"_id": names["plan_id"], "state": "done"}),
        what="the plan of another driver is done",
    )
    assert node.process.poll() is None
    assert "Traceback" not in node.text()
