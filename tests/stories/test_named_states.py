"""Named states: the page about them, and nodes that get what is new."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tests.support.typed import read
from tontine import Client

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs" / "named-states.md").read_text()


def ask(cluster: Cluster, *arguments: str) -> tuple[int, str]:
    where = {"TONTINE_URI": cluster.uri, "TONTINE_DATABASE": cluster.database.name}
    ended = subprocess.run(
        [sys.executable, "-m", "tontine", *arguments],
        env=os.environ | where,
        cwd=cluster.directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout + ended.stderr


def test_the_page_works_as_it_is_written(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(read(PAGE).text("tasks.py"))
    (tmp_path / "prices.json").write_text('{"apple": 3}\n')
    set_prices = ("state", "set", "shop/prices", "prices.json")
    assert ask(cluster, "state", "ls")[1].startswith("no state yet")
    assert ask(cluster, "state", "get", "shop/prices")[0] == 2
    assert ask(cluster, *set_prices) == (0, "shop/prices: version 1, 13 bytes\n")
    cluster.begin("a", "--lease", "3s", modules=str(tmp_path / "tasks.py"))
    with Client(cluster.database) as client:

        def quote() -> object:
            return client.wait(client.submit("shop.quote", {"item": "apple"}), timeout=60).result

        # It was there before the node: the first job has it.
        assert quote() == {"sum": 3, "version": 1}
        assert ask(cluster, *set_prices, "--if-version", "1")[0] == 0
        code, said = ask(cluster, *set_prices, "--if-version", "1")
        assert (code, "is at version 2, not 1: look at it" in said) == (2, True)
        eventually(lambda: quote() == {"sum": 3, "version": 2}, 30, "the node has the new one")
        assert json.loads(ask(cluster, "state", "get", "shop/prices")[1]) == {"apple": 3}
        (shown,) = [json.loads(ask(cluster, "state", "ls", "--json")[1])]
        assert (shown["_id"], shown["version"], shown["bytes"]) == ("shop/prices", 2, 13)
        # A worker that is started later has it before its first job.
        cluster.nodes[0].workers()[0].kill()
        assert quote() == {"sum": 3, "version": 2}
        assert ask(cluster, "state", "rm", "shop/prices")[0] == 0
        eventually(
            lambda: client.wait(client.submit("shop.quote", {"item": "apple"})).state == "failed",
            30,
            "it is gone",
        )
    assert "Traceback" not in cluster.nodes[0].text()
