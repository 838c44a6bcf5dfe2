"""What plans must show beyond their rules one by one: late writes of an earlier try, sagas that
fail or are cancelled at every moment, and a retry that leaves alone what is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.planned import Broken, Crew
from tontine.records.plan import PlanRecord
from tontine.records.states import PlanState
from tontine.store.call import Store
from tontine.store.plans import control, writes
from tontine.store.retention import FOR_EVER

FIVE = ("a", "b", "c", "d", "e")


class Tasks:
    """Tasks that fail where they are told to."""

    def __init__(self, store: Store) -> None:
        self.broken: set[str] = set()
        self.crew = Crew(store, {"do": self.do, "item": self.item, "all": lambda parts: parts})

    def do(self, name: str) -> str:
        return self._unless_broken(name)

    def item(self, n: int) -> int:
        self._unless_broken(str(n))
        return n

    def _unless_broken(self, name: str) -> str:
        if name in self.broken:
            raise Broken(f"{name} broke")
        return name


@pytest.fixture
def tasks(store: Store) -> Tasks:
    return Tasks(store)


def step(name: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"task": "t.do", "args": {"name": name}, "after": list(after), **more}


def saga() -> dict[str, Any]:
    """Five steps in a row, each with an undo, and `finally`."""
    before = [(), *((name,) for name in FIVE)]
    return {
        "steps": {
            name: step(name, *before[at], undo={"task": "t.do", "args": {"name": f"{name}~"}})
            for at, name in enumerate(FIVE)
        },
        "finally": {"task": "t.do", "args": {"name": "finally"}},
    }


def ran(crew: Crew) -> list[str]:
    """What was run, in its order."""
    return [name.split("/", 2)[2] for name, _ in crew.ran]


def seen(crew: Crew, plan: Any) -> PlanRecord:
    return crew.plan(plan)


# Late writes of an earlier try


def test_a_late_halt_of_an_earlier_try_asks_no_job_of_this_one_to_end(tasks: Tasks) -> None:
    crew = tasks.crew
    steps = {"a": step("a"), "b": step("b"), "z": step("z", "a", "b")}
    plan = crew.insert({"steps": steps, "on_failure": "cancel"})
    tasks.broken = {"a", "b"}
    crew.accept()
    first, second = crew.claim()
    crew.work(first)
    halting = seen(crew, plan)
    assert (halting.state, halting.try_) == ("stopping", 0)
    assert crew.jobs(plan)["b"]["cancel"]
    crew.work(second)
    assert crew.state(plan) == "failed"

    tasks.broken.clear()
    crew.store.run(control.retry(halting.seq or 0))
    held = crew.claim()
    assert len(held) == 2
    assert crew.store.run(writes.halt(halting)) == 0, "it landed late"
    jobs = crew.jobs(plan)
    assert not any("cancel" in jobs[name] or "stopped" in jobs[name] for name in ("a", "b"))
    for job in held:
        crew.work(job)
    crew.run()
    assert crew.state(plan) == "done"


def test_a_closing_that_lands_late_runs_finally_once_and_ends_no_later_try(tasks: Tasks) -> None:
    crew = tasks.crew
    tasks.broken = {"a"}
    document = {"steps": {"a": step("a")}, "finally": saga()["finally"]}
    plan = crew.insert(document)
    crew.accept()
    (held,) = crew.claim()
    seq = crew.plan(plan).seq or 0
    crew.store.run(control.cancel(seq))
    stopping = seen(crew, plan)
    crew.work(held)
    crew.run()
    assert (crew.state(plan), ran(crew)) == ("cancelled", ["a", "~finally/0"])
    crew.store.run(control.retry(seq))
    (held,) = crew.claim()
    crew.store.run(control.cancel(seq))
    assert seen(crew, plan).state == stopping.state

    assert not crew.store.run(writes.end(stopping, PlanState.CANCELLED, FOR_EVER)), "late"
    assert crew.state(plan) == "stopping", "what runs of this try is waited for"
    crew.work(held)
    crew.run()
    assert crew.state(plan) == "cancelled"
    assert ran(crew) == ["a", "~finally/0", "a", "~finally/1"]
    assert not crew.store.run(writes.end(stopping, PlanState.CANCELLED, FOR_EVER))


def test_two_who_close_a_plan_run_its_finally_once(tasks: Tasks) -> None:
    crew = tasks.crew
    tasks.broken = {"a"}
    plan = crew.insert({"steps": {"a": step("a")}, "finally": saga()["finally"]})
    crew.accept()
    (held,) = crew.claim()
    crew.store.run(control.cancel(crew.plan(plan).seq or 0))
    stopping = seen(crew, plan)
    crew.work(held)
    assert crew.state(plan) == "closing"
    assert not crew.store.run(writes.end(stopping, PlanState.CANCELLED, FOR_EVER))
    crew.run()
    assert not crew.store.run(writes.end(stopping, PlanState.CANCELLED, FOR_EVER))
    crew.run()
    assert (crew.state(plan), ran(crew)) == ("cancelled", ["a", "~finally/0"])


def test_a_fan_in_waits_for_an_item_that_is_run_again(tasks: Tasks) -> None:
    crew = tasks.crew
    steps = {
        "m": {"task": "t.item", "map": [0, 1, 2], "as": "n"},
        "z": {"task": "t.all", "take": {"parts": "m"}},
    }
    plan = crew.insert({"steps": steps})
    tasks.broken = {"1"}
    crew.accept()
    jobs = crew.claim()
    for job in reversed(jobs):  # the failure comes last but one
        crew.work(job)
    assert crew.state(plan) == "failed"
    tasks.broken.clear()
    seq = crew.plan(plan).seq or 0
    crew.store.run(control.retry(seq))
    (held,) = crew.claim()
    assert held["args"] == {"n": 1}
    crew.look(seq)
    crew.advance(jobs[0], "done")
    crew.advance(jobs[2], "done")
    assert "z" not in crew.jobs(plan)
    crew.work(held)
    crew.run()
    assert (crew.state(plan), crew.results(plan)["z"]) == ("done", [0, 1, 2])
    assert ran(crew)[3:] == ["m/00000001", "z"]


# A saga of five


def undone(*done: str) -> list[str]:
    return [f"{name}~" for name in reversed(done)]


@pytest.mark.parametrize("broken", FIVE)
def test_a_saga_that_fails_at_any_step_is_undone_from_there(tasks: Tasks, broken: str) -> None:
    crew, at = tasks.crew, FIVE.index(broken)
    tasks.broken = {broken}
    plan = crew.insert(saga())
    crew.run()
    assert crew.state(plan) == ("undone" if at else "failed")
    assert ran(crew) == [*FIVE[: at + 1], *undone(*FIVE[:at]), "~finally/0"]
    error = crew.plan(plan).error
    assert error is not None
    assert (error.step, error.message) == (broken, f"{broken} broke")


@pytest.mark.parametrize("broken", FIVE[:-1])
def test_an_undo_that_fails_leaves_it_stuck_and_a_retry_goes_on_from_there(
    tasks: Tasks, broken: str
) -> None:
    crew, at = tasks.crew, FIVE.index(broken)
    tasks.broken = {"e", f"{broken}~"}
    plan = crew.insert(saga())
    crew.run()
    assert crew.state(plan) == "stuck"
    assert ran(crew)[5:] == [*undone(*FIVE[at:4]), "~finally/0"]
    tasks.broken.clear()
    crew.ran.clear()
    crew.store.run(control.retry(crew.plan(plan).seq or 0))
    crew.run()
    assert crew.state(plan) == "undone"
    assert ran(crew) == [*undone(*FIVE[: at + 1]), "~finally/1"]


def moments(crew: Crew) -> Iterator[None]:
    """One act of nodes after another, until there is nothing left to do."""
    yield
    crew.accept()
    yield
    while jobs := crew.claim():
        yield
        for job in jobs:
            crew.work(job)
        yield


MOMENTS = 2 + 2 * (len(FIVE) + 1)
"""Before and after it is accepted; each step and `finally` claimed, and settled."""


@pytest.mark.parametrize("undo", [True, False])
@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_saga_can_be_cancelled_at_every_moment(tasks: Tasks, moment: int, undo: bool) -> None:
    """What was done before is undone, and what ran and ended all the same."""
    crew = tasks.crew
    found, _ = crew.store.run(control.submit(saga()))
    acts = moments(crew)
    for _ in range(moment + 1):
        next(acts)
    _, is_mine = crew.store.run(control.cancel(found.seq or 0, undo=undo))
    for _ in acts:
        crew.look(found.seq or 0)
    crew.run()
    done = FIVE[: moment // 2]
    state = crew.state(found.id)
    if moment == 0:
        assert (state, ran(crew)) == ("cancelled", [])
    elif moment > 2 * len(FIVE):
        assert (state, is_mine) == ("done", False)
        assert ran(crew) == [*FIVE, "~finally/0"]
    elif undo and done:
        assert (state, ran(crew)) == ("undone", [*done, *undone(*done), "~finally/0"])
    else:
        assert (state, ran(crew)) == ("cancelled", [*done, "~finally/0"])


@pytest.mark.parametrize("moment", range(10))
def test_a_cancel_while_it_is_undone_changes_nothing(tasks: Tasks, moment: int) -> None:
    crew = tasks.crew
    tasks.broken = {"e"}
    plan = crew.insert(saga())
    acts = moments(crew)
    while crew.state(plan) != "undoing":
        next(acts)
    for _ in range(moment):
        next(acts)
    before = seen(crew, plan)
    after, is_mine = crew.store.run(control.cancel(before.seq or 0))
    assert (after, is_mine) == (before, False)
    crew.run()
    for _ in acts:
        pass
    crew.run()
    assert crew.state(plan) == "undone"
    assert ran(crew) == [*FIVE, *undone(*FIVE[:4]), "~finally/0"]


# Retry


def test_a_retry_runs_three_of_ten_thousand_items(tasks: Tasks) -> None:
    crew, jobs = tasks.crew, tasks.crew.store.database.jobs
    again = [7, 4_000, 9_999]
    steps = {"m": {"task": "t.item", "map": list(range(10_000)), "as": "n"}, "z": step("z", "m")}
    plan = crew.insert({"steps": steps})
    (seq,) = crew.accept()
    assert jobs.count_documents({}) == 10_000
    ended = {"attempt": 1, "node": "other"}
    failed = {"args.n": {"$in": again}}
    jobs.update_many({"$nor": [failed]}, {"$set": {**ended, "state": "done", "result": 1}})
    jobs.update_many(failed, {"$set": {**ended, "state": "failed"}})
    crew.look(seq)
    assert crew.state(plan) == "failed"
    crew.store.run(control.retry(seq))
    assert jobs.count_documents({"state": "queued"}) == 3
    crew.run()
    assert crew.state(plan) == "done"
    assert [args.get("n") for _, args in crew.ran] == [*again, None]
    untouched = {"_id": {"$regex": "/m/"}, "attempt": 1, "node": "other", "result": 1}
    assert jobs.count_documents(untouched) == 10_000 - 3
