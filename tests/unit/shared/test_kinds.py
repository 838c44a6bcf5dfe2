"""Kinds: who offers what, and who therefore divides which jobs (MS1, MS2, MI1)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tontine.records.offer import ModuleOffer, Offer
from tontine.records.roster import Roster

quick = settings(max_examples=80, deadline=None)

SHOP = Offer((ModuleOffer("shop", "1.2.0", ("mail", "resize")),))
NEWER = Offer((ModuleOffer("shop", "1.3.0", ("mail", "resize")),))
BOTH = Offer.of([ModuleOffer("shop", "1.2.0", ("mail", "resize")), ModuleOffer("etl", "1", ("x",))])
OFFERS = (None, Offer(), SHOP, NEWER, BOTH)
KEYS = ("shop.resize", "shop.mail", "etl.x", "shop.resize@>=1.3", "shop.mail@<1.3", "no.such")

ODD = st.recursive(
    st.none() | st.integers() | st.sampled_from(["a", "b", "shop", "1.2"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["modules", "of", "name", "version", "tasks"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
CHANGES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([*OFFERS, "left"])), max_size=30
)


def after(changes: list[tuple[str, Any]]) -> Roster:
    roster = Roster()
    for node, offer in changes:
        roster = roster.without([node]) if offer == "left" else roster.joined_by(node, offer)
    return roster


def expected(changes: list[tuple[str, Any]]) -> dict[str, Offer | None]:
    """What each member says of itself: old software says nothing, and does not change what is
    said."""
    said: dict[str, Offer | None] = {}
    for node, offer in changes:
        if offer == "left":
            said.pop(node, None)
        else:
            said[node] = offer
    return said


@quick
@given(CHANGES, st.integers(0, 2**62), st.sampled_from(KEYS))
def test_every_job_with_a_member_has_exactly_one_owner(
    changes: list[tuple[str, Any]], seq: int, key: str
) -> None:
    roster = after(changes)
    able = [node for node, offer in expected(changes).items() if offer and offer.has(key)]
    if roster.kinds:
        assert sorted(roster.members_of(key)) == sorted(able)
    owner = roster.owner_of(seq, key)
    assert (owner is None) == (not roster.members_of(key))
    # All who read that roster name the same.
    assert Roster.from_document(roster.to_document()).owner_of(seq, key) == owner


@quick
@given(CHANGES)
def test_the_members_of_a_key_stand_in_the_order_of_the_roster(
    changes: list[tuple[str, Any]],
) -> None:
    roster = after(changes)
    for key in KEYS:
        able = roster.members_of(key)
        assert able == tuple(member for member in roster.members if member in able)


@quick
@given(CHANGES)
def test_each_member_is_in_one_kind_and_nobody_else_is(changes: list[tuple[str, Any]]) -> None:
    roster = after(changes)
    placed = [node for kind in roster.kinds for node in kind.of]
    assert len(placed) == len(set(placed))
    assert {node: roster.offer_of(node) for node in roster.members} == expected(changes)
    assert len({kind.offer for kind in roster.kinds}) == len(roster.kinds)


def test_where_everybody_is_of_one_kind_all_divide_all() -> None:
    roster = after([(node, SHOP) for node in "abc"])
    assert roster.members_of("shop.mail") == ("a", "b", "c")
    assert [roster.owner_of(seq, "shop.mail") for seq in range(4)] == ["a", "b", "c", "a"]


def test_where_all_are_old_software_all_divide_all() -> None:
    assert Roster(1, ("a", "b")).members_of("shop.mail") == ("a", "b")


def test_old_software_among_new_has_no_part_in_any_task() -> None:
    roster = after([("a", SHOP), ("old", None), ("b", BOTH)])
    assert roster.members_of("shop.mail") == ("a", "b")
    assert roster.members_of("etl.x") == ("b",)


def test_a_node_changes_its_place_and_its_epoch_once() -> None:
    before = after([("a", SHOP), ("b", SHOP)])
    changed = before.joined_by("a", BOTH)
    assert (changed.epoch, changed.members) == (before.epoch + 1, before.members)
    assert changed.joined_by("a", BOTH) is changed
    assert changed.members_of("etl.x") == ("a",)


def test_what_others_have_written_is_copied_unread() -> None:
    theirs = {"modules": [{"name": "shop", "from": "the future"}], "of": ["a"], "more": 1}
    document = {"epoch": 3, "members": ["a"], "kinds": [theirs]}
    roster = Roster.from_document(document).joined_by("b", SHOP)
    assert roster.to_document()["kinds"][0] == theirs
    assert [kind.of for kind in roster.kinds] == [("a",), ("b",)]


def test_a_place_where_more_is_said_is_no_place_for_others() -> None:
    theirs = {"modules": SHOP.to_documents(), "of": ["a"], "more": 1}
    roster = Roster.from_document({"epoch": 3, "members": ["a"], "kinds": [theirs]})
    assert [kind.of for kind in roster.joined_by("b", SHOP).kinds] == [("a",), ("b",)]


def test_places_of_those_who_have_gone_are_forgotten_with_the_next_change() -> None:
    gone = {"modules": SHOP.to_documents(), "of": ["gone", "a"]}
    document = {"epoch": 3, "members": ["a"], "kinds": [gone, {"modules": [], "of": ["x"]}]}
    roster = Roster.from_document(document).joined_by("b", SHOP)
    assert roster.to_document()["kinds"] == [{"modules": SHOP.to_documents(), "of": ["a", "b"]}]


@quick
@given(ODD, CHANGES)
def test_whatever_stands_there_is_read_and_put_right(
    odd: Any, changes: list[tuple[str, Any]]
) -> None:
    document = {**after(changes).to_document(), "kinds": odd}
    roster = Roster.from_document(document).joined_by("a", BOTH)
    assert roster.offer_of("a") == BOTH
    assert Roster.from_document(roster.to_document()) == roster
