"""Which times a schedule fires, and when it is due next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine.errors import ConfigError
from tontine.schedule import FIRED_AT_ONCE, LATE_AFTER, Missed, Schedule

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EVERY = Schedule("tick", "t.t", every=10, next_at=NOON)
CRON = Schedule("report", "t.t", cron="*/5 * * * *", next_at=NOON)


def at(schedule: Schedule, seconds: float, missed: Missed = "once") -> tuple[list[float], float]:
    """What fires `seconds` after noon, and when it is due next; all in seconds after noon."""
    due, following = replace(schedule, missed=missed).fire(NOON + timedelta(seconds=seconds))
    return [(time - NOON).total_seconds() for time in due], (following - NOON).total_seconds()


def test_nothing_fires_before_its_time() -> None:
    assert at(EVERY, -0.001) == ([], 0)


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_times_of_the_last_minute_fire_each_whatever_is_said_about_missed_ones(missed: Missed) -> None:
    assert at(EVERY, 0, missed) == ([0], 10)
    assert at(EVERY, 25, missed) == ([0, 10, 20], 30)
    assert at(CRON, 2, missed) == ([0], 300)


def test_missed_times_are_skipped_fired_once_or_fired_each() -> None:
    assert at(EVERY, 95, "skip") == ([40, 50, 60, 70, 80, 90], 100)
    assert at(EVERY, 95, "once") == ([30, 40, 50, 60, 70, 80, 90], 100)
    assert at(EVERY, 95, "all") == ([0, 10, 20, 30, 40, 50, 60, 70, 80, 90], 100)
    assert at(CRON, 1000, "skip") == ([], 1200)
    assert at(CRON, 1000, "once") == ([900], 1200)
    assert at(CRON, 1000, "all") == ([0, 300, 600, 900], 1200)


def test_a_year_of_missed_seconds_costs_one_step() -> None:
    second = replace(EVERY, every=1)
    due, following = second.fire(NOON + timedelta(days=365))
    assert len(due) <= LATE_AFTER.total_seconds() + 2
    assert following > NOON + timedelta(days=365)
    due, _ = replace(second, missed="all").fire(NOON + timedelta(days=365))
    assert len(due) == FIRED_AT_ONCE


@given(st.integers(1, 5000), st.lists(st.floats(0, 400), min_size=1, max_size=20), st.sampled_from(["once", "all"]))
def test_every_time_fires_once_and_in_order_when_somebody_looks_often_enough(
    every: int, pauses: list[float], missed: Missed
) -> None:
    schedule = Schedule("s", "t.t", every=every, next_at=NOON, missed=missed)
    fired: list[datetime] = []
    now = NOON
    for pause in pauses:
        now += timedelta(seconds=min(pause, 50))
        due, following = schedule.fire(now)
        fired += due
        schedule = replace(schedule, next_at=following)
    expected = [NOON + n * timedelta(seconds=every) for n in range(len(fired))]
    assert fired == expected
    assert schedule.next_at == NOON + len(fired) * timedelta(seconds=every)
    assert schedule.next_at is not None
    assert schedule.next_at > now


def test_cron_follows_its_time_zone_over_a_change_of_clocks() -> None:
    paris = Schedule("p", "t.t", cron="30 6 * * *", timezone="Europe/Paris")
    times = paris.times_after(datetime(2026, 3, 27, 12, tzinfo=UTC))
    assert [next(times).hour for _ in range(3)] == [5, 4, 4]


@pytest.mark.parametrize(
    ("schedule", "word"),
    [
        (Schedule("x", "t.t"), "either"),
        (Schedule("x", "t.t", cron="* * * * *", every=5), "either"),
        (Schedule("x", "t.t", every=0.5), "too short"),
        (Schedule("x", "t.t", cron="nonsense"), "cron expression"),
        (Schedule("x", "t.t", cron="* * * * *", timezone="Mars/Olympus"), "time zone"),
        (Schedule("x", "t.t", every=5, timezone="Europe/Paris"), "time zone"),
        (Schedule("x", "t.t", every=1e12), "century"),
        (Schedule("", "t.t", every=5), "name"),
    ],
)
def test_what_can_never_fire_is_refused(schedule: Schedule, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        schedule.check()


def test_a_schedule_survives_its_document() -> None:
    assert Schedule.from_document(CRON.to_document()) == CRON
    assert Schedule.from_document(EVERY.to_document()) == EVERY
