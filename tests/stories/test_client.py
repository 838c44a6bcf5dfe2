"""The examples of docs/client.md, run as they stand there, and `tontine job` for any name of a
job."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs" / "client.md").read_text()


def tontine(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    where = ("--uri", cluster.uri, "--database", cluster.database.name)
    return subprocess.run(
        [sys.executable, "-m", "tontine", *words, *where],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.usefixtures("own_tasks")
def test_the_page_works_as_it_is_written(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tasks,) = re.findall(r"```python tasks.py\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "tasks.py").write_text(tasks)
    monkeypatch.setenv("TONTINE_URI", cluster.uri)
    monkeypatch.setenv("TONTINE_DATABASE", cluster.database.name)
    node = cluster.begin(
        "a", "--lease", "5s", "--processes", "2", modules=str(tmp_path / "tasks.py")
    )
    cluster.wait_for_members(1)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 13
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    try:
        for block in blocks:
            exec(compile(block, "docs/client.md", "exec"), names)
    finally:
        cluster.database.client.drop_database("photos")

    # What another driver writes is said where it can be read; the job runs all the same.
    cluster.database.jobs.insert_one(
        {"_id": "odd", "task": "photos.resize", "args": {"image": "h"}, "delay": 60}
    )
    eventually(lambda: cluster.database.jobs.count_documents({"_id": "odd", "state": "done"}) == 1)
    shown = tontine(cluster, "job", "odd")
    assert shown.returncode == 0
    assert (
        "its field `delay` means nothing and changes nothing: `run_at` was meant, perhaps"
        in shown.stderr
    )
    assert tontine(cluster, "job", "odd", "--logs").stdout.endswith("resizing h\n")
    assert "a job came with a field that nobody knows" in node.text()

    # So is what cannot be a job, with its `_id` and the reason, of which `why` by that `_id` knows,
    # too.
    cluster.database.jobs.insert_one({"_id": "odder", "taks": "photos.resize"})
    eventually(
        lambda: cluster.database.jobs.count_documents({"_id": "odder", "state": "failed"}) == 1
    )
    assert "its field `taks` is none" in tontine(cluster, "why", "odder").stdout
    said = "the document with the _id odder cannot be a job, and has failed: it has no `task`"
    eventually(lambda: said in node.text())

    document = cluster.database.jobs.find_one({"meta": {"$exists": True}}) or {}
    by_id = json.loads(tontine(cluster, "job", str(document["_id"]), "--json").stdout)
    assert by_id["seq"] == document["seq"]
    assert re.search(
        r'^meta +\{\n +"tenant"', tontine(cluster, "job", str(document["seq"])).stdout, re.MULTILINE
    )
    nobody = tontine(cluster, "job", "abc")
    assert nobody.returncode == 2
    assert (
        nobody.stderr
        == "tontine: no job has the number or _id 'abc': `tontine jobs` lists the newest\n"
    )
    assert node.process.poll() is None
    assert "Traceback" not in node.text()
