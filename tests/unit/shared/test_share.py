"""A share: exactly the seqs that one member should claim."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tontine.records.share import Share, crowd

quick = settings(max_examples=50, deadline=None)

FAR = 2**62


@st.composite
def shares(draw: st.DrawFn) -> Share:
    size = draw(st.integers(1, 50))
    return Share(draw(st.integers(0, 1000)), draw(st.integers(0, size - 1)), size)


@quick
@given(st.integers(0, 2000))
def test_each_of_many_does_less_of_what_any_can_do_and_all_together_more(members: int) -> None:
    assert 1.0 <= crowd(members) <= crowd(members + 1) <= 3.0
    assert members / crowd(members) <= (members + 1) / crowd(members + 1)


@quick
@given(st.integers(1, 50), st.integers(0, FAR))
def test_within_a_size_each_seq_has_exactly_one_owner(size: int, seq: int) -> None:
    assert [share.owns(seq) for share in (Share(1, rank, size) for rank in range(size))].count(
        True
    ) == 1


@quick
@given(shares(), st.integers(0, FAR))
def test_the_first_from_a_seq_is_the_lowest_owned_one_that_is_not_below_it(
    share: Share, seq: int
) -> None:
    first = share.first_from(seq)
    assert seq <= first < seq + share.size
    assert share.owns(first)
    assert not any(share.owns(between) for between in range(seq, first))


@quick
@given(shares(), st.integers(0, 500), st.integers(-5, 500), st.integers(0, 100))
def test_the_seqs_are_the_owned_ones_of_the_range_in_their_order(
    share: Share, start: int, length: int, count: int
) -> None:
    end = start + length
    owned = [seq for seq in range(start, end + 1) if share.owns(seq)]
    assert list(share.seqs(start, end, count)) == owned[:count]


@quick
@given(shares(), st.integers(0, FAR))
def test_a_million_seqs_cost_no_more_than_one(share: Share, start: int) -> None:
    seqs = share.seqs(start, start + FAR, 1_000_000)
    assert len(seqs) == 1_000_000
    assert share.owns(seqs[0])
    assert share.owns(seqs[-1])


@quick
@given(st.integers(1, 20), st.integers(0, 1000), st.integers(0, 200))
def test_the_shares_of_one_size_divide_a_range_without_rest(
    size: int, start: int, length: int
) -> None:
    parts = [Share(1, rank, size).seqs(start, start + length, length + 1) for rank in range(size)]
    assert sorted(seq for part in parts for seq in part) == list(range(start, start + length + 1))


@quick
@given(shares(), st.integers(0, FAR))
def test_the_query_says_what_owns_says(share: Share, seq: int) -> None:
    divisor, remainder = share.query()["$mod"]
    assert (seq % divisor == remainder) == share.owns(seq)


@quick
@given(shares())
def test_a_share_survives_its_document(share: Share) -> None:
    assert Share.from_document(share.to_document()) == share
