"""Stages: what is done is not done again, whoever dies (MI5); and the page about them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tests.support.typed import read
from tontine import Client, Job

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs" / "stages.md").read_text()
KILLS = int(os.environ.get("STORY_KILLS", "2"))
"""How often something is killed in a second stage; `scripts/kills` does it 100 times."""
MODULE = "tests.support.staged_tasks"


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    cluster.options = ["--lease", "3s"]
    with Client(cluster.database) as client:
        yield client
    assert not any("Traceback" in node.text() for node in cluster.nodes)


def ask(cluster: Cluster, *arguments: str) -> str:
    where = {"TONTINE_URI": cluster.uri, "TONTINE_DATABASE": cluster.database.name}
    ended = subprocess.run(
        [sys.executable, "-m", "tontine", *arguments],
        env=os.environ | where,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    return ended.stdout + ended.stderr


def runs(cluster: Cluster, job: Job) -> dict[str, int]:
    """How often each stage of a job ran."""
    found: dict[str, int] = {}
    for line in cluster.ledger.read_text().splitlines():
        seq, _, stage, _ = line.split()
        if int(seq) == job.seq:
            found[stage] = found.get(stage, 0) + 1
    return found


def test_the_page_works_as_it_is_written(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(read(PAGE).text("tasks.py"))
    cluster.begin("a", "--lease", "5s", modules=str(tmp_path / "tasks.py"))
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    with Client(cluster.database) as client:
        for block in blocks:
            exec(compile(block, "docs/stages.md", "exec"), {"client": client})


@pytest.mark.timeout(180 + 30 * KILLS)
def test_killed_in_the_second_of_three_stages_the_first_ran_once(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    node = cluster.begin("n0", modules=MODULE)
    for kill in range(KILLS):
        gate = tmp_path / f"gate{kill}"
        job = client.submit("staged.gated", {"path": str(gate)})
        wait_for_runs(cluster, job, 1)
        if kill == 0:
            said = wait_for_words(cluster, job, "is kept")
            assert "It is at stage 2 of 3 (clean), first attempt. Stage 1 (fetch, " in said
            assert ", by n0) is kept and does not run again." in said
        if kill % 2:
            node.workers()[0].kill()
        else:
            node.kill()
            node = cluster.begin(f"n{kill + 1}", modules=MODULE)
        wait_for_runs(cluster, job, 2)
        gate.touch()
        assert client.wait(job, timeout=60).result == str(gate)
        assert runs(cluster, job) == {"fetch": 1, "clean": 2, "store": 1}
    shown = ask(cluster, "job", str(job.seq))
    assert re.search(r"stages\s+1 fetch  done  .*attempt 1  1\.3  n", shown), shown


def wait_for_runs(cluster: Cluster, job: Job, count: int) -> None:
    """Until its second stage has begun so often."""
    eventually(lambda: runs(cluster, job).get("clean", 0) >= count, 90, f"stage 2, run {count}")


def wait_for_words(cluster: Cluster, job: Job, words: str) -> str:
    def told() -> str | None:
        said = ask(cluster, "why", str(job.seq))
        return said if words in said else None

    return eventually(told, 30, words)


@pytest.mark.long
def test_going_back_to_a_stage_and_outputs_that_are_gone(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.begin("a", modules=MODULE)
    there, away = tmp_path / "there", tmp_path / "away"
    there.touch()
    size = 9_000_000
    # Kept apart, and gone on from after an error; the next is kept apart, too, and deleted by hand.
    job = client.wait(client.submit("staged.large", {"size": size, "path": str(away)}), timeout=60)
    assert (job.state, runs(cluster, job)) == ("failed", {"make": 1, "measure": 3})
    assert cluster.database.outputs.count_documents({}) == 2
    assert "goes on there" in ask(cluster, "why", str(job.seq))
    assert "It came to stage 2 of 2 (measure)." in ask(cluster, "why", str(job.seq))
    cluster.database.outputs.delete_one({"_id.part": 1})
    away.touch()
    ask(cluster, "retry", str(job.seq))
    again = client.wait(job, timeout=60)
    assert (again.state, again.result) == ("done", size)
    assert runs(cluster, job) == {"make": 2, "measure": 4}
    assert "OutputGone" in [error.type for error in again.errors]
    ask(cluster, "retry", str(job.seq), "--from", "measure", "--done")
    client.wait(job, timeout=60)
    assert runs(cluster, job) == {"make": 2, "measure": 5}
    assert "cannot begin at stage 'x'" in ask(
        cluster, "retry", str(job.seq), "--from", "x", "--done"
    )
    ask(cluster, "retry", str(job.seq), "--done")
    client.wait(job, timeout=60)
    assert runs(cluster, job) == {"make": 3, "measure": 6}
    assert "--from goes with numbers" in ask(cluster, "retry", "--all", "--from", "x")


def test_a_stage_has_a_time_limit_of_its_own_and_what_is_saved_survives_a_crash(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.begin("a", modules=MODULE)
    slow, hasty = (client.submit(f"staged.{name}") for name in ("slow", "hasty"))
    counting = client.submit("staged.count_to", {"last": 20, "path": str(tmp_path / "crashed")})
    for job in client.wait([slow, hasty], timeout=60):
        assert job.error is not None
        assert (job.error.type, len(job.stages)) == ("TimeoutError", 1)
        assert "0.4 s" in job.error.message
    assert runs(cluster, slow) == {"quick": 1, "endless": 1}
    counted = client.wait(counting, timeout=60)
    assert counted.result == [11, 20]
    assert counted.saved == 20


CODE = """
from tontine import Module

shop = Module("shop")
orders = shop.stages("orders")
"""


def stages(*names: str, fails: str = "") -> str:
    """A module whose task has these stages."""
    parts = [CODE]
    for place, name in enumerate(names):
        argument = "before: list[str]" if place else ""
        ends = "raise ValueError" if name == fails else "pass"
        before = "before" if place else "[]"
        parts.append(f"@orders.stage\ndef {name}({argument}):\n    {ends}\n")
        parts[-1] = parts[-1].replace("pass", f"return [*{before}, '{name}']")
    return "\n\n".join(parts)


@pytest.mark.long
def test_code_with_other_stages_fails_the_job_with_both_lists_and_it_can_begin_anew(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    tasks = tmp_path / "tasks.py"
    tasks.write_text(stages("fetch", "clean", fails="clean"))
    node = cluster.begin("a", modules=str(tasks))
    job = client.wait(client.submit("shop.orders"), timeout=60)
    assert (job.state, len(job.stages)) == ("failed", 1)
    node.stop()
    tasks.write_text(stages("get", "fetch", "put"))
    cluster.begin("b", modules=str(tasks))
    ask(cluster, "retry", str(job.seq))
    refused: Any = client.wait(job, timeout=60).error
    assert refused.type == "StagesDiffer"
    assert "the job has done fetch, and the code has get, fetch, put" in refused.message
    assert client.get(job).fails == 0
    ask(cluster, "retry", str(job.seq), "--from", "fetch")
    assert client.wait(job, timeout=60).result == ["get", "fetch", "put"]
