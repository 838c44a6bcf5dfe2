"""Text for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tontine.legible import ago, count, duration, legible, legible_lines

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢", "plain ü 漢"),
        ("a\x1b[31mb", "a\\e[31mb"),
        ("\x9b31m", "\\x9b31m"),
        ("one\ntwo\r\t", "one\\ntwo\\r\\t"),
        ("\u202eevil\u2069", "\\u202eevil\\u2069"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("\x00\x7f", "\\x00\\x7f"),
    ],
)
def test_what_a_terminal_would_obey_becomes_visible(text: str, shown: str) -> None:
    assert legible(text) == shown


def test_long_text_is_cut() -> None:
    assert legible("x" * 50, 10) == "x" * 9 + "…"


def test_lines_stay_lines() -> None:
    assert legible_lines("a\n\tb\x1b\r\n") == "a\n    b\\e\\r\n"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (119, "119 s"),
        (180, "3 min"),
        (7500, "2 h 5 min"),
        (864000, "10 d"),
    ],
)
def test_durations_use_the_units_that_matter(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_moments_are_seen_from_now() -> None:
    assert ago(NOW - timedelta(seconds=3), NOW) == "3 s ago"
    assert ago(NOW + timedelta(minutes=5), NOW) == "in 5 min"
    assert ago(NOW, NOW) == "now"
    assert ago(None, NOW) == "-"
    assert ago("soon\x1b", NOW) == "soon\\e"


def test_counts_have_their_noun() -> None:
    assert (count(1, "job"), count(12000, "job"), count(0, "job")) == (
        "1 job",
        "12,000 jobs",
        "0 jobs",
    )
