"""The record of what ran is judged against itself and the documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tontine.diagnose.audit.record import Record
from tontine.diagnose.audit.runs import Runs, Spell
from tontine.errors import ConfigError


def record(*lines: tuple[int, int, str, float, int]) -> Runs:
    names = ("seq", "attempt", "event", "at", "pid")
    return Runs.read(json.dumps(dict(zip(names, line, strict=True))) + "\n" for line in lines)


def judged(runs: Runs, *frozen: Spell) -> list[str]:
    return [found.invariant for found in runs.judge(frozen)]


def test_runs_one_after_another_pass() -> None:
    runs = record(
        (1, 1, "began", 0, 10),
        (1, 2, "began", 5, 11),
        (1, 2, "ended", 6, 11),
        (2, 1, "began", 0, 10),
    )
    assert judged(runs) == []
    assert (runs.total, runs.repeated) == (3, 1)


def test_two_at_a_time_are_caught_unless_one_was_frozen_then() -> None:
    runs = record(
        (1, 1, "began", 0, 10),
        (1, 2, "began", 50, 11),
        (1, 1, "ended", 60, 10),
        (1, 2, "ended", 70, 11),
    )
    assert judged(runs) == ["S3"]
    assert judged(runs, Spell(10, 5, 55)) == []
    assert judged(runs, Spell(10, 5, 49)) == [], "it needs a moment to end itself"
    assert judged(runs, Spell(10, 5, 40)) == ["S3"]
    assert judged(runs, Spell(11, 61, 69)) == ["S3"]
    assert judged(runs, Spell(12, 5, 55)) == ["S3"]


def test_runs_on_both_sides_of_a_short_one_are_compared() -> None:
    long = [(1, 1, "began", 0, 10), (1, 1, "ended", 9, 10)]
    short = [(1, 2, "began", 1, 11), (1, 2, "ended", 2, 11)]
    assert judged(record(*long, *short, (1, 3, "began", 5, 12), (1, 3, "ended", 6, 12))) == [
        "S3",
        "S3",
    ]
    frozen = Spell(11, 1, 2)
    assert judged(
        record(*long, *short, (1, 3, "began", 5, 12), (1, 3, "ended", 6, 12)), frozen
    ) == ["S3"]


def test_a_run_that_met_another_is_caught_unless_one_was_frozen_then() -> None:
    runs = record((1, 1, "began", 0, 10))
    runs.add({"seq": 1, "attempt": 2, "event": "met", "at": 50, "pid": 11, "other": 10})
    assert judged(runs) == ["S3"]
    assert judged(runs, Spell(10, 5, 49)) == []
    assert judged(runs, Spell(11, 5, 49)) == []
    assert judged(runs, Spell(10, 5, 40)) == ["S3"]
    assert len(runs.meetings) == 1


def test_an_end_without_its_beginning_is_a_run_all_the_same() -> None:
    runs = record((1, 1, "ended", 3, 10))
    assert (runs.total, runs.repeated) == (1, 0)
    assert list(runs.judge_job({"seq": 1, "state": "done", "attempt": 1})) == []


def test_a_record_that_grows_while_documents_are_read_is_judged_fairly() -> None:
    began, ended = (1, 1, "began", 0.0, 10), (1, 1, "ended", 1.0, 10)
    later = iter([record(began), record(began, ended)])
    growing = Record(lambda: next(later))
    assert list(growing.see({"seq": 1, "state": "done", "attempt": 1})) == []
    assert growing.conclude() == (1, [])
    never = Record(lambda: record(began))
    assert list(never.see({"seq": 1, "state": "done", "attempt": 1})) == []
    assert list(never.see({"seq": 2, "state": "done", "attempt": 1})) == [], (
        "another node's, perhaps"
    )
    assert [found.invariant for found in never.conclude()[1]] == ["S2"]
    assert [
        found.invariant for found in never.see({"seq": 1, "state": "queued", "attempt": 0})
    ] == ["S4"]


def test_an_attempt_that_ran_twice_is_caught() -> None:
    assert judged(
        record((1, 1, "began", 0, 10), (1, 1, "ended", 1, 10), (1, 1, "began", 2, 11))
    ) == ["S4"]


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
def test_documents_must_agree_with_what_ran(
    document: dict[str, Any], invariants: list[str]
) -> None:
    runs = record((1, 1, "began", 0, 10), (1, 2, "began", 5, 11), (1, 2, "ended", 6, 11))
    assert [found.invariant for found in runs.judge_job({"seq": 1, **document})] == invariants


def test_a_done_job_that_never_ran_is_caught() -> None:
    assert [
        found.invariant for found in Runs().judge_job({"seq": 9, "state": "done", "attempt": 1})
    ] == ["S2"]


def test_a_line_cut_short_is_passed_over_and_a_wrong_one_is_not() -> None:
    good = json.dumps({"seq": 1, "attempt": 1, "event": "began", "at": 0, "pid": 1}) + "\n"
    assert Runs.read([good, "\n", '{"seq": 2, "att']).total == 1
    assert Runs.read(['{"seq": 2, "att\n', good]).total == 1
    assert Runs.read(['{"seq": 2, "att' + good]).total == 1, "what follows on the line is read"
    with pytest.raises(ConfigError, match=r"line 2 .* 'sang' is none of began, ended, met"):
        Runs.read([good, good.replace("began", "sang")])
    with pytest.raises(ConfigError, match=r"line 1 .* does not begin like a note"):
        Runs.read(["# Tontine\n", "Some text.\n"])
