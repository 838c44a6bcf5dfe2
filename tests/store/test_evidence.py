"""What `tontine why` gathers: counted on the indexes, in the order in which nodes claim."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from tontine.diagnose.why import read as evidence
from tontine.diagnose.why.read import count_ahead
from tontine.records.share import Part, Share
from tontine.records.states import NodeState
from tontine.rules.health import is_beating
from tontine.store import insert, members, names
from tontine.store.call import Call, Operation, Store
from tontine.store.insert import Wish

TASKS = ["x.y", "x.z"]
ALL = Share(1, 0, 1)
PAST = datetime(2020, 1, 1, tzinfo=UTC)


def add(store: Store, *facts: dict[str, Any]) -> None:
    defaults = {
        "task": "x.y",
        "state": "queued",
        "attempt": 0,
        "fails": 0,
        "lost": 0,
        "created_at": PAST,
    }
    store.database.jobs.insert_many([{**defaults, **one} for one in facts])


def ahead(store: Store, seq: int, share: Share = ALL, limit: int = 100) -> tuple[int, int]:
    job = store.run(evidence.gather(seq)).job
    assert job is not None
    return store.run(count_ahead(job, [Part(tuple(TASKS), share)], limit))


@pytest.fixture
def backlog(store: Store) -> Store:
    """Four fresh jobs, two that were given back, one with a high and two with a low priority, one
    of another time."""
    add(store, *({"seq": seq} for seq in (1, 2, 3, 4)))
    add(store, {"seq": 5, "run_at": PAST}, {"seq": 6, "run_at": PAST + timedelta(1)})
    add(store, {"seq": 7, "priority": 5}, {"seq": 8, "priority": -1}, {"seq": 9, "priority": -1})
    add(
        store,
        {"seq": 10, "run_at": datetime(2999, 1, 1, tzinfo=UTC)},
        {"seq": 11, "task": "of.others"},
    )
    add(store, {"seq": 12, "priority": 5}, {"seq": 13, "run_at": PAST + timedelta(1)})
    return store


@pytest.mark.parametrize(
    ("seq", "before", "ranked"),
    [
        (7, 0, 0),
        (12, 1, 0),
        (5, 2, 2),
        (6, 3, 2),
        (13, 4, 2),
        (1, 5, 2),
        (4, 8, 2),
        (8, 9, 2),
        (9, 10, 2),
    ],
)
def test_jobs_are_counted_in_the_order_of_their_claims(
    backlog: Store, seq: int, before: int, ranked: int
) -> None:
    assert ahead(backlog, seq) == (before, ranked)


def test_only_the_share_counts_and_only_up_to_the_limit(backlog: Store) -> None:
    assert ahead(backlog, 4, Share(1, 0, 2)) == (3, 1)
    assert ahead(backlog, 4, limit=3) == (4, 2)


def explained(store: Store, steps: Operation[Any]) -> list[dict[str, Any]]:
    """The plans of the reads of jobs that an operation makes."""
    plans = []
    answer: Any = None
    try:
        while True:
            call: Call = steps.send(answer)
            if call.collection == names.JOBS:
                find = {
                    "find": "jobs",
                    "filter": call.args[0],
                    "hint": call.options.get("hint") or {"_id": 1},
                }
                plans.append(store.database.command("explain", find)["queryPlanner"]["winningPlan"])
            answer = store._once(call)
    except StopIteration:
        return plans


def test_every_read_of_jobs_uses_an_index(backlog: Store) -> None:
    store = backlog
    record = {"name": "a", "modules": [{"name": "x", "tasks": TASKS}]}
    store.run(members.register("a-1", record, 20.0))
    store.database.cluster.insert_one({"_id": "roster", "epoch": 1, "members": ["a-1"]})
    add(store, {"seq": 20, "state": "done", "key": "k"})
    store.database.jobs.insert_one({"_id": "raw", "task": "x.y", "key": "k"})
    operations = [evidence.gather(seq) for seq in (4, 5, 7, 9, 15, 20, 99)]
    for steps in [
        *operations,
        evidence.gather_by_id("raw"),
        evidence.gather_by_id(str(ObjectId())),
    ]:
        plans = explained(store, steps)
        assert plans
        assert all("COLLSCAN" not in str(plan) for plan in plans)


def test_a_job_is_found_by_any_kind_of_id(store: Store) -> None:
    oid = ObjectId()
    store.database.jobs.insert_many([{"_id": one, "task": "x.y"} for one in (oid, "text", 7)])
    for text in (str(oid), "text", "7"):
        found = store.run(evidence.gather_by_id(text))
        assert found.job is not None
        assert str(found.job.id) == text
    assert store.run(evidence.gather_by_id("nothing")).job is None


def test_the_owner_is_seen_alive_or_dead_and_twice(store: Store) -> None:
    record = {"name": "a", "slots": 1, "modules": [{"name": "x", "tasks": TASKS}]}
    store.run(members.register("a-1", record, 20.0))
    store.run(members.move("a-1", NodeState.WAITING))
    store.database.cluster.insert_one({"_id": "roster", "epoch": 1, "members": ["a-1"]})
    add(store, {"seq": 1})
    first = store.run(evidence.gather(1))
    assert first.owner is not None
    assert is_beating(first.owner)
    assert store.run(evidence.look_again(1, first)).owner_ticks is None
    store.database.nodes.update_one({"_id": "a-1"}, {"$inc": {"beat": 1}})
    assert store.run(evidence.look_again(1, first)).owner_ticks is False
    store.database.nodes.update_one({"_id": "a-1"}, {"$inc": {"tick": 1}})
    assert store.run(evidence.look_again(1, first)).owner_ticks is True
    store.database.nodes.update_one({"_id": "a-1"}, {"$set": {"state": "dead", "death": "stopped"}})
    after = store.run(evidence.gather(1))
    assert after.owner is not None
    assert (after.owner.is_dead, after.owner.death) == (True, "stopped")


def test_a_field_that_was_meant_to_be_another_is_seen(store: Store) -> None:
    store.database.jobs.insert_one({"_id": "x", "task": "t.t", "prioriy": 5, "customer": 7})
    (told,) = store.run(evidence.gather_by_id("x")).odd_fields
    assert told.startswith("its field `prioriy` means nothing")


def test_digits_are_a_number_first_and_then_an_id(store: Store) -> None:
    job = store.run(insert.submit(Wish("a.b"), {}))
    store.database.jobs.insert_many(
        [{"_id": str(job.seq), "task": "a.c"}, {"_id": 77, "task": "a.d"}]
    )
    asked = {
        name: store.run(evidence.gather_named(name)).job for name in (str(job.seq), "77", "seven")
    }
    assert {name: found and found.task for name, found in asked.items()} == {
        str(job.seq): "a.b",
        "77": "a.d",
        "seven": None,
    }
    by_id = store.run(evidence.gather_by_id(str(job.seq))).job
    assert by_id is not None
    assert by_id.task == "a.c"
    missing = store.run(evidence.gather_named("78"))
    assert missing.trace is not None
    assert missing.trace.seq == 78
