"""The application on a queue of its own, with a real node where the outcome matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pictures_app import app

from tontine.testing import Queue

TASKS = str(Path(__file__).with_name("pictures_tasks.py"))


@pytest.fixture
async def site(
    tontine_queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setenv("TONTINE_URI", tontine_queue.uri)  # with its database as the path
    transport = httpx.ASGITransport(app)
    # The transport leaves the lifespan to us.
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as http,
    ):
        yield http


async def test_a_thumbnail_is_ordered_once_and_made(
    site: httpx.AsyncClient, tontine_queue: Queue
) -> None:
    ordered = await site.post("/thumbnails", json={"image": "a.png", "width": 200})
    assert (ordered.status_code, ordered.json()["state"]) == (202, "queued")
    again = await site.post("/thumbnails", json={"image": "a.png", "width": 200})
    assert again.json()["job"] == ordered.json()["job"]
    wrong = await site.post("/thumbnails", json={"image": "a.txt"})

    await asyncio.to_thread(tontine_queue.run_until_idle, TASKS)
    made = (await site.get(f"/thumbnails/{ordered.json()['job']}")).json()
    assert (made["state"], made["progress"], made["result"]) == (
        "done",
        1.0,
        {"image": "a.png@200", "width": 200},
    )
    refused = (await site.get(f"/thumbnails/{wrong.json()['job']}")).json()
    assert (refused["state"], refused["problem"]) == ("failed", "a.txt is no picture")


async def test_jobs_of_others_are_not_told(site: httpx.AsyncClient, tontine_queue: Queue) -> None:
    with tontine_queue.client() as client:
        other = client.submit("payroll.run", {"month": "2026-01"})
    assert (await site.get(f"/thumbnails/{other.seq}")).status_code == 404
    assert (await site.get("/thumbnails/12345")).status_code == 404
