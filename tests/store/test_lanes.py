"""Nodes of different kinds divide the jobs of each task among those who have it: counted in keys,
never in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from bson import Int64, ObjectId

from benchmarks.examined import LOOK_UP, Profile, profiled
from benchmarks.simulated import CountingStore, Hours, SimulatedNode, drain_by, offer_of
from tests.support.interleaving.worker import TASK, hello_with
from tests.support.interleaving.world import STEP, World
from tontine.records.roster import Roster
from tontine.store import insert
from tontine.store.call import AsyncStore, Store
from tontine.store.insert import Wish
from tontine.store.names import CLUSTER, COUNTER, ROSTER

ALL, RARE = "common.task", "rare.task"


def fill(store: Store, tasks: Sequence[str], **fields: Any) -> None:
    """One fresh job for each of these tasks, in their order; none is old enough to be helped with,
    however slow the machine is."""
    later = datetime.now(UTC) + timedelta(hours=1)
    store.database.jobs.insert_many(
        [
            {
                "_id": ObjectId(),
                "seq": Int64(seq),
                "task": task,
                "args": {},
                "state": "queued",
                "attempt": 0,
                "fails": 0,
                "lost": 0,
                "created_at": later,
                **fields,
            }
            for seq, task in enumerate(tasks, 1)
        ],
        ordered=False,
    )
    store.database.cluster.update_one(
        {"_id": COUNTER}, {"$set": {"seq": Int64(len(tasks))}}, upsert=True
    )


def holders(store: Store, task: str) -> dict[int, str]:
    return {job["seq"]: job["node"] for job in store.database.jobs.find({"task": task})}


async def drained(
    store: Store,
    async_store: AsyncStore,
    tasks_of: dict[str, list[str]],
    jobs: int,
    at_work: Sequence[str] | None = None,
) -> tuple[Profile, CountingStore]:
    counting = CountingStore(async_store.database)
    with profiled(store.database) as profile:
        assert await drain_by(counting, tasks_of, jobs, at_work) == jobs
    return profile, counting


def fifty(rare: int) -> dict[str, list[str]]:
    """So many of fifty nodes have both modules, and the others have one."""
    return {f"n{number}": [ALL, RARE] if number < rare else [ALL] for number in range(50)}


async def test_a_module_that_three_of_fifty_have_costs_four_keys_a_job(
    store: Store, async_store: AsyncStore
) -> None:
    fill(store, [RARE if seq % 100 == 7 else ALL for seq in range(20_000)])
    crew = {**fifty(0), **{f"n{number}": [RARE] for number in (4, 17, 40)}}
    profile, _ = await drained(store, async_store, crew, 200, at_work=["n4", "n17", "n40"])
    looks = profile.kinds[LOOK_UP]
    assert looks.keys <= 4 * 200, profile
    assert looks.documents <= 1.5 * 200, profile
    roster = Roster.from_document(store.database.cluster.find_one({"_id": ROSTER}))
    assert all(roster.owner_of(seq, RARE) == node for seq, node in holders(store, RARE).items())


async def test_due_jobs_of_such_a_module_cost_five_keys_each(
    store: Store, async_store: AsyncStore
) -> None:
    past = datetime.now(UTC) - timedelta(minutes=5)
    fill(store, [RARE if seq % 100 == 7 else ALL for seq in range(20_000)], run_at=past)
    crew = {**fifty(0), **{f"n{number}": [RARE] for number in (4, 17, 40)}}
    profile, _ = await drained(store, async_store, crew, 200, at_work=["n4", "n17", "n40"])
    assert profile.kinds[LOOK_UP].keys <= 5 * 200, profile
    assert profile.kinds[LOOK_UP].documents <= 2 * 200, profile


@pytest.mark.parametrize("nodes", [3, 8])
async def test_all_alike_look_as_if_there_were_no_kinds(
    store: Store, async_store: AsyncStore, nodes: int
) -> None:
    """The same calls and keys as where nobody says what he offers."""
    crew = {f"n{number}": [ALL] for number in range(nodes)}
    costs = []
    for offers in (True, False):
        store.database.jobs.delete_many({})
        fill(store, [ALL] * 1_000)
        counting = CountingStore(async_store.database)
        roster = Roster(0)
        for name, tasks in crew.items():
            roster = roster.joined_by(name, offer_of(tasks) if offers else None)
        document = {**roster.to_document(), "epoch": 1}
        store.database.cluster.update_one({"_id": ROSTER}, {"$set": document}, upsert=True)
        clock = Hours()
        working = [SimulatedNode(name, counting, clock, tasks) for name, tasks in crew.items()]
        with profiled(store.database) as profile:
            for _ in range(3):
                for node in working:
                    await node.turn()
                clock.time += 0.05
        assert not store.database.jobs.count_documents({"state": "queued"})
        costs.append((profile.kinds[LOOK_UP].keys, counting.calls))
    assert costs[0] == costs[1]


async def test_a_context_does_not_look_again_at_numbers_of_another(
    store: Store, async_store: AsyncStore
) -> None:
    """Both are on the only node, so that there is one kind: what one of them asks for is mostly the
    other's."""
    fill(store, [RARE if seq % 100 == 7 else ALL for seq in range(5_000)])
    document = {**Roster().joined_by("n", offer_of([ALL, RARE])).to_document(), "epoch": 1}
    store.database.cluster.update_one({"_id": ROSTER}, {"$set": document}, upsert=True)
    clock, counting = Hours(), CountingStore(async_store.database)
    node = SimulatedNode("n", counting, clock, [ALL], [RARE])
    with profiled(store.database) as draining:
        while store.database.jobs.count_documents({"state": "queued"}):
            await node.turn()
            clock.time += 0.05
    with profiled(store.database) as idle:
        for _ in range(40):
            await node.turn()
            clock.time += 0.25
    assert draining.kinds[LOOK_UP].keys <= 1.2 * 5_000, draining
    assert idle.kinds[LOOK_UP].keys < 100, idle


@pytest.mark.parametrize("seed", range(6))
async def test_every_job_that_somebody_has_the_task_of_is_done_once_whoever_has_what(
    store: Store, async_store: AsyncStore, seed: int
) -> None:
    choice = Random(seed)
    tasks = [f"{module}.t{number}" for module in "abcd" for number in range(2)]
    crew = {
        f"n{number}": sorted({task for task in tasks if task[0] in modules})
        for number, modules in enumerate(
            ["abcd"[: choice.randint(1, 4)] for _ in range(choice.randint(2, 6))]
        )
    }
    weights = [choice.choice([1, 5, 100]) for _ in tasks]
    fill(store, choice.choices(tasks, weights, k=600))
    served = {task for own in crew.values() for task in own}
    jobs = store.database.jobs.count_documents({"task": {"$in": sorted(served)}})
    await drained(store, async_store, crew, jobs)
    assert store.database.jobs.count_documents({"state": "done", "attempt": 1}) == jobs
    left = store.database.jobs.distinct("task", {"state": "queued"})
    assert not served.intersection(left)
    # As long as everybody has room, nobody needs help.
    roster = Roster.from_document(store.database.cluster.find_one({"_id": ROSTER}))
    for task in served:
        for seq, node in holders(store, task).items():
            assert roster.owner_of(seq, task) == node


def is_in_jobs(calls: list[Any]) -> list[str]:
    return [message.call.method for message in calls if message.call.collection == "jobs"]


@pytest.fixture
def world(store: Store) -> Any:
    world = World(store.database)
    yield world
    world.close()


def test_an_announced_job_goes_to_one_that_has_it_at_once(world: World) -> None:
    """Its number would have been another's turn, by rank among all."""
    for _ in range(3):
        world.start_node(hears=True, hello=hello_with(TASK))
    rare = world.start_node(hears=True, hello=hello_with(TASK, "u.rare"))
    world.live_on(4 * STEP)
    for _ in range(4):
        world.submit(1, "u.rare")
        world.flow()
    world.pass_time(0.1)
    world.flow()
    assert [run.node for run in world.runs[:1]] == [rare.node.id]
    world.calm_down()
    assert {job["state"] for job in world.history.jobs.values()} == {"done"}
    assert {run.node for run in world.runs} == {rare.node.id}


def test_who_does_not_have_the_task_does_not_look(world: World) -> None:
    plain = world.start_node(hears=True, hello=hello_with(TASK))
    world.start_node(hears=True, hello=hello_with("u.rare"))
    world.live_on(6 * STEP)
    before = len(world.network.log)
    world.submit(1, "u.rare")
    world.flow()
    assert not [
        line for line in world.network.log[before:] if plain.node.id in line and "jobs" in line
    ]


def test_a_job_that_came_late_into_a_sparse_lane_is_found(world: World, store: Store) -> None:
    """A producer took its number long before it inserted the job."""
    world.start_node(hello=hello_with(TASK))
    world.start_node(hello=hello_with("u.rare"))
    world.live_on(2 * STEP)
    store.database[CLUSTER].update_one({"_id": COUNTER}, {"$inc": {"seq": 500}})
    world.live_on(2 * STEP)
    rare = world.lives[1].node.turns[0]
    assert all(lane.is_sparse for lane in rare.lanes)
    document = {
        "_id": ObjectId(),
        "seq": Int64(250),
        "task": "u.rare",
        "args": {},
        "state": "queued",
        "attempt": 0,
        "fails": 0,
        "lost": 0,
        "created_at": datetime.now(UTC),
    }
    store.database.jobs.insert_one(document)
    world.submit(1, "u.rare")
    world.live_on(2 * STEP, ending=True)
    world.live_on(STEP, ending=True)
    assert sorted(job["seq"] for job in store.database.jobs.find({"state": "done"})) == [250, 501]


async def test_lanes_keep_their_place_when_only_others_change(
    store: Store, async_store: AsyncStore
) -> None:
    fill(store, [ALL] * 100)
    crew = {"n0": [ALL], "n1": [ALL]}
    counting = CountingStore(async_store.database)
    await drain_by(counting, crew, 100)
    store.run(insert.submit_many(Wish(ALL), [None] * 10))
    clock = Hours()
    node = SimulatedNode("n0", counting, clock, [ALL])
    await node.turn()
    lanes = node.turns[0].lanes
    (before,) = list(lanes)
    cursor = before.sweep.cursor
    roster = Roster.from_document(store.database.cluster.find_one({"_id": ROSTER}))
    changed = roster.joined_by("n2", offer_of([RARE]))
    node.member.see(changed)
    asked = counting.calls.total()
    assert await lanes.arrange([ALL])
    (after,) = list(lanes)
    assert after.sweep.cursor == cursor
    assert counting.calls.total() == asked, "nothing was looked up"
    node.member.see(changed.joined_by("n2", offer_of([ALL])))
    await lanes.arrange([ALL])
    assert counting.calls.total() == asked + 1, "its share is another one: from the lowest on"


async def test_a_lane_that_gets_a_key_goes_back_to_the_lowest_of_its_jobs(
    store: Store, async_store: AsyncStore
) -> None:
    fill(store, [RARE, *[ALL] * 100])
    counting = CountingStore(async_store.database)
    await drain_by(counting, {"n0": [ALL]}, 100)
    node = SimulatedNode("n0", counting, Hours(), [ALL])
    await node.turn()
    lanes = node.turns[0].lanes
    assert [lane.sweep.cursor > 100 for lane in lanes] == [True]
    roster = Roster.from_document(store.database.cluster.find_one({"_id": ROSTER}))
    node.member.see(roster.joined_by("n0", offer_of([ALL, RARE])))
    await lanes.arrange([ALL, RARE])
    lowest = store.database.jobs.find_one({"task": RARE})["seq"]
    assert [(lane.keys, lane.sweep.cursor) for lane in lanes] == [(frozenset({ALL, RARE}), lowest)]
