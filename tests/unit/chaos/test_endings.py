"""Chaos accepts of each job what its task may come to, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.endings import judge_care, judge_ending, judge_final

DONE = {"state": "done", "attempt": 1, "result": {"attempt": 1}}


def job(
    task: str, args: dict[str, Any] | None = None, error: str = "", **fields: Any
) -> dict[str, Any]:
    ended = {"state": "failed", "error": {"type": error}, "attempt": 1} if error else DONE
    return {
        "_id": "j",
        "seq": 1,
        "task": f"chaos.{task}",
        "args": args or {},
        "lost": 0,
        **ended,
        **fields,
    }


@pytest.mark.parametrize(
    "document",
    [
        job("leave", {"how": "fork"}),
        job("pool", error="TimeoutError"),
        job("abrupt", {"after": 0.001, "code": 1}),
        job("abrupt", {"after": 0.001, "code": 1}, "Lost", lost=4),
        job("abrupt", {"after": 0, "code": 75}, "Lost", lost=4),
        job("take", error="InvalidJob"),
        job("give", error="ResultTooLarge"),
        job("give", error="UnstorableResult"),
        job("quick", error="InvalidJob", _id="\ufffd"),
        job("quick@>=1"),
        job("careful@<2", {"seconds": 1}, "Lost", lost=1),
    ],
)
def test_a_hostile_job_may_end_so(document: dict[str, Any]) -> None:
    assert not list(judge_ending(document))


@pytest.mark.parametrize(
    "document",
    [
        job("leave", {"how": "fork"}, "TimeoutError"),
        job("leave", {"how": "fork"}, "Lost", lost=1),
        job("pool"),
        job("pool", error="Lost", lost=1),
        job("abrupt", {"after": 0, "code": 75}),
        job("give", error="InvalidJob"),
        job("quick", error="InvalidJob"),
        job("quick", state="working"),
        job("quick@>=1", error="InvalidJob"),
    ],
)
def test_it_may_not_end_so(document: dict[str, Any]) -> None:
    assert list(judge_ending(document))


def test_a_job_that_was_scribbled_on_has_to_end_all_the_same() -> None:
    assert not list(judge_final(job("quick", error="Whatever")))
    assert list(judge_final(job("quick", state="queued")))


def test_poison_does_not_run_for_ever() -> None:
    poison = job("abrupt", {"after": 0.001, "code": 1}, "Lost", lost=4)
    assert not list(judge_care(poison, 8, ()))
    assert list(judge_care(poison, 115, ()))


def test_a_range_does_not_let_a_careful_job_run_twice() -> None:
    assert not list(judge_care(job("careful@<2"), 1, ()))
    assert list(judge_care(job("careful@<2"), 2, ()))
