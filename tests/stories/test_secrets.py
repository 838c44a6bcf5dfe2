"""What a task can see of its node's connection: nothing, unless the node shares it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tontine import Client, Job

pytestmark = pytest.mark.story

TASKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("story.setting", {"name": "TONTINE_URI"}),
    ("story.setting", {"name": "TONTINE_DATABASE"}),
    ("story.submit_more", {}),
    ("story.submit_more_async", {}),
)


def test_tasks_have_the_connection_of_their_node_only_if_it_shares_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("TONTINE_HOME", str(home))
    monkeypatch.setenv("TONTINE_URI", "mongodb://elsewhere:1/")
    monkeypatch.setenv("TONTINE_DATABASE", "elsewhere")
    with Client(cluster.database) as client:

        def run_all() -> list[Job]:
            return client.wait([client.submit(task, args) for task, args in TASKS], timeout=60)

        (node,) = cluster.begin_all("alone")
        uri, _, *clients = run_all()
        assert (uri.state, uri.result) == ("done", None)
        for one in clients:
            assert one.state == "failed"
            assert one.error is not None
            assert one.error.type == "ConfigError"
            assert "--share-uri" in one.error.message
            assert "current_job().submit(...)" in one.error.message
        assert not home.exists()
        node.signal(signal.SIGTERM)
        assert node.process.wait(timeout=60) == 0

        cluster.begin_all("sharing", options=("--share-uri",))
        uri, database, *clients = run_all()
        assert (uri.result, database.result) == (cluster.uri, cluster.database.name)
        assert all(
            client.wait(client.get(one.result), timeout=60).result == "from a task"
            for one in clients
        )
