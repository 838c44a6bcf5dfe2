"""When the healer looks, what it takes for hopeless, and what makes it suspicious."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pymongo import AsyncMongoClient

from tontine.clock import SystemClock
from tontine.config import Timing
from tontine.errors import StoreError, StoreUnavailable
from tontine.records.roster import Roster
from tontine.store import fresh, schema
from tontine.store.call import AsyncStore, Call, Store
from tontine_node.healer import Healer
from tontine_node.membership.member import Member
from tontine_node.telling.troubles import Troubles


class Counting(AsyncStore):
    """Counts the calls, and lets a test do something right after one of them."""

    calls = 0
    after: tuple[str, object] | None = None

    async def _once(self, call: Call) -> object:
        answer = await super()._once(call)
        self.calls += 1
        if self.after is not None and str(call.args[0]).find(self.after[0]) >= 0:
            (_, act), self.after = self.after, None
            await act()  # type: ignore[operator]
        return answer


@pytest.fixture
async def counting(mongo_uri: str, store: Store) -> AsyncIterator[Counting]:
    async with AsyncMongoClient[dict[str, object]](mongo_uri, tz_aware=True) as client:
        yield Counting(client[store.database.name])


@pytest.fixture
def healer(counting: Counting) -> Healer:
    member = Member("n", "n", counting, Timing(), SystemClock(), None)  # type: ignore[arg-type]
    member.roster = Roster(1, ("n",))
    return Healer(counting, SystemClock(), member, Troubles())


async def test_a_glance_costs_a_call_or_two_and_what_it_finds_is_mended(
    healer: Healer, counting: Counting, store: Store
) -> None:
    await healer._look()
    costs = []
    for _ in range(4):
        before = counting.calls
        await healer._look()
        costs.append(counting.calls - before)
    assert costs == [1, 2, 1, 2], (
        "the collections; the indexes of jobs, and which of these are wanted"
    )
    store.database.jobs.drop_index("due_by_task")
    store.database.drop_collection("bell")
    await healer._look()
    await healer._look()
    assert store.run(schema.faults()) == []


async def test_what_is_dropped_while_it_mends_is_not_taken_for_hopeless(
    healer: Healer, counting: Counting, store: Store
) -> None:
    async def drop() -> None:
        await counting.database.drop_collection("schedules")

    counting.after = ("'listIndexes', 'schedules'", drop)  # it has just been found whole
    await healer._look()
    assert counting.after is None
    await healer._look()
    assert store.run(schema.faults()) == []


async def test_what_cannot_be_mended_is_left_for_a_while_but_not_what_comes_after(
    healer: Healer, counting: Counting, store: Store
) -> None:
    store.database.jobs.drop_index("fresh")
    # No index can hold two lists of one document.
    store.database.jobs.insert_one(
        {"state": "queued", "task": ["t"], "seq": [7]}, bypass_document_validation=True
    )
    for _ in range(3):
        await healer._look()
    before = counting.calls
    await healer._look()
    assert counting.calls == before + 2, "it does not try again at every glance"
    store.database.jobs.drop_index("due_by_task")
    await healer._look()
    await healer._look()
    assert store.run(schema.faults()) == ["jobs.fresh is missing"]


async def test_a_missing_index_smells_also_when_its_query_is_long_and_an_outage_does_not(
    healer: Healer, counting: Counting, store: Store
) -> None:
    counting.refused = healer.suspect
    store.database.jobs.drop_index("seq")
    with pytest.raises(StoreError):
        await counting.run(fresh.find_fresh(range(500), ["t.t"]))
    assert healer.wake.is_set()
    healer.wake.clear()
    for innocent in (
        StoreUnavailable("no answer in time"),
        StoreError("MongoDB answered: too many files (code 264)"),
    ):
        healer.suspect(innocent)
    assert not healer.wake.is_set()
