"""The demo on a terminal: whoever watches kills a node, and sees the others have its share."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.screens.terminals import terminal
from tests.support.eventually import eventually
from tontine.store import read
from tontine.store.call import Store

pytestmark = [pytest.mark.story, pytest.mark.long]


def test_a_node_that_is_killed_by_a_key_is_inherited(
    mongo_uri: str, store: Store, tmp_path: Path
) -> None:
    demo = [sys.executable, "-m", "tontine", "demo", "--uri", mongo_uri]
    demo += ["--database", store.database.name, "--nodes", "2"]
    with terminal(demo, (120, 36), TONTINE_HOME=str(tmp_path)) as shown:
        shown.wait_for_text("▸ada")
        shown.press(b"K")
        shown.wait_for_text("is killed: see how the others inherit its share")
        eventually(
            lambda: [one["name"] for one in store.run(read.read_nodes()) if one["state"] == "dead"],
            60,
        )
        shown.wait_for_text("survived")
        shown.press(b"A")
        shown.wait_for_text("another node starts")
        eventually(lambda: len(store.run(read.read_nodes(dead=False))) > 2, 90)
        shown.process.send_signal(signal.SIGINT)
        shown.end()
    assert store.run(read.read_nodes(dead=False)) == []
