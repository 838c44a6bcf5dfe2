"""The web application with a real queue: a node runs until nothing is left to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from photobox import storage
from photobox.app import app
from pictures import picture

from tontine.testing import Queue


@pytest.fixture
def web(tontine_queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("PHOTOBOX_URI", tontine_queue.uri)
    monkeypatch.setenv("PHOTOBOX_DATABASE", tontine_queue.database)
    monkeypatch.setenv("TONTINE_DATABASE", tontine_queue.database)
    storage.database.cache_clear()
    with TestClient(app) as web:
        yield web


def test_an_upload_becomes_a_job_and_its_thumbnails_are_shown(
    web: TestClient, tontine_queue: Queue
) -> None:
    answer = web.post(
        "/photos", data={"to": "ada@example.org"}, files={"photo": ("cat.png", picture())}
    )
    assert answer.status_code == 202
    photo = answer.json()["photo"]
    assert web.get(f"/photos/{photo}").json()["state"] == "queued"
    assert web.get(f"/photos/{photo}/200.jpg").status_code == 404
    tontine_queue.run_until_idle("photobox.tasks")
    assert web.get(f"/photos/{photo}").json()["state"] == "done"
    assert web.get(f"/photos/{photo}/200.jpg").headers["content-type"] == "image/jpeg"


def test_too_large_a_photo_is_refused(web: TestClient) -> None:
    answer = web.post(
        "/photos", data={"to": "a@b.c"}, files={"photo": ("cat.png", b"0" * (20 * 1024 * 1024 + 1))}
    )
    assert (answer.status_code, answer.json()["detail"]) == (413, "a photo may have 20 MB")
