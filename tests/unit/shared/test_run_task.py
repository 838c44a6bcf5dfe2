"""A task inline: called as a worker would, with a job around it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tontine import Module, Reject, current_job
from tontine.testing import arun_task, run_task

shop = Module("shop")


@shop.task
def awkward(
    function: str, seq: int, attempt: int = 0, cancelled: bool = True, args: Any = None
) -> dict[str, Any]:
    job = current_job()
    return {
        "given": [function, seq, attempt, cancelled, args],
        "job": [job.seq, job.attempt, job.cancelled],
    }


@shop.task
async def waits(seconds: float) -> Any:
    current_job().progress(0.5, "half")
    await asyncio.sleep(seconds)
    return asyncio.get_running_loop()


@shop.task
def loops() -> str:
    return asyncio.run(asyncio.sleep(0, "slept"))


def test_arguments_may_be_called_like_what_is_said_of_the_job() -> None:
    args = {"function": "f", "seq": 7, "attempt": 8, "cancelled": False, "args": 9}
    run = run_task(awkward, args, seq=2, attempt=3, cancelled=True)
    assert run.result == {"given": ["f", 7, 8, False, 9], "job": [2, 3, True]}
    assert run_task(awkward, args={"seq": 7}, function="f").result["given"][:2] == ["f", 7]


def test_arguments_that_do_not_fit_are_refused_in_a_workers_words() -> None:
    with pytest.raises(
        TypeError, match=r"arguments do not fit waits\(.*missing a required argument: 'seconds'"
    ):
        run_task(waits, second=1)
    with pytest.raises(TypeError, match="takes a mapping of the task's arguments, not int"):
        run_task(awkward, args=7)  # type: ignore[arg-type]


def test_what_a_task_raises_is_raised() -> None:
    @shop.task
    def refuses() -> None:
        raise Reject("no")

    with pytest.raises(Reject):
        run_task(refuses)


def test_an_async_task_runs_by_itself() -> None:
    run = run_task(waits, seconds=0)
    assert run.progress == [(0.5, "half")]


async def test_tasks_run_where_a_loop_runs_already() -> None:
    here = asyncio.get_running_loop()
    assert run_task(waits, seconds=0).result is not here
    assert (await arun_task(waits, {"seconds": 0})).result is here
    assert run_task(loops).result == (await arun_task(loops)).result == "slept"


def test_what_a_task_submits_is_told_and_it_sees_its_meta() -> None:
    def parent() -> Any:
        current_job().submit("shop.mail", {"to": "ada"})
        return current_job().meta

    run = run_task(parent, meta={"tenant": 7})
    assert run.result == {"tenant": 7}
    assert [(job.task, job.args) for job in run.submitted] == [("shop.mail", {"to": "ada"})]
