"""Jobs are found by what is known of them, on the index that holds them or a piece at a time, each
once."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient

from tests.store.test_control import bring
from tests.store.test_cost import keys_examined
from tontine import AsyncClient, Client
from tontine.errors import ConfigError
from tontine.filter import Filter
from tontine.records.schedule import Schedule
from tontine.records.states import JobState
from tontine.store import claim, find, schedules
from tontine.store.call import AsyncStore, Operation, Store

NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each test, not of the whole run: ages are counted from the moment of the call."""
    monkeypatch.setattr(sys.modules[__name__], "NOW", datetime.now(UTC))


STATES = ["done", "failed", "cancelled", "queued", "working"]


def fill(store: Store, first: int, count: int, state: str = "done", **fields: Any) -> None:
    """Jobs with a minute between them, the oldest first."""
    ended = state in ("done", "failed", "cancelled")
    store.database.jobs.insert_many(
        [
            {
                "seq": Int64(seq),
                "task": f"shop.t{seq % 3}",
                "args": {},
                "state": state,
                "attempt": 1,
                "fails": 0,
                "lost": 0,
                "created_at": NOW - timedelta(minutes=first + count - seq, days=1),
                **({"finished_at": NOW - timedelta(minutes=first + count - seq)} if ended else {}),
                **({"node": "web-1-0123abcd"} if state == "working" else {}),
                **fields,
            }
            for seq in range(first, first + count)
        ],
        ordered=False,
    )


def all_of(store: Store, limit: int = 7, **filters: Any) -> list[int]:
    """The numbers of all that is found, read in small pages."""
    begun = store.run(find.search(Filter.of(**filters)))
    seqs: list[int] = []
    while not begun.is_over:
        seqs += [int(one["seq"]) for one in store.run(begun.page(limit, find.SLIM))]
    assert store.run(find.count(Filter.of(**filters))) == len(seqs)
    return seqs


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so small that a few jobs are many."""
    monkeypatch.setattr(find, "PIECE", 10)
    monkeypatch.setattr(find, "FEW", 5)


def scene(store: Store) -> None:
    for place, state in enumerate(STATES):
        fill(store, 1 + place * 20, 20, state)
    queued = store.database.jobs
    queued.update_many({"seq": {"$in": [61, 62]}}, {"$set": {"run_at": NOW + timedelta(days=1)}})
    queued.update_many({"seq": {"$in": [62, 63]}}, {"$set": {"priority": 5}})
    queued.update_one({"seq": 64}, {"$set": {"priority": None, "run_at": None}})
    queued.update_one({"seq": 65}, {"$set": {"key": "welcome-ada"}})
    queued.update_one({"seq": 1}, {"$set": {"key": "welcome-bea"}})
    queued.update_one(
        {"seq": 21}, {"$set": {"error": {"type": "ConnectionError", "message": "it was refused\n"}}}
    )
    queued.insert_one({"task": "shop.t1"})  # nobody has numbered it


def check_scene(store: Store) -> None:
    for place, state in enumerate(STATES):
        assert all_of(store, state=state) == [*range(20 + place * 20, place * 20, -1)]
    assert all_of(store) == [*range(100, 0, -1)]
    assert all_of(store, state=["queued", "working"]) == [*range(100, 60, -1)]
    assert all_of(store, state=["failed", "cancelled"]) == [*range(60, 20, -1)]
    assert all_of(store, state=["failed", "working"], task="shop.t0") == [
        *range(99, 80, -3),
        *range(39, 20, -3),
    ]
    assert all_of(store, state="queued", task="shop.t2") == [*range(80, 60, -3)]
    assert all_of(store, task="shop.*", until="1d") == [*range(100, 0, -1)]
    assert all_of(store, state="failed", since="5m 30s") == [40, 39, 38, 37, 36]
    assert all_of(store, state="failed", until="18m 30s") == [22, 21]
    assert all_of(store, key="welcome-*") == [65, 1]
    assert all_of(store, key="welcome-ada", state="queued") == [65]
    assert all_of(store, key="welcome-ada", state="working") == []
    assert all_of(store, error="ConnectionError") == all_of(store, error="*refused*") == [21]
    assert all_of(store, error="Connection") == []
    assert (
        all_of(store, node="web-1") == all_of(store, node="web-1-0123abcd") == [*range(100, 80, -1)]
    )


def test_each_job_that_is_meant_is_found_once_newest_first(store: Store) -> None:
    scene(store)
    check_scene(store)


def test_and_also_where_jobs_are_many(store: Store, small_pieces: None) -> None:
    scene(store)
    check_scene(store)


def test_and_also_in_a_database_without_our_indexes(
    mongo_client: MongoClient[Any], database: str
) -> None:
    bare = Store(mongo_client[database])
    assert all_of(bare) == all_of(bare, state="failed") == all_of(bare, state="queued") == []
    scene(bare)
    check_scene(bare)


def test_a_great_gap_between_numbers_costs_nothing(store: Store, small_pieces: None) -> None:
    fill(store, 1, 12)
    fill(store, 2**50, 12)
    assert len(all_of(store, state="done")) == 24


def test_jobs_of_a_schedule_are_found_by_their_names(store: Store) -> None:
    fill(store, 1000, 500)
    for name in ("nightly", "nightly2"):
        store.run(schedules.add(Schedule(name, "shop.t1", every=60.0)))
        store.database.schedules.update_one(
            {"_id": name}, {"$set": {"next_at": NOW - timedelta(seconds=30)}}
        )
        (due,) = [one for one in store.run(schedules.find_due(0.0)) if one.name == name]
        assert store.run(schedules.fire(due))
    (found,) = all_of(store, schedule="nightly")
    assert store.database.jobs.find_one({"seq": found})["schedule"] == "nightly"
    assert len(all_of(store, schedule="nightly*")) == 2
    begun = store.run(find.search(Filter.of(schedule="nightly")))
    assert keys_examined(store, begun.page(10)) <= 2


def test_what_is_rare_is_found_without_going_through_all_jobs(store: Store) -> None:
    fill(store, 1, 5000)
    fill(store, 6000, 30, "failed")
    fill(store, 7000, 20, "queued")
    fill(store, 8000, 10, "working")
    fill(store, 9000, 5000)
    for filters, keys in (
        ({"state": "failed"}, 30),
        ({"state": "failed", "since": "5m 30s"}, 6),
        ({"state": "queued"}, 21),
        ({"state": "queued", "task": "shop.t1"}, 8),
        ({"state": "working"}, 10),
        ({}, 20),
    ):
        begun = store.run(find.search(Filter.of(**filters)))
        assert keys_examined(store, begun.page(20, find.SLIM)) <= keys + 1, filters


def test_a_task_is_meant_by_its_name_whatever_versions_a_job_asks_for(store: Store) -> None:
    fill(store, 1, 3000, "queued", task="shop.t10")
    fill(store, 4000, 5, "queued", task="shop.t1@<2,>=1.2")
    fill(store, 5000, 5, "queued", task="shop.t1")
    fill(store, 6000, 5, "failed", task="shop.t1@<2,>=1.2")
    both = [*range(5004, 4999, -1), *range(4004, 3999, -1)]
    assert all_of(store, state="queued", task="shop.t1") == both
    assert all_of(store, state="queued", task="shop.t1@<2,>=1.2") == both[5:]
    assert all_of(store, task="*.t1") == [*range(6004, 5999, -1), *both]
    begun = store.run(find.search(Filter.of(state="queued", task="shop.t1")))
    assert keys_examined(store, begun.page(20, find.SLIM)) <= 14
    begun = store.run(find.search(Filter.of(state="queued", task="shop.t1")))
    assert {route.index for route in begun.routes} >= {"fresh"}, "few of them, on the index"


def test_a_job_that_gets_done_is_never_in_the_index_of_the_others(store: Store) -> None:
    for state, keys in (
        (JobState.QUEUED, 0),
        (JobState.WORKING, 0),
        (JobState.DONE, 0),
        (JobState.FAILED, 1),
    ):
        bring(store, state)
        assert store.database.command("validate", "jobs")["keysPerIndex"]["unsuccessful"] == keys


def test_counting_stops_where_it_is_enough(store: Store, small_pieces: None) -> None:
    fill(store, 1, 50)
    assert store.run(find.count(Filter(), 12)) == 13
    assert store.run(find.count(Filter(), 50)) == 50
    assert store.run(find.count(Filter.of(state="failed"), 0)) == 0


def test_jobs_that_come_meanwhile_are_not_met(store: Store) -> None:
    fill(store, 1, 5, "failed")
    begun = store.run(find.search(Filter.of(state="failed")))
    seen = [one["seq"] for one in store.run(begun.page(3))]
    fill(store, 100, 5, "failed")
    while not begun.is_over:
        seen += [one["seq"] for one in store.run(begun.page(3))]
    assert seen == [5, 4, 3, 2, 1]


def test_a_job_that_is_claimed_while_the_indexes_are_read_is_found(store: Store) -> None:
    seq = bring(store, JobState.QUEUED)
    begun = store.run(find.search(Filter.of(state=["queued", "working"])))

    def page() -> Operation[list[dict[str, Any]]]:
        steps = begun.page(10)
        call, is_claimed = next(steps), False
        try:
            while True:
                answer = yield call
                if not is_claimed:  # those held were read, it was not among them
                    is_claimed = store.run(claim.claim("x", [seq], 0)) == {seq}
                call = steps.send(answer)
        except StopIteration as end:
            return list(end.value)

    assert [(one["seq"], one["state"]) for one in store.run(page())] == [(seq, "working")]


async def test_both_clients_find_and_count(
    store: Store, async_store: AsyncStore, mongo_client: MongoClient[Any]
) -> None:
    fill(store, 1, 250)
    fill(store, 500, 3, "failed")
    client, other = Client(store.database), AsyncClient(async_store.database)
    jobs = list(client.find(task="shop.*"))
    assert [job.seq for job in jobs] == [502, 501, 500, *range(250, 0, -1)]
    assert jobs[0].state is JobState.FAILED
    assert [job.seq async for job in other.find(task="shop.*")] == [job.seq for job in jobs]
    assert [job.seq for job in client.find(limit=120)] == [job.seq for job in jobs[:120]]
    assert [job.seq async for job in other.find(limit=2, state="done")] == [250, 249]
    assert list(client.find(limit=0)) == []
    assert client.count(state="failed") == await other.count(state="failed") == 3
    assert client.count(limit=10) == await other.count(limit=10) == 11
    for wrong in ({"limit": -1}, {"tsak": "a"}, {"state": "odd"}):
        for one in (client, other):
            with pytest.raises(ConfigError):
                one.find(**wrong)


MEANT: list[dict[str, Any]] = [
    *(
        {},
        {"state": "failed"},
        {"state": ["done", "queued"]},
        {"task": "shop.t1"},
        {"task": "*t1"},
        {"task": "sho"},
        {"task": "shop.t"},
        {"task": "shop.t1@<2,>=1.2"},
        {"task": "shop.t1@<2*"},
        {"task": "shop*2"},
        {"task": "*"},
    ),
    *(
        {"key": "a*"},
        {"key": "a\nb"},
        {"schedule": "nightly"},
        {"schedule": "n*y"},
        {"key": "none"},
    ),
    *(
        {"node": "web-1"},
        {"node": "web-1-0123abcd"},
        {"node": "web*"},
        {"node": "web-1-"},
        {"node": "b-1"},
    ),
    *({"error": "ValueError"}, {"error": "*refused*"}, {"error": "refused"}, {"error": "Val*"}),
    *(
        {"since": "5m"},
        {"state": "failed", "since": "5m"},
        {"state": "failed", "until": "5m"},
        {"until": "1d"},
    ),
    {"since": NOW - timedelta(days=1, minutes=5), "until": NOW - timedelta(days=1, minutes=2)},
]


def test_a_document_in_memory_meets_what_mongodb_finds(store: Store) -> None:
    fill(store, 1, 3)
    fill(store, 11, 9, "failed", error={"type": "ValueError", "message": "it was\nrefused here"})
    fill(
        store,
        21,
        3,
        "cancelled",
        error={"type": "Cancelled", "message": "refused"},
        schedule="nightly",
    )
    fill(store, 31, 3, "working", schedule="nearly")
    fill(store, 41, 1, "queued", key="a\nb")
    fill(store, 42, 1, "queued", key="none of them")
    for seq, task in enumerate(("shop.t1@<2,>=1.2", "shop.t1@==2", "shop.t12@<2", "shop.t1@"), 51):
        fill(store, seq, 1, "queued", task=task)
    documents = list(store.database.jobs.find())
    for filters in MEANT:
        meant = Filter.of(**filters).anchored(NOW)
        found = {one["seq"] for one in store.database.jobs.find(meant.where())}
        assert {one["seq"] for one in documents if meant.meets(one)} == found, filters
