"""Which times a schedule fires, and when it is due next."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tontine.errors import ConfigError
from tontine.records.schedule import FIRED_AT_ONCE, LATE_AFTER, Declared, Missed, Schedule, rank_of

quick = settings(max_examples=60, deadline=None)
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
def test_times_of_the_last_minute_fire_each_whatever_is_said_about_missed_ones(
    missed: Missed,
) -> None:
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


@quick
@given(
    st.integers(1, 5000),
    st.lists(st.floats(0, 400), min_size=1, max_size=20),
    st.sampled_from(["once", "all"]),
)
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
        (Schedule("x" * 1001, "t.t", every=5), "name"),
        (Schedule("x", "", every=5), "task"),
        (Schedule("x", "t.t", every=float("nan")), "too short"),
        (Schedule("x", "t.t", every=float("inf")), "century"),
        (Schedule("x", "t.t", cron="* * * * *", timezone="Europe"), "time zone"),
        (Schedule("x", "t.t", cron="* * * * *", timezone="x" * 999), "time zone"),
        (Schedule("x", "t.t", cron="* * * * *", timezone=""), "timezone"),
        (Schedule("x", "t.t", cron="," * 10_000), "cron"),
        (Schedule("x", "t.t", cron="0 0 */31 2 1#5"), "never comes"),
    ],
)
def test_what_can_never_fire_is_refused(schedule: Schedule, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        schedule.check()


def test_a_schedule_survives_its_document() -> None:
    assert Schedule.from_document(CRON.to_document()) == CRON
    assert Schedule.from_document(EVERY.to_document()) == EVERY


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"_id": 7}, "name"),
        ({"_id": {"a": 1}}, "name"),
        ({"_id": "caf\ufffd"}, "UTF-8"),
        ({"task": 5}, "task"),
        ({"task": None}, "task"),
        ({"args": [1]}, "args"),
        ({"args": "{}"}, "args"),
        ({"every": "10m"}, "number of seconds"),
        ({"every": True}, "number of seconds"),
        ({"every": 0}, "too short"),
        ({"every": -5}, "too short"),
        ({"every": None}, "either"),
        ({"every": None, "cron": 5}, "cron"),
        ({"cron": ["* * * * *"]}, "either"),
        ({"timezone": 1}, "time"),
        ({"missed": {"a": 1}}, "none of skip"),
        ({"missed": "often"}, "none of skip"),
    ],
)
def test_a_document_that_cannot_be_a_schedule_says_why(wrong: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        Schedule.from_document(EVERY.to_document() | wrong)


def test_what_a_document_leaves_out_has_a_default_and_what_it_has_beside_is_ignored() -> None:
    plain = Schedule.from_document(
        {"_id": "tick", "task": "t.t", "every": 10, "args": None, "note": "mine"}
    )
    assert plain == Schedule("tick", "t.t", every=10)
    for odd in (5, "soon", None, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
        assert Schedule.from_document(EVERY.to_document() | {"next_at": odd}).next_at is None


def test_zones_are_known_where_the_host_has_none() -> None:
    code = "from zoneinfo import ZoneInfo; ZoneInfo('Europe/Paris')"
    subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONTZPATH": ""}, check=True, timeout=60
    )


def mended(schedule: Schedule, seconds: float) -> float | None:
    """What `next_at` should be `seconds` after noon; in seconds after noon."""
    right = schedule.mended(NOON + timedelta(seconds=seconds))
    return None if right is None else (right - NOON).total_seconds()


@pytest.mark.parametrize("schedule", [EVERY, CRON])
def test_an_hour_that_a_clock_was_ahead_is_not_silent(schedule: Schedule) -> None:
    _, following = schedule.fire(NOON + timedelta(hours=1))
    ahead = replace(schedule, next_at=following)
    assert mended(ahead, 15) in (-40, 0), "the last minute may have been passed over"
    assert mended(ahead, 3600) is None, "and when its time has come, all is well"


def test_a_missing_time_is_the_next_one() -> None:
    assert mended(replace(EVERY, next_at=None), 3) == 13
    assert mended(replace(CRON, next_at=None), 3) == 300


def test_an_interval_keeps_its_step_when_it_is_mended() -> None:
    assert mended(replace(EVERY, next_at=NOON + timedelta(days=1, seconds=3)), 100) == 43
    assert mended(replace(EVERY, every=7 * 86400, next_at=NOON + timedelta(days=8)), 0) == 86400


def test_a_time_of_the_future_within_one_step_stays() -> None:
    assert mended(replace(EVERY, every=86400, next_at=NOON + timedelta(days=1)), 0) is None
    assert (
        mended(replace(CRON, cron="0 0 1 1 *", next_at=datetime(2027, 1, 1, tzinfo=UTC)), 0) is None
    )


ZONES = ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]
CRONS = [
    "30 2 * * *",
    "0,30 2 * * *",
    "*/5 * * * *",
    "15 * * * *",
    "0 0 * * 0",
    "30 1,2,3 * * *",
    "10 0 2 * * *",
]
# The weeks in which Paris, New York and Lord Howe change their clocks.
CHANGES = [
    datetime(2026, month, day, tzinfo=UTC)
    for month, day in ((3, 29), (10, 25), (3, 8), (11, 1), (4, 5), (10, 4))
]


@quick
@given(
    st.sampled_from(CRONS),
    st.sampled_from(ZONES),
    st.sampled_from(CHANGES),
    st.integers(-90000, 90000),
    st.floats(0, 1),
)
@example("30 2 * * *", "Europe/Paris", CHANGES[1], 3600 + 15 * 60, 0.5)
def test_a_next_time_that_was_right_stays_right_until_it_comes(
    cron: str, zone: str, day: datetime, offset: int, part: float
) -> None:
    schedule = Schedule("s", "t.t", cron=cron, timezone=zone)
    moment = day + timedelta(seconds=offset)
    times = list(islice(schedule.times_after(moment), 5))
    assert times[0] > moment
    assert all(earlier < later for earlier, later in pairwise(times))
    for earlier, later in pairwise(times):
        between = earlier + part * (later - earlier)
        if between < later:
            assert schedule.next_after(between) == later
            assert replace(schedule, next_at=later).mended(between) is None


@quick
@given(
    st.one_of(st.sampled_from(CRONS), st.integers(1, 90000)),
    st.sampled_from(ZONES),
    st.sampled_from(CHANGES),
    st.lists(st.tuples(st.integers(1, 3 * 3600), st.integers(0, 2 * 3600)), min_size=1, max_size=8),
    st.sampled_from(["skip", "once", "all"]),
)
def test_whatever_the_clock_does_no_time_ahead_is_lost(
    when: str | int, zone: str, day: datetime, moves: list[tuple[int, int]], missed: Missed
) -> None:
    """It jumps ahead and back again; after each, what is due next is due soon enough."""
    how: dict[str, Any] = (
        {"every": when} if isinstance(when, int) else {"cron": when, "timezone": zone}
    )
    schedule = Schedule("s", "t.t", missed=missed, **how)
    schedule = replace(schedule, next_at=schedule.next_after(day))
    now = day
    for passed, jump in moves:
        now += timedelta(seconds=passed)
        for seen in (now + timedelta(seconds=jump), now):
            _, following = schedule.fire(seen)
            schedule = replace(schedule, next_at=following)
            schedule = replace(schedule, next_at=schedule.mended(seen) or schedule.next_at)
        assert schedule.next_at is not None
        later = now + LATE_AFTER
        soonest = (
            schedule.next_after(later)
            if schedule.cron
            else later + timedelta(seconds=schedule.every or 0)
        )
        assert schedule.next_at <= soonest


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.0", "1.1"),
        ("1.9", "1.10"),
        ("1.2rc1", "1.2"),
        ("1.2a1", "1.2rc1"),
        ("0", "1"),
        ("1", "1.0.1"),
        ("v1", "v2"),
    ],
)
def test_versions_are_ordered_by_their_numbers(older: str, newer: str) -> None:
    assert rank_of(older) < rank_of(newer)


def test_versions_that_say_the_same_are_equal() -> None:
    assert rank_of("1") == rank_of("1.0") == rank_of("1.0.0+build7")
    assert rank_of("") < rank_of("1")


def test_of_two_declarations_the_newer_version_is_newer_and_then_the_later_start() -> None:
    first = Declared("shop", "1.0", "a", NOON)
    assert replace(first, version="1.1", at=NOON - timedelta(days=1)).supersedes(first)
    assert replace(first, at=NOON + timedelta(seconds=1)).supersedes(first)
    assert not first.supersedes(first)
    assert not first.supersedes(replace(first, version="1.1"))


def test_only_one_that_must_not_overlap_gives_its_jobs_a_key() -> None:
    assert EVERY.key is None
    assert replace(EVERY, overlap="skip").key == "schedule:tick"


def test_one_that_is_off_has_no_next_time_to_put_right() -> None:
    assert replace(EVERY, next_at=None, off=True).mended(NOON) is None
    assert replace(EVERY, next_at=None).mended(NOON) is not None


def test_what_most_schedules_do_not_have_is_not_in_their_documents() -> None:
    assert set(EVERY.to_document()) == {
        "_id",
        "task",
        "args",
        "every",
        "timezone",
        "missed",
        "next_at",
    }
    special = replace(
        EVERY,
        overlap="skip",
        max_age=60,
        off=True,
        declared=Declared("m", "1", "d", NOON),
        skipped=3,
    )
    assert Schedule.from_document(special.to_document()) == special


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"overlap": "both"}, "neither queue nor skip"),
        ({"max_age": 0}, "max_age"),
        ({"off": "yes"}, "true or false"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Schedule.from_document({**EVERY.to_document(), **wrong})


@pytest.mark.parametrize(
    "odd", [5, "x", [], {}, {"module": 5, "version": "1", "digest": "d"}, {"module": "m"}]
)
def test_odd_facts_about_its_origin_do_not_keep_it_from_firing(odd: Any) -> None:
    schedule = Schedule.from_document(
        {**EVERY.to_document(), "declared": odd, "skipped": odd, "last_job": odd}
    )
    assert (schedule.declared, schedule.skipped) == (None, 5 if odd == 5 else 0)
