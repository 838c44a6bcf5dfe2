"""A node's scheduler on a real store, among schedules that cannot fire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.eventually import eventually_async
from tontine.config import Timing
from tontine.records.schedule import Schedule
from tontine.records.share import Share
from tontine.store import read, schedules
from tontine.store.call import AsyncStore, Store
from tontine_node.claiming import scheduler
from tontine_node.claiming.scheduler import Scheduler
from tontine_node.telling.troubles import Troubles

BROKEN = {
    "task": "t.t",
    "cron": "* * * * *",
    "timezone": "Mars/Olympus",
    "next_at": datetime(2020, 1, 1, tzinfo=UTC),
}


class ManualClock:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def troubles() -> Troubles:
    return Troubles()


@pytest.fixture
async def running(
    async_store: AsyncStore, clock: ManualClock, troubles: Troubles, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """The scheduler of the only member, which looks all the time."""
    monkeypatch.setattr(scheduler, "LOOK_EVERY", 0.05)
    one = Scheduler(async_store, Timing(), clock, lambda: Share(1, 0, 1), lambda: None, troubles)
    task = asyncio.create_task(one.run())
    yield
    while not task.done():  # as a node does: a driver may take one cancel for an error of its own
        task.cancel()
        await asyncio.wait([task], timeout=0.5)


def told(troubles: Troubles) -> dict[str, Any]:
    return next((one for one in troubles.to_document() if one["what"] == "schedules"), {"times": 0})


async def until(check: Callable[[], bool], what: str) -> None:
    async def checked() -> bool:
        return check()

    await eventually_async(checked, within=60, what=what)


async def test_those_that_cannot_fire_cost_the_others_nothing(
    store: Store,
    clock: ManualClock,
    troubles: Troubles,
    monkeypatch: pytest.MonkeyPatch,
    running: None,
) -> None:
    monkeypatch.setattr(schedules, "DUE_AT_ONCE", 5)
    documents = store.database.schedules
    now = store.run(read.now())
    documents.insert_many([{"_id": f"broken-{number}", **BROKEN} for number in range(12)])
    documents.insert_one({"_id": "good", "task": "t.t", "every": 3600, "next_at": now})

    def fired() -> int:
        return len(list(store.database.jobs.find({"schedule": "good"})))

    await until(lambda: fired() == 1, "the good one fires")
    await until(lambda: told(troubles)["times"] == 12, "each failed once")
    assert "broken-" in told(troubles)["why"]
    assert "Mars/Olympus" in told(troubles)["why"]
    clock.time += scheduler.PAUSE + 1
    await until(lambda: told(troubles)["times"] == 24, "each failed again")
    clock.time += scheduler.PAUSE + 1
    documents.update_one({"_id": "good"}, {"$set": {"next_at": now - timedelta(seconds=1)}})
    await until(lambda: fired() == 2, "the good one fires again")
    assert told(troubles)["times"] == 24, "the second pause is longer"
    documents.update_many({}, {"$set": {"timezone": "UTC"}})
    clock.time += scheduler.LONGEST_PAUSE
    await until(
        lambda: documents.count_documents({"next_at": BROKEN["next_at"]}) == 0, "all have moved on"
    )
    await until(lambda: told(troubles)["times"] == 0, "and all is well")


async def test_a_time_that_is_too_late_is_put_right_now_and_then(
    store: Store, clock: ManualClock, running: None
) -> None:
    late = store.run(read.now()) + timedelta(hours=1)
    store.database.schedules.insert_one({"_id": "tick", "task": "t.t", "every": 1, "next_at": late})
    clock.time += scheduler.MEND_EVERY + 1
    await until(lambda: store.database.jobs.count_documents({}) > 0, "it fires long before")


async def test_a_schedule_whose_job_is_refused_fails_alone(
    store: Store, troubles: Troubles, running: None
) -> None:
    store.database.jobs.create_index("args.once", unique=True, sparse=True)
    now = store.run(read.now())
    same: dict[str, Any] = {"task": "t.t", "every": 3600, "args": {"once": 1}}
    many = [
        {"_id": name, **same, "next_at": now - timedelta(seconds=9)} for name in ("first", "second")
    ]
    store.database.schedules.insert_many(
        [*many, {"_id": "good", "task": "t.t", "every": 3600, "next_at": now}]
    )
    await until(lambda: store.database.jobs.count_documents({}) == 2, "all others fire")
    await until(lambda: str(told(troubles).get("why")).startswith("second: "), "and this is told")


async def test_what_modules_declare_is_made_known_again_and_again_without_holding_up_the_rest(
    async_store: AsyncStore,
    store: Store,
    clock: ManualClock,
    troubles: Troubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "LOOK_EVERY", 0.05)
    wanted = [Schedule("shop.nightly", "shop.nightly", every=3600).declared_by("shop", "1.0")]
    one = Scheduler(
        async_store, Timing(), clock, lambda: Share(1, 0, 1), lambda: None, troubles, lambda: wanted
    )
    task = asyncio.create_task(one.run())
    documents = store.database.schedules
    try:
        await until(
            lambda: documents.count_documents({"declared.module": "shop"}) == 1, "it is known"
        )
        documents.delete_many({})
        clock.time += scheduler.DECLARE_EVERY + 1
        await until(
            lambda: documents.count_documents({"declared.module": "shop"}) == 1, "and again"
        )
        wanted[:] = [
            Schedule("x" * 2000, "shop.nightly", every=3600).declared_by("shop", "1.0"),
            *wanted,
        ]
        store.database.command("collMod", "schedules", validator={"_id": {"$ne": "x" * 2000}})
        clock.time += scheduler.DECLARE_EVERY + 1
        await until(
            lambda: any(one["what"] == "declaring" for one in troubles.to_document()),
            "this is told",
        )
        documents.insert_one(
            {"_id": "good", "task": "t.t", "every": 3600, "next_at": store.run(read.now())}
        )
        await until(
            lambda: store.database.jobs.count_documents({"schedule": "good"}) == 1, "others fire"
        )
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=0.5)
