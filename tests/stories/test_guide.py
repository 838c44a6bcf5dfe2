"""The examples of docs/everyday.md, run as they stand there."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.support.cluster import ROOT, Cluster
from tontine import Client

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs" / "everyday.md").read_text()


def test_the_guide_works_as_it_is_written(cluster: Cluster, tmp_path: Path) -> None:
    (tasks,) = re.findall(r"```python tasks.py\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "tasks.py").write_text(tasks)
    cluster.options = ["--lease", "5s", "--processes", "2"]
    node = cluster.begin("a", modules=str(tmp_path / "tasks.py"))
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 9
    with Client(cluster.database) as client:
        names = {"client": client, "time": time}
        for block in blocks:
            exec(compile(block, "docs/everyday.md", "exec"), names)
    assert node.process.poll() is None
    assert "Traceback" not in node.text()
