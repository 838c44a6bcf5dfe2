"""(3) Help: a node with free slots takes what others have left lying, and one with too much of it
asks for that."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from benchmarks.simulated import CountingStore, Hours, Slots
from tests.support.interleaving.network import Message
from tests.support.interleaving.world import World
from tontine.cli.bench.measure import NOOP
from tontine.config import Timing
from tontine.records.offer import ModuleOffer, Offer
from tontine.records.roster import Roster
from tontine.store import insert, read
from tontine.store.call import AsyncStore, Store
from tontine.store.insert import Wish
from tontine_node.claiming.cadence import Cadence
from tontine_node.claiming.careful import Careful
from tontine_node.claiming.claimer import Claimer
from tontine_node.claiming.help import HELP_EVERY, HELP_GOOD_FOR, HELP_LOOKS_AT, HELP_SOON
from tontine_node.claiming.numberer import SOON_FOR
from tontine_node.claiming.surroundings import Surroundings
from tontine_node.claiming.turn import ASK_EVERY, Turn
from tontine_node.claims import Claims
from tontine_node.membership.heartbeat import Heartbeat
from tontine_node.membership.member import Member
from tontine_node.running.dispatch import Dispatcher
from tontine_node.telling.troubles import Troubles

TWO, THREE = ("me", "you"), ("you", "me", "they")


class Few(Slots):
    """So many slots, and so many of them free."""

    def __init__(self, free: int, room: int) -> None:
        super().__init__()
        self.slots = 4
        self.free, self.more = free, room

    def room(self) -> int:
        return self.more

    def free_slots(self) -> int:
        return self.free


class Lease:
    """A heart that beats."""

    def has_lease(self) -> bool:
        return True


class Helper:
    """The lane and the claim loop of one member, by hand."""

    def __init__(
        self,
        store: AsyncStore,
        members: tuple[str, ...],
        name: str = "me",
        free: int = 0,
        room: int = 0,
    ):
        self.store = CountingStore(store.database)
        self.clock = Hours()
        self.slots = Few(free, room)
        timing, claims, beat = Timing(), Claims(), cast("Heartbeat", Lease())
        dispatcher = cast("Dispatcher", self.slots)
        self.member = Member(name, name, self.store, timing, self.clock, beat)
        self.member.see(Roster(1, members))
        cadence = Cadence(self.clock, lambda: True)
        surroundings = Surroundings(self.store, cadence, self.member)
        careful = Careful(name, self.store, claims, lambda: ())
        self.turn = Turn(
            name,
            self.store,
            timing,
            cadence,
            self.member,
            claims,
            dispatcher,
            surroundings,
            careful,
        )
        self.claimer = Claimer(
            name,
            self.store,
            cadence,
            beat,
            claims,
            surroundings,
            careful,
            [self.turn],
            Troubles(),
        )
        self.claimer.is_open = True

    async def left(self) -> list[int]:
        await self.turn.lanes.arrange([NOOP])
        return [int(job["seq"]) for job in await self.turn.help.left()]

    @property
    def looks(self) -> int:
        return self.store.calls["jobs.find"]

    @property
    def rings(self) -> int:
        return self.store.calls["bell.insert_one"]


def lay(store: Store, count: int) -> list[int]:
    """Jobs that were inserted a while ago."""
    jobs = store.run(insert.submit_many(Wish(NOOP), [None] * count))
    long_ago = store.run(read.now()) - timedelta(seconds=60)
    store.database.jobs.update_many({}, {"$set": {"created_at": long_ago}})
    return [job.seq or 0 for job in jobs]


def let_all_be_taken(store: Store) -> None:
    store.database.jobs.update_many({}, {"$set": {"state": "working", "node": "you", "attempt": 1}})


async def test_a_helper_takes_from_the_far_end_as_much_as_it_has_free_slots(
    store: Store, async_store: AsyncStore
) -> None:
    lay(store, 20)
    helper = Helper(async_store, TWO, free=3)
    assert await helper.left() == [20, 19, 18]
    helper.slots.free = 2
    assert await helper.left() == [17, 16]


async def test_the_far_end_is_not_beyond_what_one_look_finds(
    store: Store, async_store: AsyncStore
) -> None:
    lay(store, 2 * HELP_LOOKS_AT)
    assert await Helper(async_store, TWO, free=1).left() == [HELP_LOOKS_AT]


async def test_helpers_begin_at_different_jobs(store: Store, async_store: AsyncStore) -> None:
    lay(store, 8)
    mine = await Helper(async_store, THREE, "me", free=4).left()
    theirs = await Helper(async_store, THREE, "they", free=4).left()
    assert sorted(mine + theirs) == list(range(1, 9))


async def test_without_a_free_slot_nobody_looks_for_more(
    store: Store, async_store: AsyncStore
) -> None:
    lay(store, 5)
    helper = Helper(async_store, TWO, free=0)
    assert await helper.left() == []
    assert helper.looks == 0


async def test_a_node_alone_has_nobody_to_help(store: Store, async_store: AsyncStore) -> None:
    lay(store, 5)
    helper = Helper(async_store, ("me",), free=4)
    assert await helper.left() == []
    assert helper.looks == 0


async def test_what_was_found_is_kept_for_the_next_rounds_without_asking_again(
    store: Store, async_store: AsyncStore
) -> None:
    lay(store, 12)
    helper = Helper(async_store, TWO, free=2)
    taken = await helper.left()
    before = helper.looks
    for _ in range(5):
        helper.clock.time += HELP_GOOD_FOR / 10
        taken += await helper.left()
    assert taken == list(range(12, 0, -1))
    assert helper.looks == before


async def test_what_was_found_a_while_ago_is_forgotten(
    store: Store, async_store: AsyncStore
) -> None:
    lay(store, 12)
    helper = Helper(async_store, TWO, free=2)
    assert await helper.left() == [12, 11]
    let_all_be_taken(store)
    helper.clock.time += 0.9 * HELP_GOOD_FOR
    assert await helper.left() == [10, 9], "the claim will tell"
    helper.clock.time += 0.2 * HELP_GOOD_FOR
    assert await helper.left() == []


async def test_who_found_something_looks_again_at_once_and_who_did_not_waits(
    store: Store, async_store: AsyncStore
) -> None:
    lay(store, 4)
    helper = Helper(async_store, TWO, free=4)
    assert len(await helper.left()) == 4
    let_all_be_taken(store)
    before = helper.looks
    assert await helper.left() == []
    assert helper.looks > before
    before = helper.looks
    helper.clock.time += HELP_EVERY - 0.01
    assert await helper.left() == []
    assert helper.looks == before, "nothing was found: later"
    helper.clock.time += 0.02
    await helper.left()
    assert helper.looks > before


async def test_one_of_many_with_the_same_tasks_looks_more_rarely_and_a_specialist_does_not(
    async_store: AsyncStore,
) -> None:
    bench = Offer((ModuleOffer("bench", "1", (NOOP.removeprefix("bench."),)),))
    for alike, every in ((2, HELP_EVERY), (32, 3 * HELP_EVERY)):
        members = ("me", *(f"n{number}" for number in range(31)))
        helper = Helper(async_store, members, free=4)
        roster = helper.member.roster
        for place, node in enumerate(members):
            roster = roster.joined_by(node, bench if place < alike else Offer())
        helper.member.see(roster)
        assert await helper.left() == []
        before = helper.looks
        helper.clock.time += every - 0.01
        assert await helper.left() == []
        assert helper.looks == before
        helper.clock.time += 0.02
        await helper.left()
        assert helper.looks > before


async def test_who_is_asked_for_help_looks_sooner(store: Store, async_store: AsyncStore) -> None:
    helper = Helper(async_store, TWO, free=4)
    assert await helper.left() == []
    lay(store, 4)
    helper.clock.time += HELP_SOON
    assert await helper.left() == []
    wait = helper.turn.help.soon()
    assert wait == Timing().help_after, "not before a job counts as left lying"
    assert len(await helper.left()) == 4
    assert helper.turn.help.soon() == HELP_SOON


async def rounds(helper: Helper, seconds: float) -> None:
    for _ in range(round(seconds / 0.05)):
        await helper.claimer._round()
        helper.clock.time += 0.05


async def gather(store: Store, *members: str) -> None:
    store.database.cluster.update_one(
        {"_id": "roster"}, {"$set": {"epoch": 1, "members": members}}, upsert=True
    )


async def test_a_node_with_more_jobs_than_room_asks_for_help_now_and_then(
    store: Store, async_store: AsyncStore
) -> None:
    await gather(store, *TWO)
    store.run(insert.submit_many(Wish(NOOP), [None] * 50))
    helper = Helper(async_store, TWO)
    await rounds(helper, 3 * ASK_EVERY - 0.1)
    assert helper.rings == 3


@pytest.mark.parametrize(
    ("members", "jobs", "room"),
    [(("me",), 50, 0), (TWO, 0, 0), (TWO, 3, 500)],
    ids=["it is alone", "there are no jobs", "it has room for all"],
)
async def test_a_node_that_needs_no_help_does_not_ask_for_it(
    store: Store, async_store: AsyncStore, members: tuple[str, ...], jobs: int, room: int
) -> None:
    await gather(store, *members)
    store.run(insert.submit_many(Wish(NOOP), [None] * jobs))
    helper = Helper(async_store, members, free=room, room=room)
    await rounds(helper, 3 * ASK_EVERY)
    assert helper.rings == 0


def looks_for_raw_jobs(world: World, seconds: float) -> dict[str, int]:
    """How often each node looks for jobs without a number."""
    looks: dict[str, int] = {life.node.id: 0 for life in world.lives}
    sent = world.network.sent

    def count(message: Message) -> None:
        if message.call.options.get("hint") == "raw":
            looks[message.sender] += 1
        sent(message)

    world.network.sent = count
    for _ in range(round(seconds / 0.05)):
        world.pass_time(0.05)
        world.flow()
    world.network.sent = sent
    return looks


def test_where_one_raw_job_came_from_the_first_member_looks_often_for_more(store: Store) -> None:
    world = World(store.database)
    try:
        lives = [world.start_node(hears=True) for _ in range(2)]
        world.live_on(10.0)
        first, second = sorted(
            (life.node.id for life in lives), key=world.history.roster["members"].index
        )
        assert looks_for_raw_jobs(world, 3.0)[first] <= 5
        raw: dict[str, Any] = {"task": "t.plain"}
        world.insert_raw(raw)
        world.live_on(5.0, ending=True)
        assert world.history.by_seq(1)["state"] == "done"
        soon = looks_for_raw_jobs(world, 3.0)
        assert soon[first] >= 20
        assert soon[second] <= 3
        world.live_on(SOON_FOR)
        assert looks_for_raw_jobs(world, 3.0)[first] <= 5
    finally:
        world.close()
