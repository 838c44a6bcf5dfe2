"""The bell: who listens hears what is rung from then on, and who rings never waits, fails, or needs
a listener."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient

from tests.support.eventually import eventually, eventually_async
from tontine.errors import StoreError, StoreUnavailable
from tontine.records.roster import Roster
from tontine.records.states import Desired
from tontine.store import bell, claim, control, insert, members, number, repair, schema, settle
from tontine.store.bell import HELP, Hint
from tontine.store.call import AsyncStore, Call, Operation, Store
from tontine.store.insert import CHUNK, Wish
from tontine.store.names import BELL, CLUSTER, JOBS, NODES, PLANS
from tontine.store.schema import BELL_SIZE
from tontine.store.settle import Outcome
from tontine_node.claiming.listener import Listener

WITHIN = 20.0
"""Nobody waits that long, unless something is broken."""
RING, INSERT = "bell.insert_one", "jobs.insert_many"

Hints = AsyncGenerator[Hint | None, None]


@pytest.fixture
async def listener(async_store: AsyncStore) -> AsyncIterator[Hints]:
    """Somebody who listens by now."""
    async with contextlib.aclosing(bell.hear(async_store)) as hints:
        assert await anext(hints) is None
        yield hints


@pytest.fixture
def bare(mongo_client: MongoClient[dict[str, object]], database: str) -> Store:
    """A store without any collections."""
    return Store(mongo_client[database])


async def heard(hints: Hints) -> Hint:
    async with asyncio.timeout(WITHIN):
        while True:
            hint = await anext(hints)
            if hint is not None:
                return hint


def rings(store: Store) -> list[dict[str, Any]]:
    return list(store.database[BELL].find({"what": {"$exists": True}}))


def ring_and_wait(store: Store, steps: Operation[None]) -> None:
    """Nobody hears when a ring has arrived, but one can look."""
    before = len(rings(store))
    store.run(steps)
    eventually(lambda: len(rings(store)) > before, WITHIN)


def is_capped(store: Store) -> bool:
    return bool(store.database[BELL].options().get("capped"))


def overwrite(store: Store) -> None:
    """Ring so much that nothing is left of what was there."""
    news = "x" * 1000
    store.database[BELL].insert_many([{"what": news} for _ in range(2 * BELL_SIZE // len(news))])


@pytest.mark.parametrize(
    ("steps", "hint"),
    [
        (lambda: bell.ring_jobs(7, 7, fresh=True), Hint(JOBS, 7, 7, is_fresh=True)),
        (lambda: bell.ring_jobs(1, 2**40, fresh=False), Hint(JOBS, 1, 2**40)),
        (lambda: bell.ring(JOBS), Hint(JOBS)),
        (lambda: bell.ring(CLUSTER), Hint(CLUSTER)),
        (lambda: bell.ring(NODES), Hint(NODES)),
        (lambda: bell.ring(HELP), Hint(HELP)),
    ],
    ids=["fresh jobs", "other jobs", "jobs", "cluster", "nodes", "help"],
)
async def test_a_ring_is_heard_as_what_it_is(
    store: Store, listener: Hints, steps: Callable[[], Operation[None]], hint: Hint
) -> None:
    store.run(steps())
    assert await heard(listener) == hint


async def test_what_was_rung_before_somebody_listens_is_not_heard(
    store: Store, async_store: AsyncStore
) -> None:
    for _ in range(3):
        ring_and_wait(store, bell.ring("before"))
    async with contextlib.aclosing(bell.hear(async_store)) as hints:
        assert await anext(hints) is None
        store.run(bell.ring("after"))
        assert await heard(hints) == Hint("after")


async def test_all_who_listen_hear_each_ring_in_its_order(
    store: Store, async_store: AsyncStore, listener: Hints
) -> None:
    async with contextlib.aclosing(bell.hear(async_store)) as other:
        assert await anext(other) is None
        for seq in range(1, 6):
            ring_and_wait(store, bell.ring_jobs(seq, seq, fresh=True))
        for hints in (listener, other):
            assert [(await heard(hints)).first for _ in range(5)] == [1, 2, 3, 4, 5]


async def test_what_somebody_else_wrote_there_is_a_hint_at_most(
    store: Store, listener: Hints
) -> None:
    for odd in ({}, {"what": JOBS, "first": "1", "last": 2}, {"first": 1}, {"what": 7}):
        store.database[BELL].insert_one(odd)
    assert [(await heard(listener)).first for _ in range(4)] == [None] * 4


def test_rings_that_nobody_hears_are_overwritten(store: Store) -> None:
    for _ in range(2):
        overwrite(store)
    assert store.database.command("collStats", BELL)["size"] <= BELL_SIZE


def test_a_ring_to_a_store_that_is_away_raises_nothing() -> None:
    with MongoClient[dict[str, object]](
        "mongodb://127.0.0.1:1", serverSelectionTimeoutMS=50
    ) as client:
        away = Store(client["away"])
        away.run(bell.ring(JOBS))
        away.run(bell.ring_jobs(1, 1, fresh=True))
        with pytest.raises(StoreUnavailable):
            away.run(_one(Call("", "command", ({"ping": 1},), within=0.1)))


@pytest.mark.parametrize("prepare", [schema.init, schema.ensure])
def test_a_bell_that_was_rung_before_it_was_made_is_made_again(
    bare: Store, prepare: Callable[[], Operation[None]]
) -> None:
    ring_and_wait(bare, bell.ring(JOBS))
    assert not is_capped(bare)
    bare.run(prepare())
    assert is_capped(bare)
    ring_and_wait(bare, bell.ring(JOBS))
    bare.run(prepare())
    assert len(rings(bare)) == 2, "a bell that is one stays as it is"


async def test_nobody_can_listen_at_an_ordinary_collection(bare: Store, mongo_uri: str) -> None:
    ring_and_wait(bare, bell.ring(JOBS))
    async with AsyncMongoClient[dict[str, object]](mongo_uri) as client:
        with pytest.raises(StoreError):
            await anext(bell.hear(AsyncStore(client[bare.database.name])))


async def test_who_was_left_behind_is_told_so_or_hears_no_more(
    store: Store, listener: Hints
) -> None:
    overwrite(store)
    with contextlib.suppress(StoreError):
        async with asyncio.timeout(WITHIN):
            async for _ in listener:
                pass


class Hearing:
    """An ear at work, and what it told."""

    def __init__(self, store: AsyncStore) -> None:
        self.told: list[Hint] = []
        self.busy_for = 0.0
        self.ear = Listener(store, lambda: self.busy_for, self.told.append)

    async def until(self, hint: Hint, times: int = 1) -> None:
        await self.until_so(lambda: self.told.count(hint) >= times)

    async def until_so(self, is_so: Callable[[], bool]) -> None:
        async def check() -> bool:
            return is_so()

        await eventually_async(check, WITHIN)

    async def __aenter__(self) -> Hearing:
        self._task = asyncio.create_task(self.ear.run())
        return self

    async def __aexit__(self, *exception: object) -> None:
        while (
            not self._task.done()
        ):  # a driver that was just timing out may turn one cancel into an error of its own
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=0.5)


async def test_an_ear_that_opens_has_missed_everything_so_far(async_store: AsyncStore) -> None:
    async with Hearing(async_store) as hearing:
        await hearing.until(Hint(PLANS, is_fresh=True))
        assert hearing.told == [Hint(CLUSTER), Hint(JOBS), Hint(PLANS, is_fresh=True)]
        assert hearing.ear.is_open


async def test_an_ear_that_was_left_behind_listens_again(
    store: Store, async_store: AsyncStore
) -> None:
    async with Hearing(async_store) as hearing:
        await hearing.until(Hint(JOBS))
        overwrite(store)
        await hearing.until(Hint(JOBS), times=2)
        store.run(bell.ring(HELP))
        await hearing.until(Hint(HELP))


async def test_an_ear_without_a_bell_waits_for_one(
    bare: Store, mongo_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    ring_and_wait(bare, bell.ring(JOBS))
    caplog.set_level("INFO", "tontine_node.claiming.listener")
    async with (
        AsyncMongoClient[dict[str, object]](mongo_uri) as client,
        Hearing(AsyncStore(client[bare.database.name])) as hearing,
    ):
        await hearing.until_so(lambda: "nothing to listen to" in caplog.messages)
        assert not hearing.ear.is_open
        bare.run(schema.init())
        await hearing.until_so(lambda: hearing.ear.is_open)


async def test_a_busy_node_does_not_listen(store: Store, async_store: AsyncStore) -> None:
    async with Hearing(async_store) as hearing:
        await hearing.until_so(lambda: hearing.ear.is_open)
        hearing.busy_for = 60.0
        store.run(bell.ring(HELP))
        await hearing.until_so(lambda: not hearing.ear.is_open)
        hearing.busy_for = 0.0
        await hearing.until_so(lambda: hearing.ear.is_open)
        assert hearing.told.count(Hint(JOBS)) == 2, "what happened meanwhile was not heard"


def _one(call: Call) -> Operation[Any]:
    return (yield call)


def calls_of(store: Store, steps: Operation[Any], *, lose_rings: bool = False) -> list[Call]:
    """The calls that an operation makes on a real store; its rings may be lost."""
    made: list[Call] = []
    resume: Callable[[Any], Call] = steps.send
    value: Any = None
    with contextlib.suppress(StopIteration):
        while True:
            made.append(resume(value))
            if lose_rings and made[-1].collection == BELL:
                resume, value = steps.throw, StoreUnavailable("the bell is away")
            else:
                resume, value = steps.send, store.run(_one(made[-1]))
    return made


def names(calls: Iterable[Call]) -> list[str]:
    return [f"{call.collection}.{call.method}" for call in calls]


def news(calls: Iterable[Call]) -> list[tuple[int, int, bool]]:
    """What was rung about jobs."""
    rung = [call.args[0] for call in calls if call.collection == BELL]
    return [(one["first"], one["last"], one["fresh"]) for one in rung]


@pytest.mark.parametrize("lose_rings", [False, True])
@pytest.mark.parametrize(
    "wish", [Wish("t.t"), Wish("t.t", key="k"), Wish("t.t", timeout=5.0)], ids=str
)
def test_a_fresh_job_is_announced_before_it_is_inserted(
    store: Store, wish: Wish, lose_rings: bool
) -> None:
    made = calls_of(store, insert.submit(wish, {}), lose_rings=lose_rings)
    assert names(made)[-2:] == [RING, INSERT]
    assert news(made) == [(1, 1, True)]
    assert store.database.jobs.count_documents({"seq": 1}) == 1


@pytest.mark.parametrize("lose_rings", [False, True])
@pytest.mark.parametrize(
    "wish", [Wish("t.t", delay=0.0), Wish("t.t", priority=-1), Wish("t.t", priority=3)], ids=str
)
def test_any_other_job_is_rung_for_once_it_is_there(
    store: Store, wish: Wish, lose_rings: bool
) -> None:
    made = calls_of(store, insert.submit(wish, {}), lose_rings=lose_rings)
    assert names(made)[-2:] == [INSERT, RING]
    assert news(made) == [(1, 1, False)]
    assert store.database.jobs.count_documents({"seq": 1}) == 1


@pytest.mark.parametrize("wish", [Wish("t.t"), Wish("t.t", priority=1)], ids=str)
def test_many_jobs_are_rung_for_once_per_chunk_after_their_insert(store: Store, wish: Wish) -> None:
    made = calls_of(store, insert.submit_many(wish, [None] * (CHUNK + 1)))
    assert [name for name in names(made) if name in (RING, INSERT)] == [INSERT, RING] * 2
    assert news(made) == [(1, CHUNK, wish.is_fresh), (CHUNK + 1, CHUNK + 1, wish.is_fresh)]


@pytest.mark.parametrize(
    ("document", "is_fresh"),
    [({}, True), ({"priority": 2}, False), ({"run_at": None, "priority": 0}, True)],
    ids=str,
)
def test_jobs_that_were_numbered_are_rung_for(
    store: Store, document: dict[str, Any], is_fresh: bool
) -> None:
    store.database.jobs.insert_many([{"task": "t.t"}, {"task": "t.t", **document}])
    made = calls_of(store, number.give_numbers(store.run(number.find_raw())))
    assert names(made)[-1] == RING
    assert news(made) == [(1, 2, is_fresh)]


def held(store: Store, count: int = 1) -> list[int]:
    seqs = [job.seq or 0 for job in store.run(insert.submit_many(Wish("t.t"), [None] * count))]
    store.run(claim.claim("x", seqs, 0))
    return seqs


def retry_of_a_finished_job(store: Store) -> Operation[Any]:
    (seq,) = held(store)
    store.run(settle.settle_each("x", [Outcome("cancelled", seq, 1)]))
    return control.retry(seq)


def cancel_of_a_queued_job(store: Store) -> Operation[Any]:
    return control.cancel(store.run(insert.submit(Wish("t.t"), {})).seq or 0)


def cancel_of_a_running_job(store: Store) -> Operation[Any]:
    return control.cancel(held(store)[0])


def pause_by_name(store: Store) -> Operation[Any]:
    store.run(members.register("n-1", {"name": "n"}, 20))
    return control.ask("n", Desired.PAUSED)


def pause_by_id(store: Store) -> Operation[Any]:
    store.run(members.register("n-1", {"name": "n"}, 20))
    return control.ask_seen("n-1", Desired.PAUSED, ["initializing"])


def change_of_the_roster(store: Store) -> Operation[Any]:
    seen = store.run(members.read_roster())
    return members.replace_roster(seen, seen.joined_by("x"))


def repair_after_a_death(store: Store) -> Operation[Any]:
    held(store)
    return repair.repair([])


@pytest.mark.parametrize("lose_rings", [False, True])
@pytest.mark.parametrize(
    ("prepare", "what"),
    [
        (retry_of_a_finished_job, JOBS),
        (cancel_of_a_queued_job, JOBS),
        (cancel_of_a_running_job, JOBS),
        (pause_by_name, NODES),
        (pause_by_id, NODES),
        (change_of_the_roster, CLUSTER),
        (repair_after_a_death, JOBS),
    ],
)
def test_whoever_changes_what_nodes_wait_for_rings_after_the_write(
    store: Store, prepare: Callable[[Store], Operation[Any]], what: str, lose_rings: bool
) -> None:
    made = calls_of(store, prepare(store), lose_rings=lose_rings)
    assert [call.args[0]["what"] for call in made if call.collection == BELL] == [what]
    writes = ("update_one", "update_many")
    assert max(place for place, call in enumerate(made) if call.method in writes) < names(
        made
    ).index(RING)


@pytest.mark.parametrize("kind", ["retry", "released", "lost"])
def test_jobs_that_go_back_are_rung_for_in_one_ring(store: Store, kind: Any) -> None:
    one, *_, last = seqs = held(store, 3)
    made = calls_of(store, settle.settle_each("x", [Outcome(kind, seq, 1) for seq in seqs]))
    assert news(made) == [(one, last, False)]


def test_what_changes_nothing_for_nodes_rings_for_nobody(store: Store) -> None:
    one, two = held(store, 2)
    seen = store.run(members.read_roster())
    store.run(members.replace_roster(seen, seen.joined_by("quick")))
    quiet: list[Operation[Any]] = [
        settle.settle_each("x", [Outcome("cancelled", one, 1)]),
        control.retry(two),  # it runs
        members.replace_roster(seen, seen.joined_by("slow")),
        claim.claim("x", [one], 0),
    ]
    for steps in quiet:
        assert RING not in names(calls_of(store, steps))
    assert store.run(members.read_roster()) == Roster(1, ("quick",))
