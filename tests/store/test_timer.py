"""A node's part in what time alone ends: only as a member, and it says so."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.eventually import eventually_async
from tontine.records.share import Share
from tontine.store import insert
from tontine.store.call import AsyncStore, Store
from tontine.store.insert import Wish
from tontine.store.retention import Retention
from tontine_node.settling import timer
from tontine_node.settling.timer import Timer
from tontine_node.telling.troubles import Troubles


async def test_members_cancel_what_is_late_and_a_paused_node_leaves_it_until_it_is_back(
    async_store: AsyncStore, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer, "FIRST_EVERY", 0.02)
    monkeypatch.setattr(timer, "OTHERS_EVERY", 0.02)
    share: Share | None = None
    noted: list[tuple[str, Any]] = []
    looks = 0

    def own_share() -> Share | None:
        nonlocal looks
        looks += 1
        return share

    async def note(kind: str, **facts: Any) -> None:
        noted.append((kind, facts))

    async def state() -> str:
        (job,) = store.database.jobs.find()
        return str(job["state"])

    async def has_looked() -> bool:
        return looks > 10

    async def is_noted() -> bool:
        return noted == [("late", {"jobs": 1})]

    store.run(insert.submit(Wish("t.t", max_age=60), {}))
    store.database.jobs.update_one({}, {"$set": {"start_by": datetime(2020, 1, 1, tzinfo=UTC)}})
    task = asyncio.create_task(Timer(async_store, own_share, Retention, note, Troubles()).run())
    try:
        await eventually_async(has_looked, what="a few looks without a share")
        assert await state() == "queued"
        share = Share(1, 0, 1)
        await eventually_async(is_noted, what="an event tells of it")
        assert await state() == "cancelled"
    finally:
        while (
            not task.done()
        ):  # as a node does: a driver may take one cancel for an error of its own
            task.cancel()
            await asyncio.wait([task], timeout=0.5)
