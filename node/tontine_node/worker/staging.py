"""The worker's side of what a job keeps from one attempt to the next: its stages, and what it
saves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any

import bson
from bson.errors import BSONError

from tontine import around, verdict
from tontine.current import CurrentJob
from tontine.module import Library, Task
from tontine.records.stage import misfit, saved_in, stages_in
from tontine.records.task_key import module_of
from tontine.saving import Saving
from tontine.stages import AsyncStaged, Staged
from tontine.staging import StageRefused, decoded, play, work_of
from tontine.verdict import CODEC

from ..running.pipe import Report, SavedValue, StageAnswer, StageOutput

Check = Callable[[BaseException | None], None]


class Desk:
    """Of one worker: what came with its orders, and the outputs on their way."""

    def __init__(
        self,
        library: Library,
        post: Callable[[Report], None],
        await_in_loop: Callable[[Coroutine[Any, Any, Any]], Any],
        check: Check,
    ) -> None:
        self._versions = {module.name: module.version for module in library.modules}
        self._post = post
        self._await = await_in_loop
        self._check = check
        self._kept: dict[int, bytes] = {}
        self._answers: dict[tuple[int, int], Future[bool]] = {}
        self._changing = threading.Lock()

    def take_kept(self, seq: int, kept: bytes) -> None:
        """What a job has of earlier attempts; comes before the order to run it."""
        self._kept[seq] = kept

    def give_back(self, seqs: list[int]) -> None:
        for seq in seqs:
            self._kept.pop(seq, None)

    def take_answer(self, answer: StageAnswer) -> None:
        """The master has kept an output, or says why not."""
        with self._changing:
            waiting = self._answers.pop((answer.seq, answer.attempt), None)
        if waiting is None:
            return
        if answer.error is None:
            waiting.set_result(answer.is_cancelled)
        else:
            kind, text = answer.error
            waiting.set_exception(StageRefused(verdict.ended("refused", kind, text)))

    def enter(self, task: Task, job: CurrentJob) -> Callable[..., Any]:
        """What to call for a job of a task that keeps something."""
        kept = self._kept.pop(job.seq, b"")
        try:
            known: Mapping[str, Any] = bson.decode(kept, CODEC) if kept else {}
        except BSONError as error:
            return _refusing(f"what it kept cannot be decoded: {error}")
        job.saving = Saving(saved_in(known.get("saved")))
        if task.staged is None:
            return task.function
        return self._work(task, task.staged, job, known)

    def say_saved(self, job: CurrentJob) -> None:
        """Send on what a job has saved last."""
        if job.saving is not None and job.saving.newest is not None:
            (number, body), job.saving.newest = job.saving.newest, None
            self._post(SavedValue(job.seq, job.attempt, number, body))

    def _work(
        self, task: Task, staged: Staged, job: CurrentJob, known: Mapping[str, Any]
    ) -> Callable[..., Any]:
        version = self._versions.get(module_of(task.name), "")

        def keep(place: int, body: bytes, ms: int) -> Future[bool]:
            answer: Future[bool] = Future()
            # Who waits may be cancelled; what was sent cannot be.
            answer.set_running_or_notify_cancel()
            with self._changing:
                self._answers[job.seq, job.attempt] = answer
            name = staged.stages[place].name
            self._post(StageOutput(job.seq, job.attempt, place, name, version, ms, body))
            return answer

        def steps(args: Mapping[str, Any]) -> around.Steps[Any]:
            start, value = resumed(staged, job.seq, known)
            return play(staged, job, args, keep=keep, start=start, value=value)

        def drive(made: around.Steps[Any]) -> Any:
            if isinstance(staged, AsyncStaged):
                return around.drive_async(made, self._check)
            return around.drive(made, self._await, self._check)

        return work_of(staged, drive, steps)


def resumed(staged: Staged, seq: int, known: Mapping[str, Any]) -> tuple[int, Any]:
    """The first stage that is not done, and the output before it (ME3); `StageRefused` where the
    code has other stages by now (ME4)."""
    stored: Any = known.get("stages")
    if reason := misfit(stored, staged.names):
        first = next((one.name for one in stages_in(stored)), staged.names[0])
        advice = f"`tontine retry {seq} --from {first}` runs it with the stages of today"
        raise StageRefused(verdict.ended("refused", "StagesDiffer", f"{reason}: {advice}"))
    done = stages_in(stored)
    if not done:
        return 0, None
    last = stored[len(done) - 1]
    return len(done), decoded(known["output"]) if "output" in known else last.get("output")


def _refusing(reason: str) -> Callable[..., Any]:
    def refuse(**_: Any) -> Any:
        raise StageRefused(verdict.ended("refused", "StagesDiffer", reason))

    return refuse
