"""Schedules on a real store: each due time once, each document alone, and a wrong next time put
right."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson import Binary, Int64
from bson.raw_bson import RawBSONDocument
from click.testing import CliRunner, Result

from tontine import AsyncClient, Client
from tontine.cli import tontine
from tontine.errors import ConfigError
from tontine.records.schedule import Broken, LastRun, Schedule
from tontine.records.states import JobState
from tontine.store import read, schedules, standings
from tontine.store.call import Store

TICK = {"task": "t.t", "every": 3600}


def ago(store: Store, seconds: float) -> datetime:
    """A server time, as precise as it is stored."""
    moment = store.run(read.now()) - timedelta(seconds=seconds)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def put(store: Store, name: Any, **fields: Any) -> None:
    """As from before there was a validator, or by somebody who may go past it."""
    document = {"_id": name, **TICK, **fields}
    store.database.schedules.replace_one(
        {"_id": name}, document, upsert=True, bypass_document_validation=True
    )


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
    store.database.jobs.insert_one(
        {"_id": Schedule("tick", "t.t").job_id(due), "task": "t.foreign"}
    )
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
    (raw,) = store.database.get_collection("jobs", codec_options=codec).find(
        {}, {"_id": 0, "args": 1}
    )
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
    not_utf8 = bson.encode({"_id": "?!", **TICK, "next_at": ago(store, 5)}).replace(
        b"?!\0", b"\xff!\0"
    )
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
    [
        None,
        5,
        "soon",
        [datetime(2020, 1, 1, tzinfo=UTC)],
        {"$date": 1},
        datetime(1, 1, 1),
        Int64(2**62),
        float("nan"),
    ],
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


def test_a_next_time_an_hour_too_late_is_put_right_unless_somebody_else_was_first(
    store: Store,
) -> None:
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


def finish(store: Store, state: str = "done") -> None:
    store.database.jobs.update_many(
        {"state": "queued"}, {"$set": {"state": state, "finished_at": ago(store, 0)}}
    )


def test_without_being_told_otherwise_jobs_of_a_schedule_queue_up(store: Store) -> None:
    put(store, "tick", every=10, next_at=ago(store, 25))
    assert fire_all(store) == 3
    assert not any("key" in job for job in jobs(store)), "no further field, and no index entry"


def test_one_that_must_not_overlap_skips_times_while_its_last_job_is_unfinished(
    store: Store,
) -> None:
    put(store, "tick", every=10, overlap="skip", next_at=ago(store, 25))
    assert fire_all(store) == 1
    (job,) = jobs(store)
    assert (job["key"], job["schedule"]) == ("schedule:tick", "tick")
    found = store.database.schedules.find_one({"_id": "tick"})
    assert found is not None
    assert (found["skipped"], found["last_job"]) == (2, job["_id"])
    assert found["next_at"] > ago(store, 0), "it has moved on"
    finish(store)
    put(store, "tick", every=10, overlap="skip", next_at=ago(store, 1))
    assert fire_all(store) == 1, "it has ended, so the next one comes"


def test_of_many_nodes_that_fire_at_once_none_makes_it_overlap(store: Store) -> None:
    """Each saw another due time, as after long pauses: the key decides, whatever they saw."""
    seen = [schedules.Due("tick", ago(store, seconds), ago(store, 0)) for seconds in range(1, 9)]
    barrier = threading.Barrier(len(seen))
    one = Schedule("tick", "t.t", every=10, overlap="skip")

    def fire(due: schedules.Due) -> str:
        barrier.wait()
        return store.run(schedules._insert(one, due.next_at))[1]

    with ThreadPoolExecutor(len(seen)) as pool:
        fired = list(pool.map(fire, seen))
    assert fired.count("inserted") == 1
    assert fired.count("skipped") == len(seen) - 1
    assert len(jobs(store)) == 1


def test_the_same_due_time_fired_twice_is_there_and_not_skipped(store: Store) -> None:
    one, due = Schedule("tick", "t.t", every=10, overlap="skip"), ago(store, 5)
    assert store.run(schedules._insert(one, due))[1] == "inserted"
    assert store.run(schedules._insert(one, due))[1] == "there"


def test_a_schedule_s_max_age_is_in_its_jobs(store: Store) -> None:
    put(store, "tick", max_age=90, next_at=ago(store, 5))
    assert fire_all(store) == 1
    (job,) = jobs(store)
    assert job["start_by"] - job["created_at"] == timedelta(seconds=90)


def test_one_that_is_off_does_not_fire_and_goes_on_from_when_it_is_on(store: Store) -> None:
    due = ago(store, 5)
    put(store, "tick", next_at=due)
    (seen,) = store.run(schedules.find_due(0))
    assert store.run(schedules.switch_off("tick"))
    assert store.run(schedules.fire(seen)) is None, "also not by who saw it before"
    put(store, "by-hand", next_at=due, off=True)
    assert store.run(schedules.find_due(0)) == []
    assert mend_all(store) == []
    switched = store.run(schedules.switch_on("tick"))
    assert switched is not None
    assert next_at(store, "tick") == switched.next_at
    assert jobs(store) == []
    assert not store.run(schedules.switch_off("nobody"))
    with pytest.raises(ConfigError, match="there is no schedule 'nobody'"):
        store.run(schedules.switch_on("nobody"))


def test_one_that_is_switched_off_before_its_time_is_put_right_stays_without_one(
    store: Store,
) -> None:
    """A node of the release before knows nothing of `off`, and fires whatever has a time."""
    put(store, "tick", next_at=None)
    _, (wrong,) = store.run(schedules.find_wrong(0))
    store.run(schedules.switch_off("tick"))
    assert not store.run(schedules.mend(wrong))


def test_it_can_be_run_beside_its_times(store: Store) -> None:
    put(store, "tick", next_at=ago(store, -60), args={"x": 1}, off=True)
    job = store.run(schedules.run_now("tick"))
    assert (job.task, job.args, job.existed) == ("t.t", {"x": 1}, False)
    assert not store.run(schedules.run_now("tick")).existed
    put(store, "alone", overlap="skip", next_at=ago(store, -60))
    first = store.run(schedules.run_now("alone"))
    again = store.run(schedules.run_now("alone"))
    assert (again.seq, again.existed) == (first.seq, True)
    put(store, "broken", task=5)
    with pytest.raises(ConfigError, match="broken is broken: it can insert no job"):
        store.run(schedules.run_now("broken"))


def test_the_last_run_and_its_outcome_are_told(store: Store) -> None:
    def last() -> LastRun | None:
        (shown,) = store.run(standings.read_standings())
        return shown.last

    put(store, "tick", next_at=ago(store, 5))
    assert last() is None
    fire_all(store)
    (job,) = jobs(store)
    assert last() == LastRun(job["_id"], job["seq"], JobState.QUEUED, job["created_at"])
    finish(store, "failed")
    (job,) = jobs(store)
    assert last() == LastRun(job["_id"], job["seq"], JobState.FAILED, job["finished_at"])
    store.run(schedules.add(Schedule("tick", "t.t", every=60)))
    assert last() is not None, "also of one that was replaced"
    store.database.jobs.delete_many({})
    assert last() == LastRun(job["_id"]), "retention has removed it"


def test_a_task_that_nobody_has_is_told(store: Store) -> None:
    put(store, "tick")
    (shown,) = store.run(standings.read_standings())
    assert shown.warnings == ("no live node has its task t.t",)
    modules = [{"name": "t", "version": "1", "tasks": ["t.t"]}]
    store.database.nodes.insert_one(
        {"_id": "n", "name": "n", "state": "waiting", "beat": 1, "modules": modules}
    )
    (shown,) = store.run(standings.read_standings())
    assert shown.warnings == ()


def test_a_task_with_a_range_is_there_where_a_version_inside_it_is(store: Store) -> None:
    store.run(schedules.add(Schedule("old", "t.t@<2", every=60)))
    store.run(schedules.add(Schedule("new", "t.t@>=2", every=60)))
    modules = [{"name": "t", "version": version, "tasks": ["t.t"]} for version in ("1", "1.2")]
    store.database.nodes.insert_one(
        {"_id": "n", "name": "n", "state": "waiting", "beat": 1, "modules": modules}
    )
    shown = {one.name: one.warnings for one in store.run(standings.read_standings())}
    assert shown == {"old": (), "new": ("no live node has its task t.t@>=2",)}


async def test_both_clients_keep_schedules(store: Store, mongo_uri: str) -> None:
    name = store.database.name
    with Client(mongo_uri, database=name) as client:
        added = client.schedule("tidy", "t.t", {"x": 1}, every="10m", overlap="skip", max_age="1h")
        assert (added.every, added.overlap, added.max_age) == (600, "skip", 3600)
        assert added.next_at is not None
        assert added.next_at > ago(store, 0)
        (shown,) = client.schedules()
        assert shown.schedule == added
        with pytest.raises(ConfigError, match="not a cron expression"):
            client.schedule("wrong", "t.t", cron="daily")
        assert client.unschedule("tidy")
        assert not client.unschedule("tidy")
    async with AsyncClient(mongo_uri, database=name) as other:
        added = await other.schedule("report", "t.t", cron="30 6 * * 1-5", timezone="Europe/Paris")
        assert [one.schedule for one in await other.schedules()] == [added]
        assert await other.unschedule("report")


def tontine_schedule(store: Store, mongo_uri: str, *arguments: str) -> Result:
    where = ["--uri", mongo_uri, "--database", store.database.name]
    return CliRunner().invoke(tontine, ["schedule", *arguments, *where])


def test_the_commands_add_list_switch_run_and_remove(store: Store, mongo_uri: str) -> None:
    def run(*arguments: str) -> Result:
        return tontine_schedule(store, mongo_uri, *arguments)

    added = run(
        "add", "tick", "t.t", '{"x": 1}', "--every", "10m", "--overlap", "skip", "--max-age", "1h"
    )
    assert added.exit_code == 0, added.output
    assert "first due" in added.output
    assert "no live node has the task t.t" in added.stderr
    assert run("run", "tick").output == "tick: submitted job 1\n"
    again = run("run", "tick")
    assert (again.exit_code, again.stderr) == (
        1,
        "tick: job 1 of it is queued, and there is one at a time\n",
    )
    listed = run("ls").output
    assert all(word in listed for word in ("in 10 min", "queued", "job 1", "skip", "every 10 min"))
    assert "tick: no live node has its task t.t" in listed
    (shown,) = [json.loads(line) for line in run("ls", "--json").output.splitlines()]
    assert (shown["overlap"], shown["off"], shown["max_age"], shown["last"]["seq"]) == (
        "skip",
        False,
        3600,
        1,
    )
    assert (shown["last"]["state"], shown["broken"]) == ("queued", None)
    assert run("off", "tick").output == "tick: off\n"
    assert " off " in run("ls").output
    assert "next due" in run("on", "tick").output
    assert json.loads(run("off", "tick", "--json").output) == {"name": "tick", "off": True}
    assert run("rm", "tick").output == "tick: removed\n"


@pytest.mark.parametrize("verb", ["rm", "on", "off", "run"])
def test_a_schedule_that_is_not_there_is_told_in_one_line(
    store: Store, mongo_uri: str, verb: str
) -> None:
    answer = subprocess.run(
        [
            sys.executable,
            "-m",
            "tontine",
            "schedule",
            verb,
            "x",
            "--uri",
            mongo_uri,
            "--database",
            store.database.name,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert "there is no schedule 'x': `tontine schedule ls` lists them" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
