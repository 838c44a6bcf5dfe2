"""The record of what ran is judged against itself and the documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tontine.audit.runs import Runs
from tontine.errors import ConfigError


def record(*lines: tuple[int, int, str, float, int]) -> Runs:
    names = ("seq", "attempt", "event", "at", "pid")
    return Runs.read(json.dumps(dict(zip(names, line, strict=True))) + "\n" for line in lines)


def judged(runs: Runs, frozen: frozenset[int] = frozenset()) -> list[str]:
    return [found.invariant for found in runs.judge(frozen)]


def test_runs_one_after_another_pass() -> None:
    runs = record((1, 1, "began", 0, 10), (1, 2, "began", 5, 11), (1, 2, "ended", 6, 11), (2, 1, "began", 0, 10))
    assert judged(runs) == []
    assert (runs.total, runs.repeated) == (3, 1)


def test_two_at_a_time_are_caught_unless_one_was_frozen() -> None:
    runs = record((1, 1, "began", 0, 10), (1, 2, "began", 5, 11), (1, 1, "ended", 6, 10), (1, 2, "ended", 7, 11))
    assert judged(runs) == ["S3"]
    assert judged(runs, frozenset({10})) == []


def test_a_run_that_met_another_is_caught_unless_one_was_frozen() -> None:
    runs = record((1, 1, "began", 0, 10))
    runs.add({"seq": 1, "attempt": 2, "event": "met", "at": 1, "pid": 11, "other": 10})
    assert judged(runs) == ["S3"]
    assert judged(runs, frozenset({10})) == []


def test_an_attempt_that_ran_twice_is_caught() -> None:
    assert judged(record((1, 1, "began", 0, 10), (1, 1, "ended", 1, 10), (1, 1, "began", 2, 11))) == ["S4"]


@pytest.mark.parametrize(
    ("document", "invariants"),
    [
        ({"state": "done", "attempt": 2}, []),
        ({"state": "done", "attempt": 1}, ["S4", "S2"]),
        ({"state": "done", "attempt": 3}, ["S2"]),
        ({"state": "queued", "attempt": 1}, ["S4"]),
        ({"state": "failed", "attempt": 4}, []),
    ],
)
def test_documents_must_agree_with_what_ran(document: dict[str, Any], invariants: list[str]) -> None:
    runs = record((1, 1, "began", 0, 10), (1, 2, "began", 5, 11), (1, 2, "ended", 6, 11))
    assert [found.invariant for found in runs.judge_job({"seq": 1, **document})] == invariants


def test_a_done_job_that_never_ran_is_caught() -> None:
    assert [found.invariant for found in Runs().judge_job({"seq": 9, "state": "done", "attempt": 1})] == ["S2"]


def test_a_line_cut_short_is_passed_over_and_a_wrong_one_is_not() -> None:
    good = json.dumps({"seq": 1, "attempt": 1, "event": "began", "at": 0, "pid": 1}) + "\n"
    assert Runs.read([good, '{"seq": 2, "att']).total == 1
    with pytest.raises(ConfigError, match=r"line 2 .* 'sang' is none of began, ended, met"):
        Runs.read([good, good.replace("began", "sang")])
