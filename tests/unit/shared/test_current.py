"""`current_job()`: what a task can know of its job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.lone_worker import attempt, lone_worker
from tontine import Module, current_job
from tontine.clock import SystemClock
from tontine.current import CurrentJob

shop = Module("shop")


@shop.task(max_attempts=3)
def tell() -> dict[str, Any]:
    job = current_job()
    return {
        "max_attempts": job.max_attempts,
        "last": job.is_last_attempt,
        "deadline": job.deadline,
        "key": job.key,
        "meta": job.meta,
        "created_at": job.created_at,
    }


def told(**document: Any) -> dict[str, Any]:
    with lone_worker(shop) as worker:
        kind, result = attempt(worker, "shop.tell", **document)
    assert kind == "done"
    return dict(result)


def test_a_plain_job_has_what_its_task_says() -> None:
    assert told() == {
        "max_attempts": 3,
        "last": False,
        "deadline": None,
        "key": None,
        "meta": {},
        "created_at": None,
    }


def test_a_job_has_what_its_producer_said() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    found = told(max_attempts=2, key="k", meta={"tenant": "acme"}, created_at=at, fails=1)
    assert found["max_attempts"] == 2
    assert (found["key"], found["meta"], found["created_at"]) == ("k", {"tenant": "acme"}, at)


@pytest.mark.parametrize(
    ("document", "is_last"),
    [
        ({"fails": 1}, False),
        ({"fails": 2}, True),
        ({"max_attempts": 1}, True),
        ({"attempt": 8, "lost": 3}, False),
    ],
)
def test_the_last_attempt_is_counted_by_those_that_failed(
    document: dict[str, Any], is_last: bool
) -> None:
    assert told(**document)["last"] is is_last


@pytest.mark.parametrize("meta", [None, "text", [1]])
def test_a_meta_that_is_no_object_is_none(meta: Any) -> None:
    assert told(meta=meta)["meta"] == {}


def test_the_deadline_counts_from_the_begin() -> None:
    begun = SystemClock().now() - 40
    job = CurrentJob(
        1, 1, "t", 1, lambda *_: None, document={"timeout": 100}, limits=(1, 5.0), begun=begun
    )
    assert job.deadline is not None
    left = job.deadline - datetime.now(UTC)
    assert timedelta(0) < left <= timedelta(seconds=60), "its own limit, not its task's"
    assert job.deadline is job.deadline


def test_without_a_limit_there_is_no_deadline() -> None:
    assert CurrentJob(1, 1, "t", 1, lambda *_: None).deadline is None


def test_a_percentage_is_told_once_that_progress_goes_to_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said: list[float] = []
    job = CurrentJob("id", 1, "percent.work", 1, lambda _, value, note: said.append(value))
    for value in (0.5, 1.0000001, 50, 75):
        job.progress(value)
    assert said == [0.5, 1.0, 1.0, 1.0], "a job does not die of it"
    assert [record.getMessage() for record in caplog.records] == [
        "progress(50): progress goes from 0 to 1, so this is shown as 100 %; 50 % is 0.5"
    ]
