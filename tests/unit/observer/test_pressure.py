"""How much can be followed: by the rate of the server's clock, whatever the observer's own
speed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine_observer.feed.pressure import Pressure, Thresholds

LIMITS = Thresholds(rate=1000, burst=2000, late=5, calm=500, calm_for=10)


def follow(rate: float, seconds: float, batch: int = 100) -> float | None:
    """When it is too much, in seconds; None when it never is."""
    pressure, at = Pressure(LIMITS), 0.0
    while at < seconds:
        at += batch / rate
        if pressure.note(batch, at, 0.1):
            return at
    return None


@given(st.floats(10, 1000), st.integers(1, 500))
def test_a_rate_that_can_be_followed_is_followed_for_ever(rate: float, batch: int) -> None:
    assert follow(rate, 300 * batch / rate, batch) is None


@pytest.mark.parametrize(("rate", "within"), [(25_000, 0.1), (5_000, 0.6), (1_500, 4.5)])
def test_the_more_it_is_the_sooner_it_is_let_go(rate: float, within: float) -> None:
    at = follow(rate, 60)
    assert at is not None
    assert at < within


def test_a_burst_is_taken_in() -> None:
    pressure = Pressure(LIMITS)
    for second in range(10):
        assert not pressure.note(1900, 2.0 * second, 0.1)


def test_how_fast_changes_are_read_does_not_matter_only_how_fast_they_were_made() -> None:
    pressure = Pressure(LIMITS)
    # An observer that was away for a minute reads a minute's changes at once.
    assert not any(
        pressure.note(500, second, 60.0 - second if second < 56 else 1.0) for second in (0, 59, 60)
    )


def test_changes_that_stay_late_are_too_much_at_any_rate() -> None:
    pressure = Pressure(LIMITS)
    assert not pressure.note(1, 100.0, 6.0)
    assert not pressure.note(1, 100.5, 6.0)
    assert pressure.note(1, 101.5, 6.0)


def test_it_is_calm_only_after_a_while_and_well_below_what_could_be_followed() -> None:
    pressure = Pressure(LIMITS)
    pressure.let_go()
    totals = [(0, 0), (4, 40_000), (8, 80_000), (12, 80_000), (16, 80_000)]
    assert not any(pressure.is_calm(float(at), total) for at, total in totals)
    assert pressure.is_calm(20.0, 80_100)
    assert pressure.rate == pytest.approx(100 / 12)


def test_letting_go_begins_anew() -> None:
    pressure = Pressure(LIMITS)
    assert pressure.note(5000, 1.0, 0.1)
    pressure.let_go()
    assert not pressure.note(100, 1.1, 0.1)
    assert not pressure.is_calm(2.0, 0)
