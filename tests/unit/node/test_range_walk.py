"""When a member walks through the queue for ranges (MV3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.interleaving.loop import ManualClock
from tontine.records.share import Share, crowd
from tontine.store.ranges import Ranges
from tontine_node.claiming.range_walk import RangeWalk
from tontine_node.telling.troubles import Troubles

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def is_time(ranges: Ranges, *, first: bool, lost: bool = False, after: float = 0.0) -> bool:
    """Whether a member walks that did so last some seconds ago."""
    nothing: Any = lambda: None  # noqa: E731
    clock = ManualClock()
    around = cast("Any", SimpleNamespace(ranges=ranges, lost_ranges=lost, counter=7))
    walk = RangeWalk(nothing, clock, nothing, around, lambda: NOW, nothing, Troubles())
    clock.advance(after)
    return walk._is_time(Share(epoch=1, rank=0 if first else 1, size=3))


@pytest.mark.parametrize(
    ("age", "first", "others"), [(59, False, False), (60, True, False), (90, True, True)]
)
def test_the_first_walks_every_minute_and_others_in_its_place(
    age: int, first: bool, others: bool
) -> None:
    ranges = Ranges(frozenset(), NOW - timedelta(seconds=age), is_there=True)
    assert (is_time(ranges, first=True), is_time(ranges, first=False)) == (first, others)


def test_a_list_that_was_never_checked_or_was_lost_is_made_by_anybody() -> None:
    assert is_time(Ranges(is_there=True), first=False)
    assert is_time(Ranges(), first=False, lost=True)


def test_where_nobody_noted_a_range_the_first_walks_as_often_and_others_seldom() -> None:
    """A numbered job may be inserted by who makes no notes: it waits for a minute, not for ten."""
    assert not is_time(Ranges(), first=True, after=59.0)
    assert is_time(Ranges(), first=True, after=60.0)
    assert not is_time(Ranges(), first=False, after=599.0)
    assert is_time(Ranges(), first=False, after=600.0 * crowd(3))


async def test_where_no_numbers_were_given_since_the_last_walk_the_first_walks_seldom() -> None:
    """An idle node asks the store for little."""
    clock, walked = ManualClock(), list[float]()
    around: Any = SimpleNamespace(ranges=Ranges(), lost_ranges=False, counter=7)
    share = Share(epoch=1, rank=0, size=1)
    nothing: Any = lambda: None  # noqa: E731
    walk = RangeWalk(nothing, clock, lambda: share, around, lambda: NOW, nothing, Troubles())

    async def note() -> None:
        walked.append(clock.now() - 1000.0)

    walk.walk = note  # type: ignore[method-assign]
    for looked in range(1, 100):
        clock.advance(10.0)
        if looked in (30, 36):  # in the very moment of a walk: their jobs may come after it
            around.counter += 1
        await walk._look()
    assert walked == [60.0, 300.0, 360.0, 420.0]
