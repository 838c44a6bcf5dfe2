"""The tasks alone, on a MongoDB for tests: no node, no web server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from gridfs import GridFSBucket
from photobox import mail, storage, tasks
from pictures import picture
from PIL import UnidentifiedImageError

from tontine.testing import Queue, run_task

sent: list[str] = []


@pytest.fixture(autouse=True)
def photos(tontine_queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Photos in the database of this test, and no real e-mail."""
    monkeypatch.setenv("PHOTOBOX_URI", tontine_queue.uri)
    monkeypatch.setenv("PHOTOBOX_DATABASE", tontine_queue.database)
    monkeypatch.setattr(mail, "send", lambda to, *_: sent.append(to))
    sent.clear()
    storage.database.cache_clear()
    yield
    storage.database().client.close()


def add(content: bytes, **more: Any) -> str:
    file = GridFSBucket(storage.database()).upload_from_stream("cat.png", content)
    photo = {
        "_id": ObjectId(),
        "name": "cat.png",
        "to": "ada@example.org",
        "file": file,
        "at": datetime.now(UTC),
    }
    storage.database().photos.insert_one(photo | more)
    return str(photo["_id"])


def test_thumbnails_are_made_and_the_mail_is_asked_for_once() -> None:
    photo = add(picture())
    run = run_task(tasks.thumbnails, args={"photo": photo})
    assert sorted(run.result) == ["1600", "200", "400", "800"]
    assert run.progress[-1] == (1.0, "all there")
    assert [(job.task, job.args) for job in run.submitted] == [("photobox.tell", {"photo": photo})]


def test_what_is_no_photo_is_refused() -> None:
    with pytest.raises(UnidentifiedImageError):
        run_task(tasks.thumbnails, args={"photo": add(b"no picture")})


def test_one_mail_goes_to_whoever_uploaded_it() -> None:
    run_task(tasks.tell, args={"photo": add(picture())})
    assert sent == ["ada@example.org"]


def test_old_photos_are_removed_and_new_ones_stay() -> None:
    add(picture(), at=datetime.now(UTC) - timedelta(days=31))
    new = add(picture())
    assert run_task(tasks.tidy).result == 1
    assert storage.find(new)["name"] == "cat.png"
