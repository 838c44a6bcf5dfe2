"""What the node's log says of its jobs: one line per attempt that failed."""

from __future__ import annotations

import logging
from typing import Any, get_args

import bson
import orjson
import pytest
from bson import Binary

from tests.support import odd
from tontine.records.job import JobError
from tontine.store.settle import Kind, Outcome
from tontine_node.claims import Entry
from tontine_node.log_style import LogStyle
from tontine_node.telling.journal import Journal
from tontine_node.telling.logs import _Json, _Lines

BROKEN = JobError("ConnectionError", "not\nyet", "Traceback ...")
RAW = bson.encode({"_id": 1, "seq": 17, "key": "k"})
ENTRIES = {
    17: Entry(17, 3, 0.0, "shop.resize", RAW, fails=1),
    18: Entry(18, 4, 0.0, "shop.resize", RAW, lost=3, max_attempts=9),
}


@pytest.fixture
def journal(caplog: pytest.LogCaptureFixture) -> Journal:
    caplog.set_level(logging.INFO)
    return Journal("web-1-abc", lambda entry: entry.max_attempts or 4)


def line_of(caplog: pytest.LogCaptureFixture) -> str:
    (record,) = caplog.records
    return _Lines().format(record).split(" ", 1)[1]


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (
            Outcome("retry", 17, 3, 0.1, error=BROKEN, delay=3.0),
            (
                r"warning job 17 shop.resize failed (attempt 2 of 4), runs again in 3.0 s: "
                r"ConnectionError: not\nyet"
            ),
        ),
        (
            Outcome("failed", 17, 3, 0.1, error=BROKEN),
            (
                r"error   job 17 shop.resize failed for good (attempt 2 of 4): "
                r"ConnectionError: not\nyet"
            ),
        ),
        (
            Outcome("refused", 17, 3, error=JobError("InvalidArguments", "no")),
            "error   job 17 shop.resize failed for good: InvalidArguments: no",
        ),
        (
            Outcome("lost", 17, 3, error=JobError("Lost", "it was ended")),
            (
                "warning job 17 shop.resize was lost with its worker (1 of 4 times), runs again: "
                "Lost: it was ended"
            ),
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
            (
                "error   job 18 shop.resize failed for good (attempt 1 of 9): ValueError: "
                f"{'x' * 287}…"
            ),
        ),
    ],
)
def test_an_attempt_that_failed_is_one_line(
    journal: Journal, caplog: pytest.LogCaptureFixture, outcome: Outcome, line: str
) -> None:
    journal.note(outcome, ENTRIES[outcome.seq])
    where = f"; see `tontine job {outcome.seq}`" if line.startswith("error") else ""
    assert line_of(caplog) == line + where


def test_as_json_it_has_everything(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    journal.note(Outcome("retry", 17, 3, 0.1, error=BROKEN, delay=3.0), ENTRIES[17])
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


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("done", "is done"),
        ("cancelled", "was cancelled"),
        ("released", "was given back"),
        ("late", "was not started in time"),
    ],
)
def test_other_ends_are_told_to_who_wants_to_know_everything(
    journal: Journal, caplog: pytest.LogCaptureFixture, kind: Any, words: str
) -> None:
    journal.note(Outcome(kind, 17, 3, 0.1), ENTRIES[17])
    assert not caplog.records
    caplog.set_level(logging.DEBUG)
    journal.is_thorough = True
    journal.note(Outcome(kind, 17, 3, 0.1), ENTRIES[17])
    assert line_of(caplog) == f"debug   job 17 shop.resize {words} after 0.1 s"


@pytest.mark.parametrize("kind", get_args(Kind))
def test_whatever_is_in_a_document_and_however_it_ended_there_is_a_line(
    journal: Journal, caplog: pytest.LogCaptureFixture, kind: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    journal.is_thorough = True
    for value in odd.VALUES:
        raw = bytes(odd.as_written(odd.with_odd({"_id": 1, "seq": 17}, args=value, key=value)).raw)
        journal.note(Outcome(kind, 17, 3, 0.1), Entry(17, 3, 0.0, "shop.resize", raw))
        record = caplog.records.pop()
        assert "job 17 shop.resize" in _Lines().format(record)
        assert orjson.loads(_Json().format(record))["seq"] == 17, value


def test_what_cannot_be_read_is_told_as_such_and_nothing_raised(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    """Before: its outcome was settled again and again, and those beside it with it."""
    for raw in (bson.encode({"_id": Binary(b"abc", 4), "key": "k"}), b"no BSON"):
        journal.note(
            Outcome("failed", 1, 1, 0.1, error=BROKEN), Entry(1, 1, 0.0, "shop.resize", raw)
        )
    assert {record.__dict__["event"] for record in caplog.records} <= {"job-failed", "untold"}
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    "style", [LogStyle(json, verbose) for json in (False, True) for verbose in (False, True)]
)
def test_workers_are_told_how_to_log_in_one_word(style: LogStyle) -> None:
    assert LogStyle.parse(style.word) == style
