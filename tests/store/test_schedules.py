"""Schedules on a real store: each due time once, each document alone, and a wrong next time put right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson import Binary, Int64
from bson.raw_bson import RawBSONDocument

from tontine.errors import ConfigError
from tontine.schedule import Broken, Schedule
from tontine.store import look, schedules
from tontine.store.call import Store

TICK = {"task": "t.t", "every": 3600}


def ago(store: Store, seconds: float) -> datetime:
    """A server time, as precise as it is stored."""
    moment = store.run(look.now()) - timedelta(seconds=seconds)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def put(store: Store, name: Any, **fields: Any) -> None:
    """As from before there was a validator, or by somebody who may go past it."""
    document = {"_id": name, **TICK, **fields}
    store.database.schedules.replace_one({"_id": name}, document, upsert=True, bypass_document_validation=True)


def next_at(store: Store, name: str) -> Any:
    found = store.database.schedules.find_one({"_id": name})
    assert found is not None
    return found.get("next_at")


def fire_all(store: Store) -> int:
    return sum(store.run(schedules.fire(due)) or 0 for due in store.run(schedules.find_due(0)))


def mend_all(store: Store) -> list[str]:
    _, wrong = store.run(schedules.find_wrong(0))
    return [one.name for one in wrong if store.run(schedules.mend(one))]


def jobs(store: Store) -> list[dict[str, Any]]:
    return list(store.database.jobs.find().sort("seq"))


def test_a_job_that_has_taken_the_name_of_a_due_time_does_not_suppress_it(store: Store) -> None:
    due = ago(store, 5)
    put(store, "tick", next_at=due)
    (seen,) = store.run(schedules.find_due(0))
    store.database.jobs.insert_one({"_id": Schedule("tick", "t.t").job_id(due), "task": "t.foreign"})
    assert store.run(schedules.fire(seen)) == 1
    put(store, "tick", next_at=due)
    assert store.run(schedules.fire(seen)) == 0, "its job is there, under the next name"
    assert [job.get("schedule") for job in jobs(store)].count("tick") == 1


def test_a_due_time_is_fired_once_with_the_arguments_as_they_are(store: Store) -> None:
    odd = {"uuid": Binary(b"xx", 4), "deep": {}, "when": datetime(2026, 1, 1, tzinfo=UTC)}
    inner: dict[str, Any] = odd["deep"]  # type: ignore[assignment]
    for _ in range(150):
        inner["a"] = inner = {}
    due = ago(store, 5)
    put(store, "tick", next_at=due, args=odd)
    (seen,) = store.run(schedules.find_due(0))
    assert store.run(schedules.fire(seen)) == 1
    assert store.run(schedules.fire(seen)) is None, "it has moved on"
    put(store, "tick", next_at=due, args=odd)
    assert store.run(schedules.fire(seen)) == 0, "its job is there"
    assert next_at(store, "tick") == due + timedelta(hours=1)
    (job,) = store.database.jobs.find({}, {"args": 0})
    assert (job["_id"], job["schedule"]) == (f"tick@{due.isoformat()}", "tick")
    codec = store.database.codec_options.with_options(document_class=RawBSONDocument)
    (raw,) = store.database.get_collection("jobs", codec_options=codec).find({}, {"_id": 0, "args": 1})
    assert raw.raw == bson.encode({"args": odd}), "byte by byte"


def test_a_number_that_is_taken_is_passed_over(store: Store) -> None:
    taken = {"task": "t.t", "state": "done", "attempt": 0, "fails": 0, "lost": 0}
    store.database.jobs.insert_many([{**taken, "seq": Int64(seq)} for seq in (1, 2, 3)])
    put(store, "tick", next_at=ago(store, 5))
    assert fire_all(store) == 1
    assert jobs(store)[-1]["schedule"] == "tick"


def test_a_hundred_that_are_broken_do_not_hide_the_others(store: Store) -> None:
    long_ago = ago(store, 86400)
    mars = {"task": "t.t", "cron": "* * * * *", "timezone": "Mars/Olympus", "next_at": long_ago}
    many = [{"_id": f"broken-{number}", **mars} for number in range(schedules.DUE_AT_ONCE + 20)]
    store.database.schedules.insert_many(many)
    put(store, "good", next_at=ago(store, 5))
    first = store.run(schedules.find_due(0))
    rest = store.run(schedules.find_due(0, len(first)))
    assert len(first) == schedules.DUE_AT_ONCE
    assert rest[-1].name == "good"
    with pytest.raises(ConfigError, match="Mars/Olympus"):
        store.run(schedules.fire(first[0]))
    assert store.run(schedules.fire(rest[-1])) == 1


def test_what_is_too_large_for_a_job_is_refused_and_shown(store: Store) -> None:
    put(store, "large", next_at=ago(store, 5), args={"text": "x" * (16 * 1024 * 1024 - 1000)})
    (due,) = store.run(schedules.find_due(0))
    with pytest.raises(ConfigError, match=r"16\.0 MB"):
        store.run(schedules.fire(due))
    (shown,) = store.run(schedules.read_schedules())
    assert isinstance(shown, Broken)
    assert "16.0 MB" in shown.why
    with pytest.raises(ConfigError, match="MB"):
        store.run(schedules.add(Schedule("huge", "t.t", {"text": "x" * 15_900_000}, every=5)))


def test_names_that_are_no_text_are_shown_and_can_be_removed(store: Store) -> None:
    names: list[Any] = [7, {"a": 1}, Binary(b"xx", 4), 1.5]
    for name in names:
        put(store, name, next_at=ago(store, 5))
    not_utf8 = bson.encode({"_id": "?!", **TICK, "next_at": ago(store, 5)}).replace(b"?!\0", b"\xff!\0")
    store.database.schedules.insert_one(RawBSONDocument(not_utf8))
    put(store, "good", next_at=ago(store, 5))
    assert fire_all(store) == 1, "only the good one"
    shown = store.run(schedules.read_schedules())
    assert sum(isinstance(one, Broken) for one in shown) == len(names) + 1
    for one in shown:
        assert store.run(schedules.remove(one.name))
    assert store.database.schedules.count_documents({}) == 0
    assert not store.run(schedules.remove("good"))


@pytest.mark.parametrize(
    "odd",
    [None, 5, "soon", [datetime(2020, 1, 1, tzinfo=UTC)], {"$date": 1}, datetime(1, 1, 1), Int64(2**62), float("nan")],
)
def test_a_next_time_that_is_no_date_is_put_right(store: Store, odd: Any) -> None:
    put(store, "tick", next_at=odd)
    assert store.run(schedules.find_due(0)) == []
    assert mend_all(store) == ["tick"]
    assert next_at(store, "tick") > ago(store, 0)
    assert mend_all(store) == []


def test_a_next_time_that_is_missing_or_in_another_age_is_put_right(store: Store) -> None:
    store.database.schedules.insert_one({"_id": "new", **TICK})
    for name, ms in (("far", 2**62), ("old", -(2**62))):
        store.database.schedules.insert_one({"_id": name, **TICK, "next_at": bson.DatetimeMS(ms)})
    assert store.run(schedules.find_due(0)) == []
    assert mend_all(store) == ["far", "new", "old"]
    assert all(next_at(store, name) > ago(store, 0) for name in ("new", "far", "old"))


def test_a_next_time_an_hour_too_late_is_put_right_unless_somebody_else_was_first(store: Store) -> None:
    late = ago(store, -3605)
    put(store, "every", every=10, next_at=late)
    put(store, "cron", every=None, cron="* * * * *", next_at=late)
    put(store, "fine", next_at=ago(store, -3500))
    put(store, "broken", task=5, next_at=late)
    count, wrong = store.run(schedules.find_wrong(0))
    assert (count, {one.name for one in wrong}) == (4, {"every", "cron"})
    put(store, "cron", every=None, cron="* * * * *", next_at=ago(store, -30))
    assert [store.run(schedules.mend(one)) for one in wrong] == [False, True]
    assert (late - next_at(store, "every")).total_seconds() % 10 == 0, "in step"
    assert 1 <= fire_all(store) <= 7, "those of the last minute"
    assert store.run(schedules.find_wrong(count)) == (0, [])
