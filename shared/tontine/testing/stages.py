"""Stages and what tasks save, in the documents of an eager queue: what a worker and its master do
together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from .. import around, verdict
from ..current import CurrentJob
from ..module import Task
from ..records.stage import misfit, saved_in, stages_in
from ..saving import Saving
from ..stages import AsyncStaged
from ..staging import StageRefused, decoded, play, work_of

Document = dict[str, Any]


def work(task: Task, job: CurrentJob, document: Document) -> Callable[..., Any]:
    """What to call for a job of a task that keeps something."""
    job.saving = Saving(saved_in(document.get("saved")))
    if task.staged is None:
        return task.function
    staged = task.staged

    def keep(place: int, body: bytes, ms: int) -> Future[bool]:
        output = {
            "name": staged.stages[place].name,
            "state": "done",
            "attempt": job.attempt,
            "ms": ms,
            "bytes": len(body),
            "output": decoded(body),
        }
        document["stages"] = [*document.get("stages", [])[:place], output]
        answer: Future[bool] = Future()
        answer.set_result(bool(document.get("cancel")))
        return answer

    def steps(args: Mapping[str, Any]) -> around.Steps[Any]:
        if reason := misfit(document.get("stages"), staged.names):
            raise StageRefused(verdict.ended("refused", "StagesDiffer", reason))
        done = stages_in(document.get("stages"))
        value = document["stages"][-1]["output"] if done else None
        return play(staged, job, args, keep=keep, start=len(done), value=value)

    def drive(made: around.Steps[Any]) -> Any:
        if isinstance(staged, AsyncStaged):
            return around.drive_async(made, lambda _: None)
        return around.drive(made, _await_apart, lambda _: None)

    return work_of(staged, drive, steps)


def write_saved(job: CurrentJob, saved: tuple[int, bytes], document: Document) -> None:
    """Write what a task saved last, with the end of its attempt."""
    number, body = saved
    document["saved"] = {"attempt": job.attempt, "n": number, "value": decoded(body)}


def _await_apart(coroutine: Any) -> Any:
    context = copy_context()
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(context.run, asyncio.run, coroutine).result()
