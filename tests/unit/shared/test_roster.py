"""The roster under any order of joining, leaving and dying."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tontine.records.roster import Roster

quick = settings(max_examples=40, deadline=None)

NAMES = st.sampled_from("abcdefgh")
CHANGES = st.lists(st.sampled_from([*"abcdefgh", *"ABCDEFGH"]), max_size=30)
"""A small letter joins, the same as a capital leaves."""


def history(changes: list[str]) -> list[Roster]:
    """Every roster from the empty one on, the unchanged ones included."""
    rosters = [Roster()]
    for node in changes:
        now = rosters[-1]
        rosters.append(now.joined_by(node) if node.islower() else now.without([node.lower()]))
    return rosters


@quick
@given(CHANGES, st.integers(0, 2**62))
def test_in_every_epoch_each_seq_has_exactly_one_owner(changes: list[str], seq: int) -> None:
    for roster in history(changes):
        owners = [node for node, share in roster.shares().items() if share.owns(seq)]
        assert owners == ([roster.owner_of(seq, "t.any")] if roster.members else [])


@quick
@given(CHANGES)
def test_an_epoch_never_falls_and_has_one_roster_only(changes: list[str]) -> None:
    rosters = history(changes)
    for before, after in pairwise(rosters):
        assert after.epoch == before.epoch + (after.members != before.members)
    assert len({roster.epoch for roster in rosters}) == len(set(rosters))


@quick
@given(CHANGES)
def test_no_member_is_there_twice(changes: list[str]) -> None:
    for roster in history(changes):
        assert len(set(roster.members)) == len(roster.members)


@quick
@given(CHANGES, NAMES)
def test_joining_twice_is_joining_once(changes: list[str], node: str) -> None:
    once = history(changes)[-1].joined_by(node)
    assert node in once
    assert once.joined_by(node) is once


@quick
@given(CHANGES, st.sets(NAMES))
def test_leaving_twice_is_leaving_once(changes: list[str], nodes: set[str]) -> None:
    once = history(changes)[-1].without(nodes)
    assert not nodes.intersection(once.members)
    assert once.without(nodes) is once


@quick
@given(CHANGES, NAMES)
def test_who_stays_keeps_the_order_of_ranks(changes: list[str], node: str) -> None:
    before = history(changes)[-1]
    after = before.without([node])
    assert list(after.members) == [member for member in before.members if member != node]
    assert before.without(["stranger"]) is before


@quick
@given(CHANGES)
def test_a_share_tells_epoch_rank_and_size(changes: list[str]) -> None:
    roster = history(changes)[-1]
    for rank, node in enumerate(roster.members):
        share = roster.share_of(node)
        assert share is not None
        assert (share.epoch, share.rank, share.size) == (roster.epoch, rank, len(roster.members))
        assert roster.shares()[node] == share
    assert roster.share_of("stranger") is None


@quick
@given(CHANGES)
def test_a_roster_survives_its_document(changes: list[str]) -> None:
    roster = history(changes)[-1]
    assert (
        Roster.from_document(
            {"_id": "roster", "epoch": roster.epoch, "members": list(roster.members)}
        )
        == roster
    )
    assert Roster.from_document(None) == Roster()
