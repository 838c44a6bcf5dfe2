"""Jobs that name the versions of a module that may run them (MV1-MV4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import Int64, ObjectId

from tests.support import odd
from tests.support.interleaving.life import TIMING
from tests.support.interleaving.loop import ManualClock
from tests.support.interleaving.worker import CAREFUL, TASK, hello_with
from tests.support.interleaving.world import STEP, World
from tontine import Client, ConfigError
from tontine.records.schedule import Schedule
from tontine.store import claim, insert, number, ranges, schedules
from tontine.store.bell import Hint
from tontine.store.call import Store
from tontine.store.insert import Wish
from tontine.store.names import BELL, CLUSTER, JOBS, RANGES

KEY = "shop.resize@<2,>=1.2"


@pytest.fixture
def client(store: Store) -> Client:
    return Client(store.database)


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


def noted(store: Store) -> set[str]:
    return set(store.run(claim.overview()).ranges.keys)


def test_three_ways_to_ask_for_a_range_are_the_same(store: Store, client: Client) -> None:
    one = client.submit("shop.resize", version=">=1.2, <2")
    two = client.submit("shop.resize@>=1.2,<2")
    (three,) = client.submit_many("shop.resize", [{}], version="<2,>=1.2")
    assert {one.task, two.task, three.task} == {KEY}
    assert noted(store) == {KEY}


def test_a_plain_job_makes_no_note(store: Store, client: Client) -> None:
    client.submit("shop.resize")
    assert store.database[CLUSTER].find_one({"_id": RANGES}) is None


@pytest.mark.parametrize("options", [{"task": "shop.resize@1.2"}, {"version": "1.2"}])
def test_what_is_no_range_is_refused(client: Client, options: dict[str, Any]) -> None:
    task = options.pop("task", "shop.resize")
    with pytest.raises(ConfigError) as refused:
        client.submit(task, **options)
    assert str(refused.value) == ("'1.2' is not a version range: write it like >=1.2,<2 or ==1.2.*")


def test_a_range_is_given_once(client: Client) -> None:
    with pytest.raises(ConfigError, match="has a range of versions already"):
        client.submit(KEY, version=">=1")


def test_a_raw_job_is_noted_as_it_is_written_before_it_is_numbered(store: Store) -> None:
    store.database.jobs.insert_one({"task": "shop.resize@>=1.2, <2", "args": {}})
    store.run(number.give_numbers(store.run(number.find_raw(10))))
    assert noted(store) == {"shop.resize@>=1.2, <2"}
    assert store.database.jobs.find_one({})["state"] == "queued"


def test_a_raw_job_whose_range_cannot_be_read_fails_with_the_same_words(store: Store) -> None:
    store.database.jobs.insert_one({"task": "shop.resize@1.2", "args": {}})
    store.run(number.give_numbers(store.run(number.find_raw(10))))
    job = store.database.jobs.find_one({})
    assert job["state"] == "failed"
    assert "'1.2' is not a version range: write it like" in job["error"]["message"]


def test_there_are_at_most_sixty_four_and_the_next_is_refused_with_the_list(
    store: Store, client: Client
) -> None:
    for minor in range(ranges.AT_MOST):
        client.submit("shop.resize", version=f"=={minor}.*")
    with pytest.raises(ConfigError) as refused:
        client.submit("shop.resize", version="==64.*")
    assert "there are 64 ranges" in str(refused.value)
    assert "shop.resize@==63.*" in str(refused.value)
    assert client.submit("shop.resize", version="==63.*").seq
    with pytest.raises(ConfigError, match="there are 64 ranges"):
        store.run(schedules.add(Schedule("s", "shop.resize@==64.*", every=60.0)))
    # What is there already is not left alone.
    store.database.jobs.insert_one({"task": "shop.resize@==64.*", "args": {}})
    store.run(number.give_numbers(store.run(number.find_raw(10))))
    assert len(noted(store)) == 65


def test_a_schedule_with_a_range_is_written_in_the_one_form(store: Store) -> None:
    added = store.run(schedules.add(Schedule("s", "shop.resize@>=1.2,<2", every=60.0)))
    assert added.task == KEY
    assert noted(store) == {KEY}
    with pytest.raises(ConfigError, match="is not a version range"):
        store.run(schedules.add(Schedule("s", "shop.resize@new", every=60.0)))


def test_a_walk_finds_what_is_queued_of_any_sort_and_forgets_the_rest_after_an_hour(
    store: Store, client: Client
) -> None:
    client.submit("shop.a", version=">=1")
    client.submit("shop.b", version=">=2", delay=1000)
    client.submit("shop.c", version=">=3", priority=5)
    client.submit("shop.plain")
    keys = {"shop.a@>=1", "shop.b@>=2", "shop.c@>=3"}
    store.database[CLUSTER].delete_one({"_id": RANGES})
    seen = store.run(ranges.walk())
    assert (seen.keys, seen.unreadable) == (keys, {})
    assert store.run(ranges.put_right(seen.keys, None))
    assert noted(store) == keys
    assert not store.run(ranges.put_right(seen.keys, None)), "another was quicker"
    old = datetime.now(UTC) - timedelta(hours=2)
    gone = [{"key": "shop.old@>=1", "seen_at": old}, {"key": "shop.new@>=1", "seen_at": _now()}]
    store.database[CLUSTER].update_one(
        {"_id": RANGES}, {"$push": {"tasks": {"$each": [*gone, "odd", {"key": 7}]}}}
    )
    at = store.run(claim.overview()).ranges.checked_at
    assert store.run(ranges.put_right(seen.keys, at))
    assert noted(store) == keys | {"shop.new@>=1"}


def _now() -> datetime:
    return datetime.now(UTC)


@pytest.mark.parametrize("tasks", [7, "x", [7, None], {"key": "a.b@>=1"}, [{"key": "a.b@new"}]])
def test_whatever_somebody_wrote_there_is_lived_with(
    store: Store, client: Client, tasks: Any
) -> None:
    store.database[CLUSTER].replace_one(
        {"_id": RANGES}, {"tasks": tasks, "checked_at": tasks}, upsert=True
    )
    assert noted(store) == set()
    client.submit("shop.resize", version=">=1")
    assert noted(store) == {"shop.resize@>=1"}


# Nodes of two versions


def put(store: Store, seq: int, task: str) -> None:
    """A numbered job, by somebody who makes no notes."""
    document = {"_id": ObjectId(), "seq": Int64(seq), "task": task, "args": {}, "state": "queued"}
    counted = {"attempt": 0, "fails": 0, "lost": 0, "created_at": _now()}
    store.database.jobs.insert_one({**document, **counted})
    store.database[CLUSTER].update_one({"_id": "counter"}, {"$set": {"seq": Int64(seq)}})


def both(world: World) -> dict[str, str]:
    """Two nodes, by id the version that each has."""
    lives = {
        version: world.start_node(hello=hello_with(TASK, CAREFUL, version=version))
        for version in ("1.2.0", "1.3.0")
    }
    world.live_on(3 * STEP)
    return {life.node.id: version for version, life in lives.items()}


def test_each_job_runs_in_its_range_and_a_plain_one_anywhere(world: World) -> None:
    versions = both(world)
    for task in (f"{TASK}@>=1.3", f"{TASK}@<1.3", TASK):
        world.submit(6, task)
    world.live_on(12 * STEP, ending=True)
    world.calm_down()
    ran: dict[str, set[str]] = {}
    for run in world.runs:
        task = world.history.by_seq(run.seq)["task"]
        ran.setdefault(task, set()).add(versions[run.node])
    assert ran == {
        f"{TASK}@>=1.3": {"1.3.0"},
        f"{TASK}@<1.3": {"1.2.0"},
        TASK: {"1.2.0", "1.3.0"},
    }


def test_a_range_that_nobody_satisfies_waits(world: World) -> None:
    both(world)
    world.submit(1, f"{TASK}@>=3")
    world.live_on(6 * STEP, ending=True)
    assert world.history.by_seq(1)["state"] == "queued"
    world.start_node(hello=hello_with(TASK, version="3.1"))
    world.live_on(6 * STEP, ending=True)
    assert world.history.by_seq(1)["state"] == "done"


@pytest.mark.parametrize("field", ["checked_at", "tasks"])
def test_a_walk_puts_right_whatever_somebody_wrote_there(store: Store, field: str) -> None:
    for value in odd.VALUES:
        store.run(ranges.expect("shop.a@>=1"))
        odd.scribble(store.database[CLUSTER], {"_id": RANGES}, field, value)
        known = store.run(claim.overview()).ranges
        assert store.run(ranges.put_right([KEY], known.checked_at)), value
        assert KEY in noted(store), value
        assert store.run(claim.overview()).ranges.checked_at is not None, value


@pytest.mark.parametrize("value", ["regex", "[1]", "the year 9999", "a date beyond Python's"])
def test_a_walk_is_made_whatever_the_time_of_the_last_one_says(
    world: World, store: Store, value: str
) -> None:
    both(world)
    world.submit(1, f"{TASK}@>=1.3")
    world.live_on(2 * STEP, ending=True)
    store.database[CLUSTER].update_one({"_id": RANGES}, {"$set": {"tasks": []}})
    odd.scribble(store.database[CLUSTER], {"_id": RANGES}, "checked_at", value)
    put(store, 2, f"{TASK}@>=1.3")
    world.live_on(120.0, ending=True)
    assert store.database.jobs.find_one({"seq": 2})["state"] == "done"


@pytest.mark.parametrize("quiet", [0.0, 60.0])
def test_the_list_of_ranges_may_be_deleted(world: World, store: Store, quiet: float) -> None:
    """Also when nothing is queued then: who knows that a range was noted does not note it again."""
    both(world)
    world.submit(1, f"{TASK}@>=1.3")
    world.live_on(2 * STEP, ending=True)
    assert world.history.by_seq(1)["state"] == "done"
    store.database[CLUSTER].delete_one({"_id": RANGES})
    world.live_on(quiet)
    # The server's clock is the only one that does not move with the others here.
    store.database[CLUSTER].update_one({"_id": RANGES}, {"$unset": {"checked_at": ""}})
    put(store, 2, f"{TASK}@>=1.3")
    world.live_on(120.0, ending=True)
    assert store.database.jobs.find_one({"seq": 2})["state"] == "done"


def test_a_job_whose_range_nobody_ever_noted_waits_a_minute(world: World, store: Store) -> None:
    both(world)
    put(store, 1, f"{TASK}@>=1.3")
    world.live_on(80.0, ending=True)
    assert store.database.jobs.find_one({"seq": 1})["state"] == "done"


def test_a_job_with_a_range_that_cannot_be_read_is_failed_by_the_walk(
    world: World, store: Store
) -> None:
    both(world)
    world.submit(1, f"{TASK}@>=1.3")
    world.live_on(2 * STEP, ending=True)
    put(store, 2, f"{TASK}@new")
    # The server's clock is the only one that does not move with the others here.
    store.database[CLUSTER].update_one({"_id": RANGES}, {"$unset": {"checked_at": ""}})
    world.live_on(120.0, ending=True)
    job = store.database.jobs.find_one({"seq": 2})
    assert job["state"] == "failed"
    assert "'new' is not a version range" in job["error"]["message"]


def test_a_careful_task_with_a_range_is_failed_after_its_node_died(world: World) -> None:
    life = world.start_node(hello=hello_with(CAREFUL, version="1.3"))
    world.live_on(STEP)
    world.submit(1, f"{CAREFUL}@>=1.3")
    world.flow_until(lambda _: bool(world.running))
    assert f"{CAREFUL}@>=1.3" in world.history.nodes[life.node.id]["careful"]
    world.crash(life)
    world.start_node(hello=hello_with(TASK))
    world.live_on(TIMING.lease_for + 4 * STEP)
    assert world.history.by_seq(1)["state"] == "failed"


def test_the_first_job_of_a_range_starts_when_its_ring_is_heard(world: World, store: Store) -> None:
    """The list is read again because of the ring, and not only seconds later (MS7)."""
    life = world.start_node(hears=True, hello=hello_with(TASK, version="1.3.0"))
    world.live_on(90.0)
    key = f"{TASK}@>=1.3"
    job = store.run(insert.submit(Wish(key), {}))
    world.announce(life, Hint(JOBS, job.seq, job.seq, is_fresh=True, task=key))
    world.flow()
    assert [run.seq for _, _, run in world.running] == [job.seq]


def test_a_range_that_its_workers_do_not_satisfy_costs_nothing(world: World) -> None:
    life = world.start_node(hears=True, hello=hello_with(TASK, version="1.2.0"))
    world.live_on(90.0)
    before = len(world.network.in_flight)
    world.announce(life, Hint(JOBS, 1, 1, is_fresh=True, task=f"{TASK}@>=1.3"))
    assert len(world.network.in_flight) == before


def test_a_new_range_rings_once_before_its_job_does(store: Store, client: Client) -> None:
    rung = [one["what"] for one in store.database[BELL].find()]
    client.submit("shop.resize", version=">=1")
    client.submit("shop.resize", version=">=1")
    news = [one["what"] for one in store.database[BELL].find()][len(rung) :]
    assert news == [CLUSTER, JOBS, JOBS]


def test_a_producer_asks_for_what_it_noted_at_most_once_a_minute(store: Store) -> None:
    clock = ManualClock()
    noting = ranges.Noted(clock)
    store.run(ranges.expect(KEY, noting))
    store.database[CLUSTER].delete_one({"_id": RANGES})
    store.run(ranges.expect(KEY, noting))
    assert noted(store) == set(), "a walk would put it right meanwhile"
    clock.advance(ranges.REMEMBERED_FOR)
    store.run(ranges.expect(KEY, noting))
    assert noted(store) == {KEY}
    for minor in range(ranges.AT_MOST):
        noting.add(f"shop.resize@=={minor}.*")
    assert len(noting._at) <= ranges.AT_MOST


def test_clients_and_nodes_keep_what_they_noted(store: Store, client: Client) -> None:
    client.submit(KEY)
    store.database[CLUSTER].delete_one({"_id": RANGES})
    client.submit(KEY)
    assert noted(store) == set()
