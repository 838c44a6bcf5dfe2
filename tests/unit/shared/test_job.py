"""Documents become jobs whatever any driver wrote; what cannot be a job is told why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from bson import Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS
from hypothesis import given, settings
from hypothesis import strategies as st

from tontine.records.job import TEXT_KEPT, Job, JobError, Progress, problem, utc
from tontine.records.states import JobState

quick = settings(max_examples=40, deadline=None)

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=100),
    st.binary(max_size=20),
    st.datetimes(timezones=st.just(UTC)),
    st.builds(ObjectId),
    st.integers(-(2**63), 2**63 - 1).map(Int64),
    st.sampled_from([Decimal128("1"), DatetimeMS(2**60), Regex("a+"), Timestamp(1, 1), MaxKey()]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)
JUDGED = ("task", "args", "state", "run_at", "priority", "max_attempts", "timeout", "key")
OTHERS = (
    "seq",
    "attempt",
    "fails",
    "lost",
    "cancel",
    "node",
    "result",
    "error",
    "errors",
    "created_at",
    "started_at",
)
PROGRESS = st.fixed_dictionaries(
    {}, optional={"value": st.none() | st.floats() | st.integers(), "note": VALUES}
)
GOOD = {"task": "shop.resize"}


@quick
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(JUDGED, VALUES)))
def test_judging_never_raises_and_answers_in_one_line(document: dict[str, Any]) -> None:
    reason = problem(document)
    assert reason is None or (reason and len(reason.splitlines()) == 1 and len(reason) < 2000)


@quick
@given(
    st.fixed_dictionaries(
        {"_id": VALUES},
        optional=dict.fromkeys((*JUDGED, *OTHERS), VALUES) | {"progress": PROGRESS | SCALARS},
    )
)
def test_any_document_can_be_read_as_a_job(document: dict[str, Any]) -> None:
    job = Job.from_document(document)
    assert job.state in JobState
    assert isinstance(job.task, str)
    assert isinstance(job.cancel, bool)
    assert all(isinstance(error, JobError) for error in job.errors)
    assert job.is_final == (job.state in ("done", "failed", "cancelled"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task", ""),
        ("task", None),
        ("task", 5),
        ("task", ["shop.resize"]),
        ("args", []),
        ("args", "x=1"),
        ("args", None),
        ("state", "working"),
        ("state", "done"),
        ("state", ["queued"]),
        ("run_at", "tomorrow"),
        ("run_at", 1735689600),
        ("run_at", DatetimeMS(2**60)),
        ("priority", "high"),
        ("priority", 1.5),
        ("priority", True),
        ("max_attempts", 0),
        ("max_attempts", -1),
        ("max_attempts", "3"),
        ("max_attempts", True),
        ("timeout", 0),
        ("timeout", -0.5),
        ("timeout", "30s"),
        ("timeout", True),
        ("timeout", Decimal128("1")),
        ("key", ""),
        ("key", 7),
        ("key", {"a": 1}),
    ],
)
def test_each_bad_field_is_named(field: str, value: Any) -> None:
    reason = problem(GOOD | {field: value})
    assert reason is not None
    assert f"`{field}`" in reason


def test_a_document_without_a_task_is_told_to_name_one() -> None:
    assert "no `task`" in (problem({"args": {}}) or "")
    assert "no `task`" in (problem({}) or "")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"args": {"image": "a.png"}},
        {"state": "queued"},
        {
            "state": None,
            "run_at": None,
            "priority": None,
            "max_attempts": None,
            "timeout": None,
            "key": None,
        },
        {
            "run_at": datetime(2030, 1, 1, tzinfo=UTC),
            "priority": -5,
            "max_attempts": Int64(3),
            "timeout": 0.5,
        },
        {"key": "k", "anything": {"else": 1}},
    ],
)
def test_what_can_be_a_job_has_no_problem(more: dict[str, Any]) -> None:
    assert problem(GOOD | more) is None


def test_a_long_value_is_shown_short() -> None:
    reason = problem(GOOD | {"state": "x" * 10_000}) or ""
    assert len(reason) < 200
    assert reason.endswith("...")


def test_a_whole_document_becomes_a_whole_job() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    document = {
        "_id": 1,
        "seq": Int64(7),
        "task": "shop.resize",
        "args": {"image": "a.png"},
        "state": "failed",
        "attempt": 3,
        "fails": 2,
        "lost": 1,
        "progress": {"value": 0.5, "note": "half"},
        "error": {"type": "ValueError", "message": "no", "traceback": "..."},
        "errors": [{"type": "OSError"}, "not an error"],
        "finished_at": at,
    }
    job = Job.from_document(document, existed=True)
    assert (job.id, job.seq, job.args, job.state) == (1, 7, {"image": "a.png"}, JobState.FAILED)
    assert (job.attempt, job.fails, job.lost, job.finished_at, job.existed) == (3, 2, 1, at, True)
    assert job.progress == Progress(0.5, "half")
    assert job.error == JobError("ValueError", "no", "...")
    assert job.errors == (JobError("OSError", "", ""),)
    assert job.is_final


def test_a_raw_document_is_a_queued_job_and_an_unknown_state_a_failed_one() -> None:
    assert Job.from_document({"_id": 1}).state is JobState.QUEUED
    assert Job.from_document({"_id": 1, "state": "exploded"}).state is JobState.FAILED


@quick
@given(st.text(), st.text(), st.text())
def test_an_error_survives_its_document(type: str, message: str, traceback: str) -> None:
    error = JobError(type, message, traceback)
    assert JobError.from_document(error.to_document()) == error


def test_an_error_keeps_the_start_of_its_message_and_the_end_of_its_traceback() -> None:
    long = "a" + "x" * (3 * TEXT_KEPT) + "z"
    document = JobError(long, long, long).to_document()
    assert {len(text) for text in document.values()} == {TEXT_KEPT}
    assert (document["message"][0], document["traceback"][-1]) == ("a", "z")


def test_an_instant_is_the_same_in_utc() -> None:
    east = datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert (utc(east), utc(east).tzinfo) == (datetime(2030, 1, 1, tzinfo=UTC), UTC)
    naive = datetime(2030, 1, 1, 2)
    assert utc(naive) == naive.astimezone()


@pytest.mark.parametrize(
    ("id", "parent", "expected"),
    [
        ("17/1", 17, 17),
        ("17/1", 17.0, 17),
        ("17/1", 1, None),
        ("17/1", "17", None),
        ("17/1", True, None),
        ("17/1", None, None),
        ("x", 17, None),
        (5, 17, None),
    ],
)
def test_a_parent_is_what_the_id_says_too(id: Any, parent: Any, expected: int | None) -> None:
    """A producer may have a field of that name."""
    assert Job.from_document({"_id": id, "task": "t.t", "parent": parent}).parent == expected


def test_all_that_is_wrong_with_a_document_is_told_at_once() -> None:
    assert problem({"tsk": "a.b", "args": [1], "priority": "high", "max_attempts": 0}) == (
        'it has no `task`: name the task to run, like "shop.resize"; its field `tsk` is none; '
        "`args` must be an object with the task's keyword arguments, not an array; "
        "`priority` must be a whole number, not the text 'high'; `max_attempts` must be at least "
        "1, not 0"
    )
