"""When a lane asks for tasks, and when for numbers again (MS4)."""

from __future__ import annotations

import pytest

from tontine.records.share import Share
from tontine_node.claiming.lane import Lane
from tontine_node.claiming.sweep import Sweep


def lane(size: int) -> Lane:
    share = Share(epoch=1, rank=0, size=size)
    return Lane(frozenset({"t.t"}), Sweep(share, 1, 1000))


@pytest.mark.parametrize(
    ("asked", "found", "is_thin"), [(5, 0, False), (6, 2, False), (6, 1, True), (60, 19, True)]
)
def test_fewer_than_one_in_m_of_the_last_two_m_numbers_is_thin(
    asked: int, found: int, is_thin: bool
) -> None:
    assert lane(3).became_thin(asked, found) is is_thin


@pytest.mark.parametrize(
    ("found", "is_dense"), [([], False), ([7], False), ([1, 6], True), ([1, 7], False)]
)
def test_what_lies_closer_than_two_m_apart_is_dense(found: list[int], is_dense: bool) -> None:
    assert lane(3).is_dense(found) is is_dense


def sparse_lane() -> Lane:
    """One that has looked through everything."""
    sparse = lane(3)
    sparse.spread()
    sparse.look(1000, 900)
    sparse.looked([], [], None, 1000, now=0.0)
    return sparse


def test_a_job_that_another_took_is_awaited_until_the_last_look_after_its_ring() -> None:
    """Else no job that is announced later could be claimed at once (MS4a)."""
    sparse = sparse_lane()
    sparse.hint(1002, 1002, is_fresh=True)
    for now in (0.001, 0.011):
        sparse.looked([], [], None, 1002, now)
        assert sparse.is_missing(1002), "it is announced before it is there"
    sparse.hint(1002, 1002, is_fresh=True)
    sparse.looked([], [], None, 1002, now=0.101)
    assert not sparse.is_missing(1002)
    sparse.hint(1005, 1005, is_fresh=True)
    assert sparse.may_take(1005)


def test_a_look_that_ended_before_it_tells_nothing_of_an_announced_job() -> None:
    sparse = sparse_lane()
    sparse.hint(1002, 1002, is_fresh=True)
    sparse.looked([999], [999], 999, 1002, now=0.001)
    sparse.looked([], [], None, 1002, now=0.101)
    assert sparse.is_missing(1002)
