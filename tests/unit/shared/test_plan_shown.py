"""A plan drawn for people: rails, bars, the way back, what went wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine.cli.plan_tree import dot, tree
from tontine.legible import legible
from tontine.records.plan import PlanError, PlanRecord, StepRecord
from tontine.records.plan_status import JobCounts, PlanStatus, StepStatus
from tontine.rules.plan_rails import next_steps, rails
from tontine.rules.plan_shown import bar_parts, drawn_steps, jobs_told, undo_told

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def steps_of(order: dict[str, str]) -> dict[str, StepRecord]:
    return {
        name: StepRecord(name, "t.do", after=tuple(after.split())) for name, after in order.items()
    }


def drawing(order: dict[str, str]) -> list[str]:
    return [f"{row.left}*{row.right} {row.name}" for row in rails(steps_of(order))]


@pytest.mark.parametrize(
    ("order", "drawn"),
    [
        ({"a": "", "b": "a", "c": "b"}, ["* a", "* b", "* c"]),
        (
            {"open": "", "fetch": "open", "look": "open", "pack": "fetch look", "mail": "pack"},
            ["*     open", "├─*─╮ fetch", "╰─*─┤ look", "*───╯ pack", "*     mail"],
        ),
        ({"a": "", "b": "", "c": "a b"}, ["╭─*─╮ a", "╰─*─┤ b", "*───╯ c"]),
        (
            {"a": "", "b": "a", "c": "a", "d": "b", "e": "c", "f": "d e", "g": "a"},
            ["*     a", "├─*   b", "│ *─╮ d", "├─* │ c", "│ *─┤ e", "│ *─╯ f", "╰─*   g"],
        ),
        ({"a": "", "b": "a", "c": "a b"}, ["* a", "* b", "* c"]),  # that follows from the rest
        ({"a": "", "a:x": "", "b": "a"}, ["* a", "* a:x", "* b"]),  # a has added a:x
    ],
)
def test_steps_are_drawn_on_rails(order: dict[str, str], drawn: list[str]) -> None:
    assert drawing(order) == drawn


orders = st.integers(0, 14).flatmap(
    lambda size: st.tuples(*(st.sets(st.integers(0, 14), max_size=4) for _ in range(size)))
)


@given(orders, st.booleans())
def test_any_steps_have_a_row_each_after_those_they_come_after(
    found: tuple[set[int], ...], has_order: bool
) -> None:
    """With steps that wait for themselves, and for what is not there, too: nobody accepted them."""
    order = {
        f"s{place}": " ".join(f"s{one}" for one in before if one < place or not has_order)
        for place, before in enumerate(found)
    }
    steps = steps_of(order)
    rows = rails(steps)
    places = {row.name: place for place, row in enumerate(rows)}
    assert sorted(places) == sorted(steps)
    assert len({len(row.left + row.right) for row in rows}) <= 1
    assert all(set(row.left + row.right + row.below) <= set(" │─├╭╰┤╮╯┴┼") for row in rows)
    following = next_steps(steps)
    assert all(places[name] < places[one] for name, ahead in following.items() for one in ahead)
    if has_order:
        for name, step in steps.items():  # each of them can be reached over what is drawn
            for earlier in step.before & steps.keys():
                ahead, seen = [earlier], set[str]()
                while ahead:
                    seen.add(one := ahead.pop())
                    ahead += following[one]
                assert name in seen


counts = st.integers(0, 100_000)


@given(counts, counts, counts, counts, st.none() | counts, st.integers(5, 40))
def test_a_bar_is_as_wide_as_it_should_be_and_hides_nothing(
    done: int, failed: int, working: int, queued: int, ahead: int | None, width: int
) -> None:
    jobs = JobCounts(done=done, failed=failed, working=working, queued=queued)
    total = None if ahead is None else jobs.all + ahead
    parts = dict(bar_parts(StepStatus("s", "t.do", "working", done, total, True, jobs=jobs), width))
    assert sum(parts.values()) == width
    for kind, number in (("failed", failed), ("working", working), ("queued", queued)):
        assert (kind in parts) == (number > 0)


def plan_of(**more: object) -> PlanRecord:
    steps = {"one": {"task": "t.do", "undo": {"task": "t.undo"}}}
    return PlanRecord.from_document(
        {"_id": 1, "seq": 17, "state": "undoing", "steps": steps} | more
    )


@pytest.mark.parametrize(
    ("undo", "listed", "state", "told"),
    [
        (None, [], "undoing", ""),
        (None, ["one"], "undoing", "to be undone"),
        (None, ["one"], "stuck", "not undone"),
        (JobCounts(working=1), ["one"], "undoing", "undoing"),
        (JobCounts(done=1), ["one"], "undone", "undone"),
        (JobCounts(failed=1), ["one"], "stuck", "undo failed"),
        (JobCounts(cancelled=1), ["one"], "stuck", "undo cancelled"),
    ],
)
def test_the_way_back_is_told(
    undo: JobCounts | None, listed: list[str], state: str, told: str
) -> None:
    plan = plan_of(undo=listed, state=state)
    step = PlanStatus.of(plan, {("step", "one"): JobCounts(done=1)}).steps["one"]
    assert undo_told(plan, replace(step, undo=undo)) == told


def test_the_way_back_of_a_map_is_counted_by_what_was_done() -> None:
    plan = plan_of(undo=["one"])
    step = StepStatus("one", "t.do", "done", 9, 10, True, undo=JobCounts(done=2, working=1))
    assert undo_told(plan, step) == "undoing, 2 of 9"


def test_an_error_is_told_under_its_step_with_its_job() -> None:
    steps = {"list": {"task": "t.list"}, "get": {"task": "t.get", "map": "list", "as": "x"}}
    why = PlanError("OSError", "late \x1b[2J", "get", 4711, 99)
    plan = plan_of(steps=steps, state="running", widths={"get": 10_000})
    jobs = JobCounts(done=5000, failed=1, queued=10, failure=why, started_at=NOW)
    status = PlanStatus.of(plan, {("step", "get"): jobs})
    _, get = drawn_steps(plan, status, NOW + timedelta(seconds=3), legible)
    first, second = ("".join(text for text, _ in line) for line in get.lines)
    assert first.startswith("● get   working")
    assert first.endswith("5,000 of 10,000, 1 failed, 10 queued  3.0 s")
    assert second.endswith("item 4,711 #99: OSError: late \\e[2J")
    assert jobs_told(status.steps["get"])[0] == ("done", "5,000 of 10,000")


def long_plan(number: int) -> tuple[PlanRecord, PlanStatus]:
    steps = {f"s{n}": {"task": "t", "after": [f"s{n - 1}"] if n else []} for n in range(number)}
    plan = plan_of(steps=steps, state="running")
    counts = {("step", f"s{n}"): JobCounts(done=1) for n in range(number // 2)}
    return plan, PlanStatus.of(plan, counts)


@pytest.mark.parametrize("room", [3, 10, 23, 200])
def test_of_a_long_plan_what_is_under_way_is_in_sight(room: int) -> None:
    lines = [line.plain for line in tree(*long_plan(60), NOW, room)]
    assert len(lines) <= max(room, 4)
    assert any("s30 " in line for line in lines) or room == 3
    assert (len(lines) < 61) == any(line.strip().startswith("...") for line in lines)


def test_a_graph_survives_any_name() -> None:
    steps = {'a"b': {"task": "t"}, "c\\": {"task": "t", "after": ['a"b']}}
    plan = plan_of(steps=steps, state="running", name='x"y', **{"finally": {"task": "t.end"}})
    drawn = dot(plan, PlanStatus.of(plan, {}))
    assert '"a\\"b" -> "c\\\\";' in drawn
    assert '"c\\\\" -> "~finally" [style=dashed];' in drawn
    assert 'digraph "plan 17 x\\"y" {' in drawn


def test_a_step_that_is_called_finally_is_another_box_than_the_end() -> None:
    steps = {"finally": {"task": "t.last"}}
    plan = plan_of(steps=steps, state="running", **{"finally": {"task": "t.end"}})
    drawn = dot(plan, PlanStatus.of(plan, {}))
    assert '"finally" -> "~finally" [style=dashed];' in drawn
    assert '"~finally" [label="finally' in drawn


@pytest.mark.parametrize(
    ("state", "shown"),
    [("running", "working"), ("stopping", "cancelled"), ("undone", "cancelled")],
)
def test_a_map_of_which_no_more_jobs_will_come_is_not_working(state: str, shown: str) -> None:
    """With `at_once`, the rest is not there when its plan stops."""
    steps = {"m": {"task": "t.do", "map": [1, 2, 3, 4], "as": "x", "at_once": 2}}
    plan = plan_of(steps=steps, state=state, widths={"m": 4})
    jobs = JobCounts(done=1, cancelled=1, stopped=1)
    assert PlanStatus.of(plan, {("step", "m"): jobs}).steps["m"].state == shown
