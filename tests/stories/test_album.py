"""examples/album on two nodes, of which one is killed in the middle: the album is mailed once, and
it is whole."""

from __future__ import annotations

import importlib.util
import io
import mailbox
import signal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tontine import Client

pytestmark = pytest.mark.story
ALBUM = ROOT / "examples/album"
PHOTOS = 24


def imported(name: str) -> ModuleType:
    """A file of the example, under its own name."""
    spec = importlib.util.spec_from_file_location(name, ALBUM / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("ALBUM_DIR", str(tmp_path / "albums"))
    monkeypatch.setenv("ALBUM_MAIL", str(tmp_path / "mail"))
    monkeypatch.syspath_prepend(ALBUM)
    with imported("photos").Photos(0, count=PHOTOS, pause=0.2) as photos:
        monkeypatch.setenv("ALBUM_PHOTOS", photos.url)
        Thread(target=photos.serve_forever, daemon=True).start()
        yield photos
        photos.shutdown()


def test_a_node_is_killed_and_the_album_is_mailed_once_and_whole(
    cluster: Cluster, photos: Any, tmp_path: Path
) -> None:
    cluster.options = ["--lease", "3s"]
    module = str(ALBUM / "album_tasks.py")
    doomed, heir = (cluster.begin(name, modules=module) for name in ("doomed", "heir"))
    for node in (doomed, heir):
        cluster.wait_for_state(node.name, "waiting", "working")
    with Client(cluster.database) as client:
        plan = imported("album_plan").album_plan(7, "ada@example.org")
        ran = client.submit_plan(plan)
        assert client.submit_plan(plan).existed, "an album is not packed twice at a time"
        held = {"state": "working", "node": {"$regex": "^doomed-"}, "plan.step": "fetch"}
        eventually(
            lambda: client.plan(ran).steps["fetch"].done >= 4 and cluster.jobs(**held),
            what="the node to be killed fetches a photo",
        )
        doomed.signal_all(signal.SIGKILL)
        lost = {job["_id"] for job in cluster.jobs(**held)}
        ended = client.wait(ran, timeout=120)
    assert (ended.state, ended.result["photos"], ended.result["missing"]) == ("done", PHOTOS - 1, 1)
    assert lost, "it was killed while it had something to do"
    assert {job["attempt"] for job in cluster.jobs(_id={"$in": list(lost)})} == {2}
    (letter,) = mailbox.Maildir(tmp_path / "mail")
    (attached,) = (part for part in letter.walk() if part.get_filename())
    assert (letter["To"], letter["Subject"]) == ("ada@example.org", "Album 7")
    archive = zipfile.ZipFile(io.BytesIO(bytes(attached.get_payload(decode=True))))
    assert sorted(archive.namelist()) == sorted(f"{n}.jpg" for n in range(PHOTOS - 1))
    assert {Image.open(archive.open(name)).size for name in archive.namelist()} == {(800, 533)}
    assert [path.name for path in (tmp_path / "albums").iterdir()] == ["Album 7.zip"]
    assert "Traceback" not in heir.text()
