"""Modules that change while nodes run: their files, and which of them a node is to have."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.testing import NodeProcess

pytestmark = pytest.mark.story

HEAD = """
import os
import time
from pathlib import Path
from tontine import Module

shop = Module("shop", version="{version}")
"""
TASK = """

@shop.task
def {name}(gate: str = "") -> int:
    while gate and not Path(gate).exists():
        time.sleep(0.01)
    return os.getpid()
"""


def write(file: Path, *tasks: str, version: str = "1.0", more: str = "") -> None:
    """A module with these tasks, put in place whole."""
    text = HEAD.format(version=version) + "".join(TASK.format(name=name) for name in tasks) + more
    draft = file.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    directory = tmp_path / "code"
    directory.mkdir()
    write(directory / "shop_tasks.py", "old")
    return directory / "shop_tasks.py"


def begin(cluster: Cluster, name: str, *modules: str, options: tuple[str, ...] = ()) -> NodeProcess:
    # Files that are written within one second, and are of one size, look alike to cached bytecode.
    environment = {"PYTHONDONTWRITEBYTECODE": "1"}
    node = cluster.launch(
        *modules,
        name=name,
        options=["--processes", "2", "--lease", "3s", *options],
        environment=environment,
    )
    cluster.wait_for_state(name, "waiting", "working")
    eventually(lambda: metrics(cluster, name).get("workers") == 2, what="both workers are there")
    return node


def metrics(cluster: Cluster, name: str) -> Any:
    return (cluster.record(name) or {}).get("metrics", {})


def failed(cluster: Cluster) -> list[Any]:
    return [(job["task"], job.get("error")) for job in cluster.jobs(state="failed")]


def workers(node: NodeProcess) -> set[int]:
    return {worker.pid for worker in node.workers()}


def test_a_worker_that_is_replaced_after_the_files_changed_fails_no_job(
    cluster: Cluster, file: Path
) -> None:
    node = begin(cluster, "a", str(file))
    before = workers(node)
    write(file, "new", version="2.0")
    with Client(cluster.database) as client:
        client.submit_many("shop.new", [{}] * 200)
        os.kill(before.pop(), signal.SIGKILL)
        eventually(
            lambda: (
                cluster.database.jobs.count_documents({"state": {"$in": ["done", "failed"]}}) == 200
            ),
            60,
            f"{cluster._tail('a')}",
        )
    assert not failed(cluster), "a worker was given a task that it does not have"
