"""What cannot be a plan is refused, with the words that people read."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine.records.plan import PlanRecord
from tontine.rules.plan_check import problem
from tontine.rules.plan_graph import PlanGraph, find_cycle

GET: dict[str, Any] = {"task": "shop.get"}


def steps(**some: Any) -> dict[str, Any]:
    return {"steps": {"get": GET, **some}}


def pack(**fields: Any) -> dict[str, Any]:
    return steps(
        small={"task": "shop.resize", "map": "get", "as": "photo"},
        pack={"task": "shop.pack", **fields},
    )


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "it has no `steps`: name at least one, like {get: {task: …}}"),
    ({"steps": {}}, "it has no `steps`: name at least one, like {get: {task: …}}"),
    ({"steps": []}, "`steps` must be an object with the steps by name, not an array"),
    (
        {"steps": {f"s{n}": GET for n in range(1001)}},
        "it has 1,001 steps, and a plan may have 1,000",
    ),
    (
        steps(**{"a b": GET}),
        "a step cannot be called a b: a name is 1 to 64 letters, digits, `_` and `-`",
    ),
    (
        steps(**{"get:more": GET}),
        "a step cannot be called get:more: a name is 1 to 64 letters, digits, `_` and `-`",
    ),
    (pack(task=None), 'step pack: `task` must be a text like "shop.resize", not null'),
    (
        steps(put={}),
        'step put: it has no `task`: name the task to run, like "shop.resize"',
    ),
    (
        steps(put={"task": "put"}),
        "step put: `task` must be like \"shop.resize\", its module and its own name, not 'put'",
    ),
    (
        {**steps(), "finally": {"task": "shop.close", "map": [1], "as": "x"}},
        "`finally` has `map`, which only a step can have",
    ),
    (
        {**steps(), "finally": {"task": "shop.close", "stream": {"all": "get"}}},
        "`finally` has `stream`, but only steps and undos can take",
    ),
    (
        pack(undo={"task": "shop.unpack", "max_attempts": 5}),
        "step pack: its undo: it has `max_attempts`, which only a step can have",
    ),
    (steps(put=1), "step put: it must be an object like {task: …}, not int 1"),
    (
        pack(args=[]),
        "step pack: `args` must be an object with the task's keyword arguments, not an array",
    ),
    (pack(timeout=0), "step pack: `timeout` must be a number of seconds above zero and below"),
    (pack(after="get"), "step pack: `after` must be an array of steps' names, not the text 'get'"),
    (pack(take={"a": 1}), "step pack: `take.a` must name a step, not int 1"),
    (pack(take=["get"]), "step pack: `take` must be an object like {argument: step}, not an array"),
    (pack(map=7), 'step pack: `map` must be a step, like "get" or "get.urls", or an array, not'),
    (pack(may_fail=1.5), "step pack: `may_fail` must be true or false, not float 1.5"),
    (pack(may_fail=1), "step pack: `may_fail` must be true or false, not int 1"),
    (pack(delay="soon"), "step pack: `delay` must be a number of seconds from 0 to a century"),
    (
        pack(take={"photos": "smal"}),
        "step pack takes from smal, which is no step: is small meant?",
    ),
    (pack(take={"photos": ["get", "xyz.f"]}), "step pack takes from xyz, which is no step"),
    (pack(after=["gett"]), "step pack comes after gett, which is no step: is get meant?"),
    (pack(stream={"a": "smal"}), "step pack streams smal, which is no step: is small meant?"),
    (pack(map="gets.urls", **{"as": "u"}), "step pack maps over gets, which is no step: is get"),
    (steps() | {"returns": "got"}, "`returns` names got, which is no step: is get meant?"),
    (
        steps(
            resize={"task": "shop.resize", "after": ["pack"]},
            pack={"task": "shop.pack", "take": {"a": "resize"}},
        ),
        "steps wait for each other: pack → resize → pack",
    ),
    (pack(after=["pack"]), "steps wait for each other: pack → pack"),
    (pack(**{"as": "photo"}), "step pack has `as` but maps over nothing"),
    (pack(chunk=3), "step pack has `chunk` but maps over nothing"),
    (pack(at_once=3), "step pack has `at_once` but maps over nothing"),
    (pack(map="get.urls"), "step pack maps over get.urls without `as`: which argument gets the"),
    (pack(args={"photos": 1}, take={"photos": "small"}), "step pack gets photos twice"),
    (pack(map=[1], args={"p": 1}, **{"as": "p"}), "step pack gets p twice"),
    (
        pack(stream={"a": "get"}),
        "step pack streams get, but only a mapped step can be streamed: `take` its result",
    ),
    (
        pack(stream={"a": "small.path"}),
        "step pack streams small.path, but only whole results can be streamed: name small",
    ),
    (pack(args={"a": 1}, stream={"a": "small"}), "step pack gets a twice"),
    (pack(take={"a": "get"}, stream={"a": "small"}), "step pack gets a twice"),
    (
        pack(undo={"task": "shop.undo", "stream": {"a": "small"}}),
        "step pack: its undo: it has `stream`, but only steps can stream",
    ),
    (
        pack(map=[1], **{"as": "p"}, undo={"task": "shop.undo", "when": "begun"}),
        'step pack has an undo with `when: "begun"`, which only a step that is not mapped can',
    ),
    (
        steps() | {"finally": {"task": "shop.close", "delay": 1e300}},
        "`finally`: `delay` must be a number of seconds from 0 to a century",
    ),
    (
        steps() | {"finally": {"task": "shop.close", "take": {"a": "get"}}},
        "`finally` has `take`, but only steps and undos can take",
    ),
    (
        pack(map="small", chunk=2, **{"as": "p"}),
        "step pack has `chunk`, which goes only with a map over an array or over the result of",
    ),
    (
        steps(
            put={"task": "shop.put", "undo": {"task": "shop.del", "take": {"a": "late"}}},
            late={"task": "shop.late", "after": ["put"]},
        ),
        "the undo of step put takes from late, but only from its own step and from what that",
    ),
    (steps() | {"priority": 1, "tenant": "ada"}, "`priority` does not go with `tenant`"),
    (steps() | {"key": 7}, "`key` must be a text, not int 7"),
    (steps() | {"on_failure": "stop"}, '`on_failure` must be "finish" or "cancel", not'),
]


@pytest.mark.parametrize(("document", "sentence"), REFUSED)
def test_a_mistake_is_said_in_one_sentence(document: dict[str, Any], sentence: str) -> None:
    found = problem(document)
    assert found is not None
    assert found.startswith(sentence)


def test_a_plan_of_more_than_a_megabyte_is_refused() -> None:
    assert (problem(steps(), 2**21) or "").startswith("it has 2,097,152 bytes, and a plan")


def test_what_can_be_a_plan_is_one() -> None:
    whole = pack(
        take={"photos": "small", "title": "get.title", "all": ["get", "small.path"]},
        after=["get"],
        undo={"task": "shop.unpack", "take": {"archive": "pack.path"}},
        delay=1.5,
        max_attempts=3,
    )
    whole |= {"name": "album", "finally": {"task": "shop.close"}, "returns": "pack"}
    assert problem(whole, 1000) is None


WILD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["task", "args", "take", "after", "map", "as", "undo", "steps", "get", "stream"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(WILD)
def test_whatever_somebody_writes_there_it_is_read_and_judged(wild: Any) -> None:
    document = {"_id": 1, "steps": wild, "finally": wild, "key": wild, "state": wild, "undo": wild}
    found = problem(document)
    assert found is None or found
    PlanRecord.from_document(document)


@given(st.dictionaries(st.integers(0, 8).map(str), st.sets(st.integers(0, 8).map(str))))
def test_a_cycle_is_found_if_there_is_one(waits: dict[str, set[str]]) -> None:
    cycle = find_cycle(waits)
    if cycle is not None:
        assert cycle[0] == cycle[-1]
        for earlier, later in pairwise(cycle):
            assert earlier in waits[later]
        return
    left = dict(waits)
    while left:  # without one, some step waits for nobody that is left
        free = [name for name, names in left.items() if not names & left.keys()]
        assert free
        for name in free:
            del left[name]


def test_what_comes_after_a_step_comes_after_those_that_it_added() -> None:
    plan = PlanRecord.from_document(
        steps(
            put={"task": "shop.put", "after": ["get"]},
            **{"get:a": {"task": "shop.a"}, "get:b": {"task": "shop.b", "after": ["get:a"]}},
        )
    )
    graph = PlanGraph(plan.steps)
    assert graph.later("get") == {"get:a", "get:b", "put"}
    assert graph.next_of("get:b") == ("put",)
    assert graph.last == ("put",)
    assert not graph.is_last("get:a")
    assert graph.earlier("put") == {"get", "get:a", "get:b"}


def test_a_thousand_steps_that_were_added_one_by_one_are_put_in_order_at_once() -> None:
    names = [":".join(["a"] * depth) for depth in range(1, 1001)]
    document = steps(**{name: {"task": "shop.a"} for name in names})
    document["steps"]["end"] = {"task": "shop.end", "after": ["a"]}
    graph = PlanGraph(PlanRecord.from_document(document).steps)
    assert len(graph.later("a")) == 1000
    assert graph.later(names[-1]) == {"end"}


@given(st.data())
def test_what_comes_later_is_what_can_be_reached(data: st.DataObject) -> None:
    names = [f"s{n}" for n in range(data.draw(st.integers(1, 8)))]
    drawn: dict[str, Any] = {}
    for number, name in enumerate(names):
        after = data.draw(st.lists(st.sampled_from(names[:number] or [""]), unique=True))
        drawn[name] = {"task": "t.a", "after": [one for one in after if one]}
        if data.draw(st.booleans()):
            drawn[f"{name}:k"] = {"task": "t.a"}
    graph = PlanGraph(PlanRecord.from_document({"steps": drawn}).steps)
    for name in graph.steps:
        seen: set[str] = set()
        ahead = [name]
        while ahead:
            one = ahead.pop()
            direct = {*graph.next_of(one), *graph.children[one]} - seen
            seen |= direct
            ahead += direct
        assert graph.later(name) == seen - {name}
