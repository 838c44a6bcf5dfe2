"""Failures, queued jobs by task and schedules, read from a real store; and what is asked of
schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.support.feeding import until
from tontine.config import StoreConfig
from tontine.records.schedule import Schedule
from tontine.store import insert, ledgers, logs, read, schedules
from tontine.store.call import Store
from tontine.store.indexes import OPEN_JOBS
from tontine_observer.feed.live import LiveSource
from tontine_observer.picture.board import Board
from tontine_observer.records.ledger import Wanted
from tontine_observer.records.pane import Pane
from tontine_observer.records.request import Phase, Request

FAILED = 2 * ledgers.FAILED_AT_ONCE + 100


@pytest.fixture
async def source(mongo_uri: str, store: Store) -> AsyncIterator[LiveSource]:
    name = store.database.name
    source = LiveSource(StoreConfig(mongo_uri, name), Board(name))
    await source.start()
    await until(lambda: source.board.link.is_fresh)
    yield source
    await source.stop()


def fail(store: Store, count: int) -> None:
    now = store.run(read.now())
    common: dict[str, Any] = {"state": "failed", "args": {}, "attempt": 1, "fails": 1, "lost": 0}
    store.database.jobs.insert_many(
        {
            **common,
            "seq": seq,
            "task": ("t.a", "t.b")[seq % 2],
            "finished_at": now - timedelta(seconds=seq),
            "error": {"type": "E", "message": f"order {seq} is gone"},
        }
        for seq in range(1, count + 1)
    )


async def test_all_failures_of_a_day_are_counted_page_by_page(
    source: LiveSource, store: Store
) -> None:
    fail(store, FAILED)
    yesterday = store.run(read.now()) - timedelta(hours=30)
    store.database.jobs.update_one({"seq": 4}, {"$set": {"finished_at": yesterday}})
    ledger = await source.ledger(Pane.FAILURES)
    assert ledger.failures is not None
    counts = {(row.task, row.message): row.count for row in ledger.failures}
    assert counts == {
        ("t.a", "order # is gone"): FAILED // 2 - 1,
        ("t.b", "order # is gone"): FAILED // 2,
    }
    assert ledger.failures_note == "of 24 h"
    newest = ledger.failures[0]
    assert newest.task == "t.b"
    assert newest.seqs[:2] == (1, 3)


async def test_queued_jobs_are_counted_by_task(source: LiveSource, store: Store) -> None:
    store.run(insert.submit_many(insert.Wish("t.a"), [{}] * 3))
    store.run(insert.submit_many(insert.Wish("t.b", priority=2), [{}] * 2))
    ledger = await source.ledger(Pane.TASKS)
    assert (ledger.queued, ledger.is_queued_whole) == ({"t.a": 3, "t.b": 2}, True)


async def test_jobs_are_counted_that_wait_for_a_range_which_no_member_offers(
    source: LiveSource, store: Store
) -> None:
    now = store.run(read.now())
    serving = {"name": "t", "version": "1.2", "tasks": ["t.a"], "state": "serving"}
    node = {"name": "ada", "state": "waiting", "lease": 20.0, "beat": 1, "tick": 1}
    store.database.nodes.insert_one(
        {**node, "_id": "ada-1", "lease_until": now + timedelta(hours=1), "modules": [serving]}
    )
    store.database.cluster.update_one(
        {"_id": "roster"}, {"$set": {"epoch": 1, "members": ["ada-1"]}}, upsert=True
    )
    await until(lambda: [node.rank for node in source.board.picture().nodes] == [0])
    store.run(insert.submit_many(insert.Wish("t.a@>=1.2"), [{}]))
    store.run(insert.submit_many(insert.Wish("t.a@>=2"), [{}] * 3))
    store.run(insert.submit_many(insert.Wish("t.a@>=2", priority=2), [{}] * 2))
    store.run(insert.submit_many(insert.Wish("t.a@>=2", run_at=now + timedelta(days=1)), [{}]))
    store.run(insert.submit_many(insert.Wish("t.b@>=1"), [{}]))
    store.run(insert.submit_many(insert.Wish("t.b"), [{}]))
    ledger = await source.ledger(Pane.MODULES)
    assert ledger.wanted == {"t.a@>=2": Wanted(6), "t.b@>=1": Wanted(1)}
    store.database.nodes.update_one({}, {"$set": {"modules.0.state": "loading"}})
    await until(lambda: not source.board.picture().nodes[0].modules[0].is_offered)
    assert set((await source.ledger(Pane.MODULES)).wanted or ()) >= {"t.a@>=1.2"}


async def test_waiting_jobs_are_counted_on_indexes_and_no_further_than_needed(
    source: LiveSource, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "WAITING_AT_MOST", 4)
    store.run(insert.submit_many(insert.Wish("t.a@>=2"), [{}] * 9))
    store.run(insert.submit_many(insert.Wish("t.b"), [{}] * 9))
    assert (await source.ledger(Pane.MODULES)).wanted == {"t.a@>=2": Wanted(4, is_partial=True)}
    where = {"task": "t.a@>=2", **OPEN_JOBS["fresh"]}
    told = store.database.command(
        {"explain": {"count": "jobs", "query": where, "hint": "fresh", "limit": 4}},
        verbosity="executionStats",
    )
    assert told["executionStats"]["totalKeysExamined"] <= 5


async def test_schedules_are_listed_switched_and_run(source: LiveSource, store: Store) -> None:
    store.run(schedules.add(Schedule("tidy", "t.tidy", every=600.0)))
    store.database.schedules.insert_one({"_id": "odd", "task": 7}, bypass_document_validation=True)

    async def ask(verb: str) -> list[Phase]:
        return [one.phase async for one in source.ask(Request(verb, ("tidy",)))]

    async def listed() -> dict[str, Any]:
        found = (await source.ledger(Pane.SCHEDULES)).schedules
        assert found is not None
        return {row.name: row for row in found}

    first = await listed()
    assert not first["odd"].is_usable
    assert (first["tidy"].is_off, first["tidy"].last_seq) == (False, None)
    assert first["tidy"].next_at is not None
    assert await ask("off") == [Phase.DONE]
    assert (await listed())["tidy"].is_off
    assert await ask("on") == [Phase.DONE]
    assert not (await listed())["tidy"].is_off
    assert await ask("run") == [Phase.DONE]
    tidy = (await listed())["tidy"]
    assert tidy.last_state == "queued"
    (job,) = store.database.jobs.find()
    assert (job["task"], job["schedule"]) == ("t.tidy", "tidy")
    verbs = [one["verb"] for one in store.database.events.find({"kind": "request"})]
    assert verbs == ["off", "on", "run"]


async def test_a_log_is_read_line_by_line(source: LiveSource, store: Store) -> None:
    (job,) = store.run(insert.submit_many(insert.Wish("t.a"), [{}]))
    assert job.seq is not None
    at = store.run(read.now())
    store.run(logs.append([logs.Part(job.id, job.seq, 1, [(at, "one\x1b[31m"), (at, "two")])]))
    assert [text for _, _, text in await source.log(job.seq)] == ["one\\e[31m", "two"]
    assert await source.log(4711) == ()
