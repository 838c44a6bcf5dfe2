"""The counter gives each number once, also after it was set back, lost, or written over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Decimal128, Int64

from tontine.records.job import unfit
from tontine.store import counter, insert, logs, number
from tontine.store.call import Store
from tontine.store.counter import Reserve
from tontine.store.insert import Wish

WISH = Wish("t.t")


def set_counter(store: Store, value: Any) -> None:
    store.database.command({"collMod": "cluster", "validator": {}})
    store.database.cluster.replace_one(
        {"_id": "counter"}, {"_id": "counter", "seq": value}, upsert=True
    )


def seqs(store: Store) -> list[int]:
    return [int(job["seq"]) for job in store.database.jobs.find({"seq": {"$ne": None}}).sort("seq")]


def test_a_counter_that_was_set_back_costs_one_submit_and_no_job(store: Store) -> None:
    store.run(insert.submit_many(WISH, [None] * 500))
    set_counter(store, 0)
    reserve = Reserve()
    ours = [store.run(insert.submit(WISH, None, reserve)).seq for _ in range(5)]
    many = store.run(insert.submit_many(WISH, [None] * 300))
    assert len(set(seqs(store))) == 805
    assert min(one for one in ours if one is not None) > 500
    assert {job.seq for job in many} <= set(seqs(store))


def test_raw_jobs_get_their_numbers_although_the_counter_was_set_back(store: Store) -> None:
    store.run(insert.submit_many(WISH, [None] * 50))
    set_counter(store, 10)
    store.database.jobs.insert_many([{"task": "t.t"} for _ in range(60)])
    while found := store.run(number.find_raw()):
        store.run(number.give_numbers(found))
    assert len(set(seqs(store))) == 110


@pytest.mark.parametrize(
    "value",
    [None, "text", float("nan"), float("inf"), -5, 2**63 - 1, {}, [], [5], Decimal128("7")],
)
def test_whatever_the_counter_is_the_next_number_is_one_that_nobody_has(
    store: Store, value: Any
) -> None:
    store.run(insert.submit_many(WISH, [None] * 20))
    set_counter(store, value)
    assert store.run(counter.take(3)).first > 20
    assert store.run(insert.submit(WISH, None)).seq is not None


def test_a_forged_number_does_not_use_numbers_up(store: Store) -> None:
    store.run(insert.submit(WISH, None))
    forged = {"task": "t.t", "state": "queued", "attempt": 0, "fails": 0, "lost": 0, "args": {}}
    store.database.jobs.insert_one({**forged, "seq": Int64(2**63 - 1)})
    store.database.jobs.insert_one({**forged, "seq": Int64(2)})
    assert store.run(insert.submit(WISH, None)).seq == 3
    assert store.run(counter.raise_counter()) < 2**53


@pytest.mark.parametrize("forged", [2**52 - 1, 2**52, 2**53 - 1])
def test_the_last_number_that_is_believed_is_not_the_last_that_is_given(
    store: Store, forged: int
) -> None:
    ready = {"task": "t.t", "state": "queued", "attempt": 0, "fails": 0, "lost": 0, "args": {}}
    store.database.jobs.insert_one({**ready, "seq": Int64(forged)})
    set_counter(store, Int64(forged))
    store.run(counter.raise_counter(forged))
    seqs = [store.run(insert.submit(WISH, None)).seq for _ in range(3)]
    assert seqs == sorted(set(seqs), key=lambda seq: seq or 0)
    assert all(unfit({**ready, "seq": seq}) is None for seq in seqs)


def test_a_number_whose_lines_are_still_kept_is_not_given_to_another_job(store: Store) -> None:
    store.run(logs.append([logs.Part("some job", 77, 1, [(datetime.now(UTC), "hello")])]))
    assert store.run(counter.raise_counter()) == 77


def test_what_a_node_has_seen_counts_too(store: Store) -> None:
    assert store.run(counter.raise_counter(400)) == 400
    assert store.run(counter.raise_counter(10)) == 400
