"""Schedules that insert plans: each due time once, under its name, and not while one is unfinished
where that is asked for."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.store.test_schedules import ago, fire_all, tontine_schedule
from tests.support.planned import Crew
from tontine import AsyncClient, Client, ConfigError, Plan
from tontine.records.schedule import Broken, Schedule
from tontine.records.states import PlanState
from tontine.store import read, schedules, standings
from tontine.store.call import Store
from tontine.testing import EagerQueue

STEPS: dict[str, Any] = {"get": {"task": "t.get"}, "put": {"task": "t.put", "take": {"x": "get"}}}


def put(store: Store, name: str, **fields: Any) -> None:
    """As from a driver that goes past the validator."""
    document = {"_id": name, "every": 3600, "plan": {"steps": STEPS}, **fields}
    store.database.schedules.replace_one(
        {"_id": name}, document, upsert=True, bypass_document_validation=True
    )


def plans(store: Store) -> list[dict[str, Any]]:
    return list(store.database.plans.find().sort("seq"))


def due_again(store: Store, name: str, at: datetime) -> None:
    store.database.schedules.update_one({"_id": name}, {"$set": {"next_at": at}})


@pytest.fixture
def crew(store: Store) -> Crew:
    return Crew(store, {"get": lambda: 7, "put": lambda x: x + 1})


def test_a_due_time_inserts_its_plan_once_whoever_fires_it(store: Store, crew: Crew) -> None:
    due = ago(store, 5)
    store.run(schedules.add(Schedule("nightly", "", every=3600, plan={"steps": STEPS})))
    due_again(store, "nightly", due)
    seen = store.run(schedules.find_due(0))[0]
    with ThreadPoolExecutor(8) as threads:
        fired = list(threads.map(lambda _: store.run(schedules.fire(seen)), range(8)))
    assert sum(one or 0 for one in fired) == 1
    # Whoever died before it was moved on leaves it to another.
    due_again(store, "nightly", due)
    assert fire_all(store) == 0
    (plan,) = plans(store)
    assert plan["_id"] == f"nightly@{due.isoformat()}"
    assert (plan["name"], plan["schedule"]) == ("nightly", "nightly")
    crew.run()
    assert crew.state(plan["_id"]) is PlanState.DONE
    assert crew.results(plan["_id"]) == {"get": 7, "put": 8}


def test_a_plan_that_has_taken_the_name_of_a_due_time_does_not_suppress_it(store: Store) -> None:
    due = ago(store, 5)
    put(store, "nightly", next_at=due)
    store.database.plans.insert_one({"_id": f"nightly@{due.isoformat()}", "steps": STEPS})
    assert fire_all(store) == 1
    assert [one["_id"] for one in plans(store)][-1] == f"nightly@{due.isoformat()}~"


@pytest.mark.parametrize("overlap", ["queue", "skip"])
def test_an_unfinished_plan_counts_as_the_last_one_running(
    store: Store, crew: Crew, overlap: str
) -> None:
    put(store, "nightly", next_at=ago(store, 7), overlap=overlap)
    assert fire_all(store) == 1
    for seconds in (6, 5):  # first it waits to be accepted, then it runs
        due_again(store, "nightly", ago(store, seconds))
        assert fire_all(store) == (0 if overlap == "skip" else 1)
        crew.accept()
    if overlap == "skip":
        found = store.database.schedules.find_one({"_id": "nightly"})
        assert found is not None
        assert (found["skipped"], found["last_job"]) == (2, plans(store)[0]["_id"])
    crew.run()
    due_again(store, "nightly", ago(store, 4))
    assert fire_all(store) == 1
    crew.run()
    assert {one["state"] for one in plans(store)} == {"done"}


def test_missed_times_are_fired_as_they_are_for_jobs(store: Store) -> None:
    for missed, count in (("skip", 0), ("once", 1), ("all", 3)):
        put(store, missed, next_at=ago(store, 3 * 3600 - 600), missed=missed)
        before = len(plans(store))
        fire_all(store)
        assert len(plans(store)) - before == count, missed


def test_a_plan_with_a_key_of_its_own_skips_times_at_which_another_has_it(store: Store) -> None:
    put(store, "nightly", plan={"steps": STEPS, "key": "album-7"}, next_at=ago(store, 7))
    store.database.plans.insert_one({"steps": STEPS, "key": "album-7"})
    assert fire_all(store) == 0
    assert len(plans(store)) == 1


BAD: list[tuple[dict[str, Any], str]] = [
    ({"plan": {"steps": {}}}, "it can insert no plan: it has no `steps`"),
    ({"plan": {"steps": {"a": {"task": "t.a", "after": ["b"]}}}}, "comes after b, which is no"),
    ({"plan": 7}, "`plan` must be an object like {steps: {get: {task: …}}}"),
    ({"task": "t.t"}, "give a schedule either a task or a plan"),
    ({"args": {"x": 1}}, "give a schedule either a task or a plan"),
    ({"max_age": 60}, "`max_age` goes with a job: a plan has none"),
]


@pytest.mark.parametrize(("fields", "why"), BAD)
def test_a_document_with_a_plan_that_cannot_be_one_is_shown_and_fires_nothing(
    store: Store, fields: dict[str, Any], why: str
) -> None:
    put(store, "bad", next_at=ago(store, 5), **fields)
    put(store, "good", next_at=ago(store, 5))
    for due in store.run(schedules.find_due(0)):
        if due.name == "bad":
            with pytest.raises(ConfigError):
                store.run(schedules.fire(due))
        else:
            assert store.run(schedules.fire(due)) == 1
    read_slim = schedules.read_schedules() if "args" in fields else schedules.read_slim(10)
    for judged in (store.run(schedules.read_schedules()), store.run(read_slim)):
        (broken,) = [one for one in judged if isinstance(one, Broken)]
        assert broken.name == "bad"
        assert why in broken.why
    assert [one["schedule"] for one in plans(store)] == ["good"]


def test_a_large_plan_is_not_read_beside_others_and_fires_all_the_same(store: Store) -> None:
    large = {"steps": {"get": {"task": "t.get", "args": {"x": "x" * 100_000}}}}
    put(store, "large", next_at=ago(store, 5), plan=large)
    (slim,) = store.run(schedules.read_slim(10))
    assert isinstance(slim, Schedule)
    assert len(str(slim.plan)) < 1000
    assert fire_all(store) == 1
    assert plans(store)[0]["steps"] == large["steps"]


async def test_both_clients_schedule_plans(store: Store, mongo_uri: str) -> None:
    name = store.database.name
    plan = Plan("album")
    plan.step("t.put", {"x": plan.step("t.get")})
    with Client(mongo_uri, database=name) as client:
        added = client.schedule("nightly", plan, cron="0 3 * * *", overlap="skip")
        assert added.plan == plan.document()
        assert added.what == "plan: get, put"
        (shown,) = client.schedules()
        assert shown.schedule == added
        assert shown.warnings == ("no live node has its tasks t.get, t.put",)
        with pytest.raises(ConfigError, match="this cannot be a plan: it has no `steps`"):
            client.schedule("wrong", {"steps": {}}, every=60)
        with pytest.raises(ConfigError, match="which has its arguments in its steps"):
            client.schedule("wrong", plan, {"x": 1}, every=60)
    async with AsyncClient(mongo_uri, database=name) as other:
        again = await other.schedule("nightly", plan.document(), every="1h")
        assert [one.schedule for one in await other.schedules()] == [again]
        assert await other.unschedule("nightly")
    with pytest.raises(ConfigError, match="`run_plan` runs a plan without MongoDB"):
        EagerQueue().schedule("nightly", plan, every=60)


def test_the_last_plan_and_its_state_are_told(store: Store, crew: Crew) -> None:
    put(store, "nightly", next_at=ago(store, 5))
    fire_all(store)
    for state in (None, PlanState.RUNNING, PlanState.DONE):
        (one,) = store.run(standings.read_standings())
        assert one.last is not None
        assert (one.last.seq, one.last.state) == (plans(store)[0]["seq"], state)
        crew.accept() if state is None else crew.run()
    store.database.plans.delete_many({})
    (one,) = store.run(standings.read_standings())
    assert one.last is not None
    assert one.last.seq is None


def test_the_commands_keep_schedules_of_plans(
    store: Store, mongo_uri: str, crew: Crew, tmp_path: Path
) -> None:
    def run(*arguments: str) -> Any:
        return tontine_schedule(store, mongo_uri, *arguments)

    file = tmp_path / "album.json"
    file.write_text(json.dumps({"steps": STEPS}))
    added = run("add", "nightly", "--plan", str(file), "--cron", "0 3 * * *", "--overlap", "skip")
    assert added.exit_code == 0, added.output
    assert "first due" in added.output
    assert "no live node has the task t.get" in added.stderr
    ran = run("run", "nightly")
    assert ran.output == "nightly: submitted plan 1\n"
    again = run("run", "nightly")
    assert "plan 1 of it waits to be accepted" in str(again.exception)
    crew.accept()
    again = run("run", "nightly")
    assert (again.exit_code, again.stderr) == (
        1,
        "nightly: plan 1 of it is running, and there is one at a time\n",
    )
    listed = run("ls").output
    assert all(word in listed for word in ("plan: get, put", "running", "plan 1", "skip"))
    (shown,) = [json.loads(line) for line in run("ls", "--json").output.splitlines()]
    assert (shown["plan"], shown["last"]["state"]) == ({"steps": STEPS}, "running")
    assert run("off", "nightly").output == "nightly: off\n"
    assert "next due" in run("on", "nightly").output
    assert run("rm", "nightly").output == "nightly: removed\n"
    for wrong, why in (
        (["t.t", "--plan", str(file)], "name either a task, or with --plan the file of a plan"),
        ([], "name either a task, or with --plan the file of a plan"),
    ):
        refused = run("add", "x", *wrong, "--every", "1h")
        assert why in str(refused.exception)
    file.write_text('{"steps": {"a": {"task": "t.a", "after": ["b"]}}}')
    refused = run("add", "x", "--plan", str(file), "--every", "1h")
    assert "step a comes after b, which is no step" in str(refused.exception)
    assert not store.run(schedules.read_schedules())


def test_the_validator_takes_a_task_or_a_plan(store: Store) -> None:
    now = store.run(read.now()) + timedelta(hours=1)
    documents = store.database.schedules
    documents.insert_one({"_id": "a", "plan": {"steps": STEPS}, "every": 60, "next_at": now})
    documents.insert_one({"_id": "b", "task": "t.t", "every": 60})
    with pytest.raises(Exception, match="failed validation"):
        documents.insert_one({"_id": "c", "every": 60})
    with pytest.raises(Exception, match="failed validation"):
        documents.insert_one({"_id": "d", "plan": {"steps": STEPS}})
