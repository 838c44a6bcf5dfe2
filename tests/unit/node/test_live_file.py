"""The live file is young exactly while its node is well."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tontine.errors import ConfigError
from tontine.records.trouble import read_troubles
from tontine_node.config import NodeConfig
from tontine_node.telling.live_file import LiveFile, Vital
from tontine_node.telling.troubles import Troubles

WELL = Vital(has_lease=True, tick=1, workers=1)


class Node:
    """What a live file asks its node for, and what it has told."""

    def __init__(self, path: Path) -> None:
        self.vital = WELL
        self.troubles = Troubles()
        self.path = path
        self.file = LiveFile(path, "a-1", lambda: self.vital, self.troubles, every=0.01)

    def is_touched(self, vital: Vital) -> bool:
        """Whether a look at this makes an old file young."""
        self.path.touch()
        os.utime(self.path, (0, 0))
        self.vital = vital
        self.file.keep()
        return self.path.stat().st_mtime > 0


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "live")


def test_it_is_touched_while_the_claim_loop_moves_and_a_worker_is_there(node: Node) -> None:
    assert node.is_touched(WELL)
    assert node.path.read_text() == "a-1\n"
    assert not node.is_touched(WELL), "the same tick"
    assert not node.is_touched(replace(WELL, tick=2, workers=0))
    assert node.is_touched(replace(WELL, tick=3))
    assert list(node.path.parent.iterdir()) == [node.path], "no draft is left"


def test_it_is_not_there_before_the_node_has_begun_to_claim(node: Node) -> None:
    node.vital = replace(WELL, tick=0)
    node.file.keep()
    assert not node.path.exists()


def test_it_goes_with_the_lease_and_comes_back_with_it(node: Node) -> None:
    assert node.is_touched(WELL)
    node.vital = replace(WELL, has_lease=False, tick=2)
    node.file.keep()
    assert not node.path.exists()
    node.vital = replace(WELL, tick=3)
    node.file.keep()
    assert node.path.exists()


def test_a_disk_that_refuses_is_a_trouble_and_no_more(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.path.mkdir()
    for tick in (1, 2):
        node.vital = replace(WELL, tick=tick)
        node.file.keep()
    (trouble,) = read_troubles(node.troubles.to_document())
    assert (trouble.what, trouble.times, trouble.is_grave) == ("live file", 2, False)
    assert trouble.deed == "touch its live file"
    assert len(caplog.records) == 1, "said once"
    node.path.rmdir()
    node.vital = replace(WELL, tick=3)
    node.file.keep()
    assert not node.troubles
    assert node.path.exists()


def test_it_ends_with_its_node(node: Node) -> None:
    node.file.start()
    eventually(node.path.exists, what="the live file")
    node.file.stop()
    assert not node.path.exists()


def test_a_path_that_cannot_be_is_refused_before_the_node_starts(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "live"):
        with pytest.raises(ConfigError, match="name a file in a directory that exists"):
            NodeConfig(("m",), live_file=path)
