"""Plans that cannot go on as they were meant to, and answers that get lost: nobody else's plan
suffers, and what can still be done is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.store.test_plans import crew
from tests.support.planned import NODE, Crew
from tontine.records.job import JobError
from tontine.records.plan import JobFact, PlanPlace
from tontine.records.states import JobState
from tontine.store import settle
from tontine.store.call import Call, Operation, Store
from tontine.store.plans import control, release
from tontine.store.plans.advance import ROUNDS
from tontine.store.retention import read_retention
from tontine.store.settle import Outcome

__all__ = ["crew"]


class Doubling(Store):
    """Makes every call twice that may be repeated, as after an answer that got lost."""

    def _once(self, call: Call) -> Any:
        if call.repeats:
            super()._once(call)
        return super()._once(call)


def lacking(**more: Any) -> dict[str, Any]:
    """An undo whose argument is not there."""
    return {"task": "t.echo", "take": {"gone": "get.gone"}, **more}


def saga(**undo: Any) -> dict[str, Any]:
    return {
        "steps": {
            "get": {"task": "t.echo", "args": {"n": 1}, "undo": undo},
            "other": {"task": "t.echo", "undo": {"task": "t.echo"}},
            "last": {"task": "t.fails", "after": ["get", "other"]},
        }
    }


def test_an_undo_that_cannot_be_released_holds_back_no_other(crew: Crew) -> None:
    plan = crew.insert(saga(**lacking()))
    crew.accept()
    for _ in range(2):
        for job in crew.claim():
            crew.work(job)
    assert crew.state(plan) == "undoing", "another undo has yet to run"
    crew.run()
    assert crew.state(plan) == "stuck"
    assert [one.split("/", 2)[2] for one, _ in crew.ran if "~" in one] == ["other~"]
    error = crew.plan(plan).error
    assert error is not None
    assert (error.step, error.type) == ("get", "InvalidStep")
    assert "no field 'gone'" in error.message


def test_a_finally_that_cannot_be_released_leaves_the_error_that_stopped_the_plan(
    crew: Crew,
) -> None:
    plan = crew.insert({"steps": {"a": {"task": "t.fails"}}, "finally": {"task": "t.echo"}})
    crew.accept()
    seq = crew.plan(plan).seq
    crew.store.database.jobs.insert_one({"_id": f"plan/{seq}/~finally/0", "state": "done"})
    crew.run()
    found = crew.plan(plan)
    assert found.state == "failed"
    assert found.error is not None
    assert (found.error.step, found.error.type) == ("a", "Broken")


def test_a_plan_is_not_stuck_while_an_undo_of_it_runs(crew: Crew) -> None:
    plan = crew.insert(saga(**lacking()))
    crew.accept()
    for _ in range(2):
        for job in crew.claim():
            crew.work(job)
    (running,) = crew.claim()
    crew.look(running["plan"]["seq"])
    assert crew.state(plan) == "undoing"
    crew.work(running)
    assert crew.state(plan) == "stuck"


def test_one_item_that_cannot_be_undone_holds_back_no_other_item(crew: Crew) -> None:
    crew.tasks["t.some"] = lambda text: {} if text == "b" else {"at": text}
    undo = {"task": "t.echo", "take": {"at": "put.at"}}
    plan = crew.insert(
        {
            "steps": {
                "put": {"task": "t.some", "map": ["a", "b", "c"], "as": "text", "undo": undo},
                "last": {"task": "t.fails", "after": ["put"]},
            }
        }
    )
    crew.run()
    crew.look(crew.plan(plan).seq or 0)  # the owner's, which looks at all that is not running
    assert crew.state(plan) == "stuck"
    assert [args for name, args in crew.ran if "~" in name] == [{"at": "a"}, {"at": "c"}]
    error = crew.plan(plan).error
    assert error is not None
    assert (error.step, error.item) == ("put", 1)


def test_an_item_that_cannot_be_released_is_named(crew: Crew) -> None:
    crew.tasks["t.some"] = lambda text: {} if text == "b" else {"at": text}
    steps = {
        "get": {"task": "t.some", "map": ["a", "b", "c"], "as": "text"},
        "put": {"task": "t.echo", "map": "get.at", "as": "at"},
    }
    plan = crew.insert({"steps": steps})
    crew.run()
    error = crew.plan(plan).error
    assert error is not None
    assert (error.step, error.item) == ("put", 1)


def test_a_width_whose_answer_was_lost_has_its_items_released(crew: Crew) -> None:
    crew.store = Doubling(crew.store.database)
    plan = crew.insert(
        {
            "steps": {
                "urls": {"task": "t.urls"},
                "up": {"task": "t.upper", "map": "urls.urls", "as": "text"},
            }
        }
    )
    crew.run()
    assert crew.state(plan) == "done"
    assert len(crew.ran) == 4


def test_a_chunk_larger_than_anything_is_one_job(crew: Crew) -> None:
    step = {"task": "t.echo", "map": "urls.urls", "as": "some", "chunk": 3e9}
    plan = crew.insert({"steps": {"urls": {"task": "t.urls"}, "all": step}})
    crew.run()
    assert crew.state(plan) == "done"
    assert crew.ran[-1][1] == {"some": ["a", "b", "c"]}


def test_what_one_advance_does_not_do_is_told(crew: Crew) -> None:
    steps = {"m0": {"task": "t.echo", "map": [], "as": "x"}}
    many = ROUNDS + 20
    for n in range(1, many):
        steps[f"m{n}"] = {"task": "t.echo", "map": [], "as": "x", "after": [f"m{n - 1}"]}
    plan = crew.insert({"steps": steps})
    (seq,) = crew.accept()
    assert crew.state(plan) == "running"
    assert crew.look(seq).left == set()
    assert crew.state(plan) == "done"
    assert len(crew.plan(plan).widths) == many


def test_a_job_that_lost_all_but_its_name_is_still_its_plans(crew: Crew) -> None:
    plan = crew.insert({"steps": {"get": {"task": "t.echo"}}})
    crew.accept()
    (job,) = crew.claim()
    error = JobError("ResultTooLarge", "too large")
    outcome = Outcome("refused", int(job["seq"]), 1, error=error, bare=True)
    crew.store.run(settle.settle_each(NODE, [outcome], crew.store.run(read_retention())))
    crew.advance(job, "failed")
    assert crew.state(plan) == "failed"
    (left,) = crew.jobs(plan).values()
    assert left["plan"] == job["plan"]
    assert crew.plan(plan).error is not None


def test_an_undo_reads_what_it_takes_for_many_items_at_once(crew: Crew) -> None:
    crew.tasks["t.at"] = lambda text: {"at": text}
    undo = {"task": "t.echo", "take": {"at": "put.at"}}
    items = [str(n) for n in range(50)]
    plan = crew.insert(
        {
            "steps": {
                "put": {"task": "t.at", "map": items, "as": "text", "undo": undo},
                "last": {"task": "t.fails", "after": ["put"]},
            }
        }
    )
    read: list[Call] = []

    class Counting(Store):
        def _once(self, call: Call) -> Any:
            if (call.options.get("projection") or {}).get("result"):
                read.append(call)
            return super()._once(call)

    crew.store = Counting(crew.store.database)
    crew.run()
    assert crew.state(plan) == "undone"
    assert len(read) < 5, "not one for each item"


def test_one_plan_that_cannot_be_released_keeps_no_other_from_it(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [
        crew.insert({"_id": name, "steps": {"a": {"task": "t.echo"}, "b": after_a()}})
        for name in ("one", "two")
    ]
    crew.accept()
    jobs = crew.claim()
    whole = release.put

    def put(documents: list[Any], reserve: Any = None) -> Operation[None]:
        if any(one["plan"]["seq"] == jobs[0]["plan"]["seq"] for one in documents):
            raise OverflowError("somebody has written something odd")
        yield from whole(documents, reserve)

    monkeypatch.setattr("tontine.store.plans.advance.put", put)
    retention = crew.store.run(read_retention())
    ended = [Outcome("done", int(job["seq"]), 1, 0.0, result=EMPTY) for job in jobs]
    crew.store.run(settle.settle_each(NODE, ended, retention))
    places = [PlanPlace.from_document(job["plan"]) for job in jobs]
    touched = {one.seq: [JobFact(one, JobState.DONE)] for one in places if one is not None}
    done = crew._advance(touched)
    assert list(done.failed) == [jobs[0]["plan"]["seq"]]
    assert "b" in crew.jobs(ids[1])
    assert "b" not in crew.jobs(ids[0])


def after_a() -> dict[str, Any]:
    return {"task": "t.echo", "after": ["a"]}


EMPTY = b"\x05\x00\x00\x00\x00"


@pytest.mark.parametrize("when", ["begun", "done"])
def test_a_job_that_came_late_and_was_claimed_has_not_begun(crew: Crew, when: str) -> None:
    steps = {
        "get": {"task": "t.echo", "undo": {"task": "t.echo", "when": when}},
        "bad": {"task": "t.fails"},
    }
    plan = crew.insert({"steps": steps})
    crew.accept()
    late = crew.store.database.jobs.find_one_and_delete({"plan.step": "get"})
    (bad,) = crew.claim()
    assert late is not None
    retention = crew.store.run(read_retention())
    outcome = Outcome("failed", int(bad["seq"]), 1, 0.0, error=JobError("Broken", "no"))
    crew.store.run(settle.settle_each(NODE, [outcome], retention))
    found = crew.store.database.jobs
    late |= {"state": "working", "node": "other", "attempt": 1}

    class Late(Store):
        """The job lands between the look for open ones and the look at those to undo."""

        def _once(self, call: Call) -> Any:
            answer = super()._once(call)
            if call.method == "find_one" and call.args[0].get("plan.kind") == "step":
                found.update_one({"_id": late["_id"]}, {"$setOnInsert": late}, upsert=True)
            return answer

    crew.store = Late(crew.store.database)
    crew.advance(bad, "failed")
    assert crew.plan(plan).undo == ()
    assert crew.state(plan) == "failed"


def test_what_others_released_before_the_news_came_keeps_no_plan_from_its_end(crew: Crew) -> None:
    after = {"task": "t.echo", "after": ["one", "other"]}
    steps = {"one": {"task": "t.echo"}, "other": {"task": "t.echo"}, "both": after}
    plan = crew.insert({"steps": {**steps, "last": {"task": "t.echo", "after": ["both"]}}})
    (seq,) = crew.accept()
    slow = [JobFact(PlanPlace(seq, step), JobState.DONE) for step in ("one", "last")]
    quick = {PlanPlace(seq, step).id for step in ("other", "both")}
    advance = crew.advance

    def advance_quick_ones(job: Mapping[str, Any], kind: str) -> None:
        if job["_id"] in quick:
            advance(job, kind)

    crew.advance = advance_quick_ones  # type: ignore[method-assign]
    for _ in range(3):
        for job in crew.claim():
            crew.work(job)
    assert crew.state(plan) == "running"
    crew._advance({seq: slow})
    assert crew.state(plan) == "done", "without a look"


@pytest.mark.parametrize(
    ("levels", "many", "afters", "why"),
    [
        (1, 1000, 0, "it adds 1,000 steps to 1, and a plan may have 1,000"),
        (1, 800, 20, "it adds steps that make the plan larger than 1 MB"),
        (16, 800, 20, "it adds steps that make the plan larger than 1 MB"),
    ],
)
def test_steps_that_are_too_many_or_too_large_under_their_names_stop_the_plan(
    crew: Crew, levels: int, many: int, afters: int, why: str
) -> None:
    plan = crew.insert({"steps": {"get": {"task": "t.echo"}}})
    (seq,) = crew.accept()
    name = ":".join(["x" * 64] * levels)
    ids = {"_id": plan, "seq": seq, "state": "running", "try": 0, "rev": 1}
    crew.store.database.plans.replace_one({}, {**ids, "steps": {name: {"task": "t.echo"}}})
    crew.look(seq)
    more = {
        f"s{n}": {"task": "t.echo", "after": [f"s{m}" for m in range(max(0, n - afters), n)]}
        for n in range(many)
    }
    place = PlanPlace(seq, name)
    done = {"state": "done", "more": more}
    crew.store.database.jobs.update_one({"_id": place.id}, {"$set": done})
    assert not crew.look(seq).failed
    error = crew.plan(plan).error
    assert error is not None
    assert (error.step, error.message) == (name, why)


def test_a_plan_that_is_submitted_under_an_id_that_is_there_is_that_one(crew: Crew) -> None:
    document = {"_id": "one", "steps": {"get": {"task": "t.echo"}}}
    doubling = Doubling(crew.store.database)
    _, existed = doubling.run(control.submit(document))
    assert not existed, "it is its own, after an answer that got lost"
    crew.run()
    again, existed = crew.store.run(control.submit(document))
    assert existed
    assert (again.seq, again.state) == (crew.plan("one").seq, "done")
