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
