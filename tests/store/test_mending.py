"""The roster heals: whatever somebody made of its document, every live node gets into it (M6), and
epochs only grow."""

from __future__ import annotations

from typing import Any, cast

import pytest
from bson import Decimal128
from hypothesis import given
from hypothesis import strategies as st

from tontine.clock import SystemClock
from tontine.config import Timing
from tontine.records.roster import Roster
from tontine.store import members
from tontine.store.call import AsyncStore, Store
from tontine_node.membership.heartbeat import Heartbeat
from tontine_node.membership.member import Member


class Lease:
    """A heart that beats."""

    disturbed_at = 0.0

    def has_lease(self) -> bool:
        return True


def member(store: AsyncStore, name: str) -> Member:
    one = Member(name, name, store, Timing(), SystemClock(), cast("Heartbeat", Lease()))
    one.is_wanted = True
    return one


async def settle_down(*members: Member) -> None:
    """What the nodes do all the time."""
    for _ in range(4):
        for one in members:
            await one.refresh()
            await one.keep_place()


ODD: list[Any] = [
    None,
    {},
    {"epoch": None, "members": None},
    {"epoch": "7", "members": []},
    {"epoch": float("nan"), "members": ["a"]},
    {"epoch": float("inf"), "members": ["a"]},
    {"epoch": 5.5, "members": ["a"]},
    {"epoch": -3, "members": []},
    {"epoch": 2**63 - 1, "members": []},
    {"epoch": Decimal128("9"), "members": []},
    {"epoch": {}, "members": {}},
    {"epoch": [1], "members": ["a"]},
    {"epoch": [], "members": [["a"]]},
    {"epoch": 0, "members": []},
    {"epoch": 1, "members": ["a"]},
    {"epoch": 100, "members": [1, None, {}, "a", "a"]},
    {"epoch": 100, "members": "abc"},
    {"epoch": 2**41 - 1, "members": []},
    {"epoch": 2**53 - 1, "members": []},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
async def test_nodes_get_back_into_a_roster_that_was_dropped_or_written_over(
    store: Store, async_store: AsyncStore, odd: Any
) -> None:
    a, b = member(async_store, "a"), member(async_store, "b")
    await settle_down(a, b)
    before = a.roster.epoch
    cluster = store.database.cluster
    store.database.command({"collMod": "cluster", "validator": {}})
    cluster.delete_one({"_id": "roster"})
    if odd is not None:
        cluster.insert_one({"_id": "roster", **odd})
    await settle_down(a, b)
    assert a.roster == b.roster == store.run(members.read_roster())
    assert set(a.roster.members) >= {"a", "b"}
    assert a.roster.epoch > before


async def test_a_new_node_and_an_old_one_meet_after_the_roster_was_dropped(
    store: Store, async_store: AsyncStore
) -> None:
    old = member(async_store, "old")
    await settle_down(old)
    store.database.cluster.delete_one({"_id": "roster"})
    new = member(async_store, "new")
    await settle_down(new)
    assert store.run(members.read_roster()).members == ("new",)
    await settle_down(old, new)
    assert sorted(store.run(members.read_roster()).members) == ["new", "old"]


async def test_a_read_that_is_only_old_changes_nothing(
    store: Store, async_store: AsyncStore
) -> None:
    a = member(async_store, "a")
    await settle_down(a)
    known = a.roster
    a.see(Roster(0, ()))
    assert a.is_doubtful
    await a.refresh()
    assert (a.roster, a.is_doubtful) == (known, False)
    assert store.run(members.read_roster()) == known


@given(
    known=st.builds(
        Roster, st.integers(0, 99), st.lists(st.sampled_from("abc"), unique=True).map(tuple)
    ),
    said=st.builds(
        Roster, st.integers(-1, 99), st.lists(st.sampled_from("abc"), unique=True).map(tuple)
    ),
)
def test_what_follows_is_newer_than_both(known: Roster, said: Roster) -> None:
    new = known.in_place_of(said)
    assert new.epoch > max(known.epoch, said.epoch)
    assert new.members == said.members


@given(
    st.dictionaries(
        st.sampled_from(["epoch", "members"]),
        st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists),
    )
)
def test_any_document_can_be_read_as_a_roster(document: dict[str, Any]) -> None:
    roster = Roster.from_document(document)
    assert roster.epoch >= -1
    assert len(set(roster.members)) == len(roster.members)
