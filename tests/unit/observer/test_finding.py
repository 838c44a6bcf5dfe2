"""Finding: what is typed is completed, lists are filtered a little at a time, and moments can be
said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tontine_observer.query.completing import completed
from tontine_observer.query.filters import parse
from tontine_observer.query.searching import Around, sought
from tontine_observer.query.sifting import AT_ONCE, Sieve

KNOWN = {"node": ["ada", "bea"], "task": ["shop.mail", "shop.resize"], "state": ["failed"]}
FIELDS = ["node", "task", "state", "since", "args."]


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("st", "state:"),
        ("state:failed no", "state:failed node:"),
        ("node:a", "node:ada"),
        ("!node:B", "!node:Bea"),
        ("task:shop.r", "task:shop.resize"),
        ("task:shop.mail,shop.r", "task:shop.mail,shop.resize"),
        ("name:be", "name:bea"),
        ("ar", "args."),
        ("state:failed !ar", "state:failed !args."),
        ("node:ada", None),
        ("nothing", None),
        ("", None),
        ("state:failed ", None),
    ],
)
def test_the_last_word_is_completed(typed: str, wanted: str | None) -> None:
    assert completed(typed, FIELDS, KNOWN) == wanted


class Watch:
    """Every look at it takes a moment."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 0.01
        return self.now


def test_a_long_list_is_sifted_a_little_at_a_time() -> None:
    asked: list[int] = []

    def keeps(row: int) -> bool:
        asked.append(row)
        return row % 2 == 0

    sieve = Sieve(range(10 * AT_ONCE), keeps)
    watch = Watch()
    sieve.go_on(watch, 0.015)
    assert len(asked) == 2 * AT_ONCE
    assert not sieve.is_over
    while not sieve.is_over:
        sieve.go_on(watch, 0.015)
    assert asked == [*range(10 * AT_ONCE)]
    assert sieve.kept == [*range(0, 10 * AT_ONCE, 2)]


def test_however_little_time_there_is_it_comes_to_an_end() -> None:
    sieve = Sieve(range(3 * AT_ONCE), lambda _: True)
    rounds = 0
    while not sieve.is_over:
        sieve.go_on(Watch(), 0.0)
        rounds += 1
    assert rounds == 3


Facts = dict[str, str | float | None]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("since:10m", lambda facts: facts["age"] < 600),
        ("until:10m", lambda facts: facts["age"] > 600),
        ("!since:10m", lambda facts: facts["age"] >= 600),
        ("since:2030-01-01T12:00:00+00:00", lambda facts: facts["at"] > 1893499200),
        ("until:2030-01-01T12:00:00+00:00", lambda facts: facts["at"] < 1893499200),
    ],
)
def test_moments_can_be_said(text: str, holds: Callable[[Facts], bool]) -> None:
    chosen = parse(text, frozenset({"since", "until"}))
    assert not chosen.problem
    for facts in ({"age": 5.0, "at": 2e9}, {"age": 6000.0, "at": 1e9}):
        assert chosen.matches(facts) == holds(facts)  # type: ignore[arg-type]


def test_a_moment_that_is_none_is_said_to_be() -> None:
    for text in ("since:soon", "since:0001-01-01T00:00"):  # no zone's clock has the second
        assert "10m" in parse(text, frozenset({"since"})).problem


@pytest.mark.parametrize(
    "text",
    [
        "age>-99999999999999",
        "age<-99999999999999",
        "state:failed since:-99999999999999",
        "since:9999-12-31T23:59-12:00",
        "until:9999-12-31T23:59-12:00",
        "state:failed since:" + 400 * "9",
        "age:-99999999999999..99999999999999",
    ],
)
def test_no_moment_is_too_far_away_to_be_looked_for(text: str) -> None:
    asked = sought(parse(text), Around(datetime(2030, 1, 1, tzinfo=UTC)))
    assert asked.where


def test_arguments_keep_their_spelling_and_are_known_to_nobody_here() -> None:
    chosen = parse("args.userName:Ada", frozenset({"args."}))
    assert chosen.terms[0].field == "args.userName"
    for text in ("args.x:1", "!args.x:1"):
        assert not parse(text, frozenset({"args."})).matches({})
    assert parse("args.x:1", frozenset({"seq"})).problem
