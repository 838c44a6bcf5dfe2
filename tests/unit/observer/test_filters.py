"""The filter language and the order of rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine_observer.query.filters import parse
from tontine_observer.query.sorting import Order, ordered, place_of

FACTS: dict[str, str | float | None] = {
    "state": "failed",
    "node": "node-07",
    "seq": 4850.0,
    "error": "Timeout: upstream",
    "age": 31.5,
    "rank": None,
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("state:failed", True),
        ("state:done,failed", True),
        ("state:done", False),
        ("!state:done", True),
        ("node:07", True),
        ("id:4800..4900", True),
        ("seq:..4849", False),
        ("seq:4850", True),
        ("seq:#4850", True),
        ("seq:48", False),
        ("err~timeout", True),
        ("!err~timeout", False),
        ('err:"timeout: up"', True),
        ("age>30s", True),
        ("age>1m", False),
        ("age<0.6m", True),
        ("upstream", True),
        ("!upstream", False),
        ("4850", True),
        ("rank:1", False),
        ("!rank:1", True),
        ("state:failed node:08", False),
        ("STATE:Failed", True),
        ("state:", True),
    ],
)
def test_a_filter_keeps_what_it_says(text: str, holds: bool) -> None:
    assert parse(text).matches(FACTS) is holds


def test_a_filter_that_cannot_be_read_says_so_and_hides_nothing() -> None:
    wrong = parse("colour:red", frozenset({"state", "node"}))
    assert wrong.problem == "no field 'colour' here: node, state"
    assert not wrong
    assert wrong.matches(FACTS)
    assert "30s" in parse("age>soon").problem


@given(st.text(max_size=30))
def test_anything_can_be_typed(text: str) -> None:
    parse(text).matches(FACTS)


def test_what_no_row_has_is_for_the_store() -> None:
    assert parse("args.User:7").is_for_the_store
    assert not parse("state:failed,done x").is_for_the_store


def test_rows_are_sorted_by_a_fact_and_those_without_it_come_last() -> None:
    rows = [("a", 3.0), ("b", None), ("c", 1.0)]

    def facts(row: tuple[str, float | None]) -> dict[str, str | float | None]:
        return {"node": row[0], "age": row[1]}

    def names(order: Order) -> str:
        return "".join(row[0] for row in ordered(rows, facts, order))

    assert names(Order()) == "abc"
    assert names(Order("age")) == "cab"
    assert names(Order("age", True)) == "acb"
    assert names(Order("node", True)) == "cba"


def test_sort_goes_through_the_columns_and_back_to_none() -> None:
    order = Order()
    seen = [order := order.next(["name", "age"]) for _ in range(3)]
    assert [one.fact for one in seen] == ["name", "age", ""]
    assert Order("age").turned() == Order("age", True)


def test_the_cursor_stays_on_its_row_when_rows_move() -> None:
    assert place_of(["c", "a", "b"], "a", 0) == 1
    assert place_of(["c", "b"], "a", 5) == 1
    assert place_of([], "a", 5) == 0
