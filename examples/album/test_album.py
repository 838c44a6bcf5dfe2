"""The whole album in this process: `run_plan` needs neither a node nor MongoDB."""

from __future__ import annotations

import mailbox
import zipfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from album_plan import album_plan
from album_tasks import album
from photos import Photos

from tontine.testing import run_plan


@pytest.fixture(autouse=True)
def album_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with Photos(0, count=4) as photos:
        monkeypatch.setenv("ALBUM_PHOTOS", photos.url)
        monkeypatch.setenv("ALBUM_DIR", str(tmp_path / "albums"))
        monkeypatch.setenv("ALBUM_MAIL", str(tmp_path / "mail"))
        Thread(target=photos.serve_forever, daemon=True).start()
        yield tmp_path / "albums"
        photos.shutdown()


def test_an_album_is_mailed_without_the_photo_that_is_gone(album_dir: Path, tmp_path: Path) -> None:
    ran = run_plan(album_plan(7, "ada@example.org"), [album])
    assert ran.state == "done"
    assert (ran.result["photos"], ran.result["missing"]) == (3, 1)
    (letter,) = mailbox.Maildir(tmp_path / "mail")
    assert (letter["To"], letter["Subject"]) == ("ada@example.org", "Album 7")
    assert sorted(zipfile.ZipFile(ran.result["path"]).namelist()) == ["0.jpg", "1.jpg", "2.jpg"]
    assert [path.name for path in album_dir.iterdir()] == ["Album 7.zip"], "the photos are gone"


def test_an_album_that_cannot_be_mailed_is_unpacked(album_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "mail").write_text("a file, where the mailbox should be")
    ran = run_plan(album_plan(7, "ada@example.org"), [album])
    assert ran.state == "undone"
    assert ran.error is not None
    assert (ran.error.step, ran.error.type) == ("mail", "NotADirectoryError")
    assert list(album_dir.iterdir()) == []
