"""Sums over jobs, whatever somebody has written there; and how many jobs wait."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.store.test_settle import encoded, end, hold
from tontine import verdict
from tontine.cli.exposition import Exposition
from tontine.cli.metrics import READ_EVERY, Page
from tontine.errors import StoreUnavailable
from tontine.records.counted import Noted, Stat
from tontine.store import insert, stats
from tontine.store.call import Store
from tontine.store.insert import Wish


def count(store: Store, task: str, node: str = "x", **counts: Any) -> int:
    (seq,) = hold(store, node=node, task=task)
    body = verdict.with_counts(encoded(1), counts)
    end(store, "done", seq, result=body, noted=Noted(dict(counts)))
    return seq


ODD: list[Any] = [None, 7, "x", [1], {"rows": "x", "n": math.nan, "i": math.inf}, {"a": {"b": 1}}]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_counts_of_one_job_spoil_no_sum(store: Store, odd: Any) -> None:
    count(store, "shop.a", rows=5)
    seq = count(store, "shop.a", rows=7)
    store.database.jobs.update_one({"seq": seq}, {"$set": {"counts": odd}})
    assert store.run(stats.sum_counts()) == [Stat("shop.a", "rows", 5)]


def test_sums_are_of_a_task_in_whatever_range_and_of_a_node(store: Store) -> None:
    count(store, "shop.a", rows=1)
    count(store, "shop.a@>=1.2", rows=2)
    count(store, "shop.ab", rows=4)
    whole = [Stat("shop.a", "rows", 3), Stat("shop.ab", "rows", 4)]
    assert store.run(stats.sum_counts()) == whole
    assert store.run(stats.sum_counts("shop.*")) == whole
    assert store.run(stats.sum_counts("shop.a")) == whole[:1]
    assert store.run(stats.sum_counts("shop.a", ["x"])) == whole[:1]
    assert store.run(stats.sum_counts(nodes=["y"])) == []


def test_jobs_that_wait_are_counted_by_task_wherever_they_stand(store: Store) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    for wish in (
        *(Wish("shop.a"), Wish("shop.a", priority=3), Wish("shop.a", run_at=later)),
        *(Wish("shop.b"), Wish("other.x"), Wish("other.x@<2")),
    ):
        store.run(insert.submit(wish, None))
    hold(store, task="shop.b")
    counted = store.run(stats.count_queued(["shop.a", "shop.b", "shop.c"]))
    assert counted == {"shop.a": 3, "shop.b": 1, "shop.c": 0, "other.x": 2}


ODD_RECORDS: list[dict[str, Any]] = [
    {"_id": "a", "state": "waiting", "metrics": {"stats": ["x"], "done": "x", "cpu": None}},
    {"_id": "b", "state": "dead", "contexts": [None, {"name": 1}, {"name": "m", "ready": "x"}]},
    {"_id": "c", "state": "waiting", "contexts": [{"name": "m", "ready": 2}], "metrics": 3},
]


def test_odd_records_are_served_as_far_as_they_can_be() -> None:
    registry = CollectorRegistry()
    registry.register(Exposition(stats.Picture(ODD_RECORDS, 4, {"t.t": 1})))
    text = generate_latest(registry).decode()
    assert 'tontine_context_ready{context="m",node="c"} 2.0' in text
    assert "tontine_epoch 4.0" in text


def test_the_store_is_asked_at_most_every_five_seconds_also_while_it_is_away() -> None:
    now = [0.0]
    answers: list[bytes | Exception] = [b"one", StoreUnavailable("away"), b"two"]
    asked: list[float] = []

    def ask() -> bytes:
        asked.append(now[0])
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    page = Page(ask, lambda: now[0])
    assert [page.get(), page.get()] == [b"one", b"one"]
    now[0] = READ_EVERY
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            page.get()
    now[0] = 2 * READ_EVERY
    assert page.get() == b"two"
    assert asked == [0.0, READ_EVERY, 2 * READ_EVERY]
