"""Why a plan is where it is, from its document and its jobs, counted."""

from __future__ import annotations

from typing import Any

import pytest

from tontine.diagnose.why.plan import explain_plan
from tontine.records.plan import PlanRecord
from tontine.records.plan_status import JobCounts, PlanStatus

DONE, QUEUED = JobCounts(done=1), JobCounts(queued=1)


def findings(
    steps: dict[str, Any],
    jobs: dict[str, JobCounts],
    undos: dict[str, JobCounts] | None = None,
    **fields: Any,
) -> list[str]:
    head = {"_id": 1, "seq": 17, "state": "running", "try": 0}
    plan = PlanRecord.from_document({**head, "steps": steps, **fields})
    counts = {("step", name): count for name, count in jobs.items()}
    counts |= {("undo", name): count for name, count in (undos or {}).items()}
    found = explain_plan(plan, PlanStatus.of(plan, counts), all_know=True)
    return [one.sentence for one in found]


def chain(count: int) -> dict[str, Any]:
    names = [f"s{one:02}" for one in range(count)]
    after = [[], *([name] for name in names)]
    return {name: {"task": "t.t", "after": after[at]} for at, name in enumerate(names)}


def test_what_is_done_takes_no_room_from_what_is_not() -> None:
    done = {f"s{one:02}": DONE for one in range(24)}
    said = findings(chain(30), {**done, "s24": QUEUED})
    assert said[0] == "Step s24 is under way: its job is queued."
    assert said[1] == "Step s25 waits for s24 (queued)."
    assert len(said) == 6


def test_what_is_under_way_comes_first_however_much_waits() -> None:
    steps = {**dict(reversed(chain(30).items())), "other": {"task": "t.t"}}
    said = findings(steps, {"s00": DONE, "s01": QUEUED, "other": DONE})
    assert said[0] == "Step s01 is under way: its job is queued."
    assert said[-1] == "8 more steps wait."
    assert len(said) == 1 + 20 + 1


def test_a_step_that_added_some_has_ended_when_those_have() -> None:
    steps = {"a": {"task": "t.t"}, "z": {"task": "t.t", "after": ["a"]}, "a:k": {"task": "t.t"}}
    said = findings(steps, {"a": DONE, "a:k": QUEUED}, added=["a"])
    assert said[-1] == "Step z waits for a:k (queued)."
    said = findings(steps, {"a": DONE, "a:k": DONE}, added=["a"])
    assert said[-1].startswith("Step z waits for nothing")


def test_a_step_that_may_fail_has_not_ended_when_the_plan_stopped_it() -> None:
    steps = {"a": {"task": "t.t", "may_fail": True}, "z": {"task": "t.t", "after": ["a"]}}
    said = findings(steps, {"a": JobCounts(cancelled=1, stopped=1)})
    assert said == ["Step z waits for a (cancelled)."]
    said = findings(steps, {"a": JobCounts(failed=1)})
    assert said[0].startswith("Step z waits for nothing")


def test_what_is_undone_takes_no_room_from_what_is_not() -> None:
    steps = {name: {**step, "undo": {"task": "t.u"}} for name, step in chain(30).items()}
    undos = {f"s{one:02}": DONE for one in range(4, 30)}
    undo = list(reversed(steps))
    said = findings(
        steps, {}, {**undos, "s03": QUEUED}, state="undoing", undo=undo, cause="cancelled"
    )
    assert said[:2] == ["It stopped because it was cancelled.", "The undo of s03 is under way."]
    assert len(said) == 1 + 4


@pytest.mark.parametrize(
    ("state", "sentence"), [("undoing", "It stopped."), ("undone", "It stopped, and was undone.")]
)
def test_of_a_plan_that_was_stuck_it_is_not_said_what_nobody_knows_any_more(
    state: str, sentence: str
) -> None:
    """A retry takes the cause away, and it may have been cancelled."""
    assert findings(chain(1), {"s00": DONE}, state=state)[0] == sentence


def test_of_the_way_back_and_of_the_end_it_is_said_where_to_ask_on() -> None:
    """No node may have the task of an undo, or of `finally`: only the job tells that."""
    undo = {"task": "t.undo"}
    steps = {
        "a": {"task": "t.t", "undo": undo},
        "m": {"task": "t.t", "map": [1], "as": "x", "undo": undo},
    }
    head = {"_id": 1, "seq": 17, "steps": steps, "finally": {"task": "t.end"}, "try": 2}

    def advice(counts: dict[tuple[str, str], JobCounts], **fields: Any) -> list[str]:
        plan = PlanRecord.from_document({**head, **fields})
        found = explain_plan(plan, PlanStatus.of(plan, counts), all_know=True)
        return [one.advice for one in found]

    undos = {("undo", "a"): QUEUED, ("undo", "m"): QUEUED}
    assert advice(undos, state="undoing", undo=["a", "m"])[1:] == [
        "`tontine why plan/17/a~` tells of its job",
        "`tontine plan 17 --jobs` lists its jobs",
    ]
    last = {("finally", "~finally/2"): QUEUED}
    assert advice(last, state="closing", outcome="done") == [
        "`tontine why plan/17/~finally/2` tells of its job"
    ]
    assert advice({}, state="closing", outcome="done") == [""]


def test_a_map_of_which_items_have_yet_to_come_waits_for_what_it_maps_over() -> None:
    item = {"task": "t.t", "as": "x"}
    steps = {"m": {**item, "map": [1, 2, 3]}, "n": {**item, "map": "m"}}
    widths = {"m": 3, "n": 3}
    said = findings(
        steps, {"m": JobCounts(done=2, working=1), "n": JobCounts(done=2)}, widths=widths
    )
    assert said == [
        "Step m is under way: 2 of 3 jobs are done, 1 run.",
        "Step n waits for m (working).",
    ]
    said = findings(steps, {"m": JobCounts(done=3), "n": JobCounts(done=2)}, widths=widths)
    assert len(said) == 1
    assert said[0].startswith("Step n waits for nothing, and is released in a moment")
