"""What the node's log says of its jobs: one line per attempt that failed."""

from __future__ import annotations

import logging
from typing import Any

import bson
import orjson
import pytest

from tontine.job import JobError
from tontine.store.settle import Outcome
from tontine_node.journal import Journal
from tontine_node.logs import LogStyle, _Json, _Lines
from tontine_node.supervisor import TaskFacts
from tontine_node.table import Entry, Table

BROKEN = JobError("ConnectionError", "not\nyet", "Traceback ...")


@pytest.fixture
def journal(caplog: pytest.LogCaptureFixture) -> Journal:
    caplog.set_level(logging.INFO)
    table = Table()
    raw = bson.encode({"_id": 1, "seq": 17, "key": "k"})
    table.enter(Entry(17, 3, 0.0, "shop.resize", raw, fails=1))
    table.enter(Entry(18, 4, 0.0, "shop.resize", raw, lost=3, max_attempts=9))
    return Journal("web-1-abc", table, lambda: {"shop.resize": TaskFacts("retry", False, None, 4, [])})


def line_of(caplog: pytest.LogCaptureFixture) -> str:
    (record,) = caplog.records
    return _Lines().format(record).split(" ", 1)[1]


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (
            Outcome("retry", 17, 3, 0.1, error=BROKEN, delay=3.0),
            r"warning job 17 shop.resize failed (attempt 2 of 4), runs again in 3.0 s: ConnectionError: not\nyet",
        ),
        (
            Outcome("failed", 17, 3, 0.1, error=BROKEN),
            r"error   job 17 shop.resize failed for good (attempt 2 of 4): ConnectionError: not\nyet",
        ),
        (
            Outcome("refused", 17, 3, error=JobError("InvalidArguments", "no")),
            "error   job 17 shop.resize failed for good: InvalidArguments: no",
        ),
        (
            Outcome("lost", 17, 3, error=JobError("Lost", "it was ended")),
            "warning job 17 shop.resize was lost with its worker (1 of 4 times), runs again: Lost: it was ended",
        ),
        (
            Outcome("lost", 17, 3, error=JobError("Lost", "oom"), final=True),
            "error   job 17 shop.resize failed for good with its worker (1 of 4 times): Lost: oom",
        ),
        (
            Outcome("lost", 18, 4, error=JobError("Lost", "oom")),
            "error   job 18 shop.resize failed for good with its worker (4 of 4 times): Lost: oom",
        ),
        (
            Outcome("failed", 18, 4, 0.1, error=JobError("ValueError", "x" * 5000)),
            f"error   job 18 shop.resize failed for good (attempt 1 of 9): ValueError: {'x' * 287}…",
        ),
    ],
)
def test_an_attempt_that_failed_is_one_line(
    journal: Journal, caplog: pytest.LogCaptureFixture, outcome: Outcome, line: str
) -> None:
    journal.note(outcome)
    where = f"; see `tontine job {outcome.seq}`" if line.startswith("error") else ""
    assert line_of(caplog) == line + where


def test_as_json_it_has_everything(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    journal.note(Outcome("retry", 17, 3, 0.1, error=BROKEN, delay=3.0))
    found: dict[str, Any] = orjson.loads(_Json().format(caplog.records[0]))
    assert found.pop("at") < found.pop("run_at")
    assert found == {
        "level": "warning",
        "message": "an attempt failed and the job runs again",
        "event": "attempt-failed",
        "seq": 17,
        "task": "shop.resize",
        "key": "k",
        "node": "web-1-abc",
        "attempt": 3,
        "fails": 2,
        "lost": 0,
        "max_attempts": 4,
        "ran": 0.1,
        "error_type": "ConnectionError",
        "error": "not\nyet",
        "traceback": "Traceback ...",
        "again_in": 3.0,
    }


@pytest.mark.parametrize("kind", ["done", "cancelled", "released"])
def test_other_ends_are_told_to_who_wants_to_know_everything(
    journal: Journal, caplog: pytest.LogCaptureFixture, kind: Any
) -> None:
    journal.note(Outcome(kind, 17, 3, 0.1))
    assert not caplog.records
    caplog.set_level(logging.DEBUG)
    journal.is_thorough = True
    journal.note(Outcome(kind, 17, 3, 0.1))
    words = {"done": "is done", "cancelled": "was cancelled", "released": "was given back"}
    assert line_of(caplog) == f"debug   job 17 shop.resize {words[kind]} after 0.1 s"


def test_a_job_that_is_not_here_any_more_is_no_news(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    journal.note(Outcome("failed", 99, 1, error=BROKEN))
    assert not caplog.records


@pytest.mark.parametrize("style", [LogStyle(json, verbose) for json in (False, True) for verbose in (False, True)])
def test_workers_are_told_how_to_log_in_one_word(style: LogStyle) -> None:
    assert LogStyle.parse(style.word) == style
