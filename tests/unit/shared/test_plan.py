"""Plans written in Python: the document they make, what is refused, and running one inline."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import plan_tasks
from tontine import ITEM, ConfigError, Module, More, Plan, Reject, TaskCall, call
from tontine.records.states import PlanState
from tontine.testing import EagerQueue, run_plan


def album() -> Plan:
    plan = Plan("album", on_failure="cancel")
    opened = plan.step("shop.open_album", {"album": 7})
    photos = plan.map(
        plan_tasks.fetch, opened["urls"], as_="url", at_once=20, may_fail=True, timeout="30s"
    )
    small = plan.map("shop.resize@>=1", photos, as_="photo", args={"width": 80})
    pack = plan.step("shop.pack", {"photos": small, "title": opened["title"]})
    pack.undo("shop.unpack", {"archive": pack["path"]})
    plan.step("shop.mail", {"to": "ada@example.org"}, after=[pack], delay=5, max_attempts=3)
    plan.step("shop.mail", {"to": "bea@example.org"}, after=[pack])
    plan.returns(pack)
    plan.finally_("shop.close_album", {"album": 7})
    return plan


def test_a_plan_is_the_document_that_any_driver_could_insert() -> None:
    assert album().document() == {
        "name": "album",
        "on_failure": "cancel",
        "returns": "pack",
        "finally": {"task": "shop.close_album", "args": {"album": 7}},
        "steps": {
            "open_album": {"task": "shop.open_album", "args": {"album": 7}},
            "fetch": {
                "task": "shop.fetch",
                "map": "open_album.urls",
                "as": "url",
                "at_once": 20,
                "may_fail": True,
                "timeout": 30.0,
            },
            "resize": {
                "task": "shop.resize@>=1",
                "args": {"width": 80},
                "map": "fetch",
                "as": "photo",
            },
            "pack": {
                "task": "shop.pack",
                "take": {"photos": "resize", "title": "open_album.title"},
                "undo": {"task": "shop.unpack", "take": {"archive": "pack.path"}},
            },
            "mail": {
                "task": "shop.mail",
                "args": {"to": "ada@example.org"},
                "after": ["pack"],
                "delay": 5.0,
                "max_attempts": 3,
            },
            "mail-2": {
                "task": "shop.mail",
                "args": {"to": "bea@example.org"},
                "after": ["pack"],
            },
        },
    }


def test_a_list_of_steps_is_taken_as_a_list() -> None:
    plan = Plan()
    first, second = (plan.step("shop.add", {"x": n}) for n in (1, 2))
    plan.step("shop.total", {"numbers": [first, second["sum"]]})
    assert plan.document()["steps"]["total"]["take"] == {"numbers": ["add", "add-2.sum"]}


def test_a_step_comes_after_one_or_several() -> None:
    plan = Plan("p")
    one = plan.step("t.one")
    two = plan.step("t.two", after=one)
    plan.map("t.three", [1], as_="x", after=[one, two])
    found = [step.get("after") for step in plan.document()["steps"].values()]
    assert found == [None, ["one"], ["one", "two"]]


def test_a_step_deeper_than_an_argument_is_refused() -> None:
    plan = Plan()
    step = plan.step("shop.add", {"x": 1})
    with pytest.raises(ConfigError, match="argument x of step total has step add inside of"):
        plan.step("shop.total", {"x": {"y": [step]}})
    with pytest.raises(ConfigError, match="has step add inside of"):
        plan.map("shop.add", [1, step], as_="x")


resize, fetch = plan_tasks.resize, plan_tasks.fetch


def test_a_map_takes_a_call_in_which_one_argument_is_the_item() -> None:
    wanted = {"task": "shop.resize", "args": {"width": 80}, "map": [1, 2], "as": "photo"}
    plan = Plan()
    plan.map(call(resize, photo=ITEM, width=80), [1, 2])
    plan.map(call(resize, ITEM, 80), [1, 2], as_="photo")
    plan.map(resize, [1, 2], {"photo": ITEM, "width": 80})
    plan.map("shop.resize", [1, 2], {"photo": ITEM, "width": 80})
    assert list(plan.document()["steps"].values()) == [wanted] * 4
    step = plan.map(call(fetch, url="a"), [1, 2], as_="seconds")
    assert plan.document()["steps"][step.name]["as"] == "seconds"
    assert call(fetch, url="a") == TaskCall("shop.fetch", {"url": "a"})


def test_which_argument_gets_the_item_of_a_map_is_checked_at_once() -> None:
    plan = Plan()
    with pytest.raises(ConfigError, match="was 'photo' instead of 'foto' meant"):
        plan.map(resize, [1], as_="foto")
    with pytest.raises(ConfigError, match=r"arguments do not fit shop\.resize"):
        plan.map(call(resize, photo=None), [1], as_="size")
    with pytest.raises(ConfigError, match="one argument that gets the item: give `as_`, or ITEM"):
        plan.map("shop.resize", [1])
    with pytest.raises(ConfigError, match="photo and width cannot both get the item"):
        plan.map(call(resize, photo=ITEM), [1], as_="width")
    with pytest.raises(ConfigError, match="argument photo of step resize is ITEM, or has it"):
        plan.step(call(resize, photo=ITEM))
    with pytest.raises(ConfigError, match="argument photo of step resize is ITEM, or has it"):
        plan.map(call(resize, photo={"path": ITEM}), [1], as_="width")


def test_mistakes_are_said_where_they_are_made() -> None:
    plan = Plan()
    step = plan.step("shop.add", {"x": 1})
    with pytest.raises(ConfigError, match="the plan has a step add already"):
        plan.step("shop.add", name="add")
    with pytest.raises(ConfigError, match="step add belongs to another plan"):
        Plan().step("shop.add", {"x": step})
    with pytest.raises(ConfigError, match="a map goes over a step or a list, not str"):
        plan.map("shop.add", "abc", as_="x")
    with pytest.raises(ConfigError, match="is no task"):
        plan.step(len)
    with pytest.raises(ConfigError, match="it has no `steps`"):
        Plan().document()
    with pytest.raises(ConfigError, match="an EagerQueue has no MongoDB"):
        EagerQueue().submit_plan(plan)


@pytest.mark.parametrize("task", [5, None, b"shop.fetch"])
def test_what_is_no_task_is_told_as_for_jobs(task: Any) -> None:
    plan = Plan()
    plan.step(task)
    with pytest.raises(ConfigError, match="`task` must be a text like"):
        plan.document()


def test_a_plan_runs_inline() -> None:
    ended = run_plan(album(), [plan_tasks.shop])
    assert ended.state is PlanState.DONE, ended.error
    assert ended.result == {"path": "Album 7.zip", "count": 3}
    assert ended.steps["fetch"].done == 3
    assert ended.progress == 1.0


def test_a_plan_that_fails_inline_is_undone_and_may_be_retried() -> None:
    plan = Plan()
    booked = plan.step("shop.book", {"what": "hotel"})
    booked.undo("shop.unbook", {"booking": booked})
    plan.step("shop.need", {"path": "/nowhere"}, after=[booked])
    ended = run_plan(plan, ["tests.support.plan_tasks"])
    assert ended.state is PlanState.UNDONE
    assert ended.error is not None
    assert (ended.error.step, ended.error.type) == ("need", "FileNotFoundError")
    undo = ended.steps["book"].undo
    assert undo is not None
    assert undo.done == 1


def test_added_steps_run_inline() -> None:
    plan = Plan()
    ahead = plan.step("shop.plan_ahead", {"photos": 3})
    plan.step("shop.add", {"x": ahead}, name="last")
    ended = run_plan(plan, [plan_tasks.shop])
    assert (ended.state, ended.result) == (PlanState.DONE, 3)
    assert ended.steps["plan_ahead:total"].state == "done"
    assert More(1, Plan()).result == 1


def test_what_became_of_finally_and_why_what_failed_is_told_inline() -> None:
    shop = Module("shop")

    @shop.task
    def fine(x: int = 0) -> int:
        return x

    @shop.task
    def fails() -> None:
        raise ValueError("no luck")

    plan = Plan()
    plan.step("shop.fails", name="first")
    plan.map("shop.fine", [1, 2], as_="x", name="items")
    plan.finally_("shop.fine")
    ended = run_plan(plan, [shop], retries=1)
    assert ended.closing is not None
    assert (ended.closing.state, ended.closing.done) == ("done", 1)
    why = ended.steps["first"].jobs.failure
    assert why is not None
    assert (why.type, why.message, why.step) == ("ValueError", "no luck", "first")
    items = ended.steps["items"].jobs
    assert items.stopped == items.cancelled


def test_too_many_added_steps_stop_a_plan_inline() -> None:
    shop = Module("shop")

    @shop.task
    def fine() -> None: ...

    @shop.task
    def many() -> More:
        more = Plan()
        for n in range(1000):
            more.step("shop.fine", name=f"s{n}")
        return More(None, more)

    plan = Plan()
    plan.step("shop.many")
    ended = run_plan(plan, [shop])
    assert ended.state is PlanState.FAILED
    assert ended.error is not None
    assert ended.error.message == "it adds 1,000 steps to 1, and a plan may have 1,000"


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"map": "get.no", "as": "x"}, "it maps over get.no, which must be an array, and is miss"),
        ({"map": "get", "as": "x"}, "it maps over get, which must be an array, and is object"),
        ({"map": "get.title", "as": "x"}, "it maps over get.title, which must be an array, and i"),
        ({"take": {"x": "get.no"}}, "it takes get.no, but the result of get has no field 'no'"),
    ],
)
def test_what_cannot_be_released_inline_stops_it(step: dict[str, Any], sentence: str) -> None:
    steps = {
        "get": {"task": "shop.open_album", "args": {"album": 1}},
        "put": {"task": "shop.add", **step},
    }
    ended = run_plan({"steps": steps}, [plan_tasks.shop])
    assert ended.state is PlanState.FAILED
    assert ended.error is not None
    assert ended.error.message.startswith(sentence)


def test_an_item_that_cannot_be_released_inline_is_named_and_no_other() -> None:
    """As nodes do: what all items take is not the fault of one."""
    shop = Module("odd")

    @shop.task
    def some(text: str, more: Any = None) -> dict[str, str]:
        return {} if text == "b" else {"at": text}

    get = {"task": "odd.some", "map": ["a", "b", "c"], "as": "text"}
    put = {"task": "odd.some", "map": "get.at", "as": "text"}
    own = run_plan({"steps": {"get": get, "put": put}}, [shop]).error
    assert own is not None
    assert (own.step, own.item) == ("put", 1)
    one = {"task": "odd.some", "args": {"text": "b"}}
    every = run_plan({"steps": {"one": one, "put": {**get, "take": {"more": "one.at"}}}}, [shop])
    assert every.error is not None
    assert (every.error.step, every.error.item) == ("put", None)


@pytest.mark.parametrize("kind", ["item", "undo", "no plan", "no steps", "finally"])
def test_more_that_cannot_be_fails_its_attempt_inline(kind: str) -> None:
    shop = Module("more")
    good = Plan()
    good.step("more.fine")
    closing = Plan()
    closing.step("more.fine")
    closing.finally_("more.fine")
    given: dict[str, Any] = {"no plan": None, "no steps": Plan(), "finally": closing}

    @shop.task
    def fine() -> None: ...

    @shop.task
    def more(x: int = 0) -> More:
        return More(x, given.get(kind, good))

    plan = Plan()
    if kind == "item":
        plan.map("more.more", [1], as_="x")
    else:
        step = plan.step("more.fine" if kind == "undo" else "more.more", name="first")
        step.undo("more.more")
        plan.step("more.none", after=step)
    ended = run_plan(plan, [shop])
    if kind == "undo":
        assert ended.state is PlanState.STUCK
        return
    assert ended.state is PlanState.FAILED
    assert ended.error is not None
    assert ended.error.type == "InvalidMore"


def test_a_result_that_cannot_be_stored_fails_its_attempt_inline() -> None:
    shop = Module("odd")

    @shop.task
    def odd() -> object:
        return object()

    ended = run_plan({"steps": {"a": {"task": "odd.odd"}}}, [shop])
    assert ended.state is PlanState.FAILED
    assert ended.error is not None
    assert ended.error.type == "UnstorableResult"


@pytest.mark.long
def test_an_argument_takes_a_thousand_results_inline_and_a_stream_any_number() -> None:
    plan = Plan()
    numbers = plan.map("shop.add", list(range(1_001)), as_="x")
    plan.step("shop.sip", {"results": numbers.stream()})
    plan.returns(numbers)
    ended = run_plan(plan, [plan_tasks.shop])
    assert (ended.state, ended.result) == (PlanState.DONE, None), "as with nodes"
    plan.step("shop.total", {"numbers": numbers})
    ended = run_plan(plan, [plan_tasks.shop])
    assert ended.state is PlanState.FAILED
    assert ended.error is not None
    assert (ended.error.type, ended.error.step) == ("InvalidStep", "total")
    assert ended.error.message == (
        "it takes the results of add, which has 1,001 items, and 1,000 fit into one argument: "
        "use `stream`"
    )


def test_a_stream_of_a_mapped_step_is_read_inline() -> None:
    plan = Plan()
    numbers = plan.map("shop.add", list(range(5)), as_="x", args={"y": 1})
    plan.step("shop.sip", {"results": numbers.stream()})
    plan.step("shop.sip_async", {"results": numbers.stream()})
    plan.returns(plan.steps["sip_async"])
    assert plan.document()["steps"]["sip"]["stream"] == {"results": "add"}
    ended = run_plan(plan, [plan_tasks.shop])
    assert (ended.state, ended.result) == (PlanState.DONE, [1, 2, 3, 4, 5]), ended.error


def test_what_cannot_be_streamed_is_refused_where_it_is_written() -> None:
    plan = Plan()
    numbers = plan.map("shop.add", [1], as_="x")
    with pytest.raises(ConfigError, match="has step add inside of something else"):
        plan.step("shop.total", {"numbers": [1, numbers.stream()]})
    with pytest.raises(ConfigError, match="the undo of step add streams, but only steps can"):
        numbers.undo("shop.unbook", {"booking": numbers.stream()})
    single = plan.step("shop.add", {"x": 1})
    plan.step("shop.sip", {"results": single.stream()})
    with pytest.raises(ConfigError, match="step sip streams add-2, but only a mapped step"):
        plan.document()


def test_an_undo_that_cannot_be_released_holds_back_no_other_inline() -> None:
    shop = Module("inline")
    ran: list[str] = []

    @shop.task
    def note(name: str) -> dict[str, str]:
        ran.append(name)
        if name == "bad":
            raise Reject("no")
        return {"name": name}

    plan = Plan()
    one = plan.step("inline.note", {"name": "one"}, name="one")
    one.undo("inline.note", {"name": one["gone"]})
    two = plan.step("inline.note", {"name": "two"}, name="two")
    two.undo("inline.note", {"name": "not two"})
    plan.step("inline.note", {"name": "bad"}, name="bad", after=[one, two])
    ended = run_plan(plan, [shop])
    assert ended.state is PlanState.STUCK
    assert ran[-1] == "not two"
    assert ended.error is not None
    assert (ended.error.step, ended.error.type) == ("one", "InvalidStep")
