"""One job in a worker, from its document to its result or to how else it ended; and the jobs that
run now."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import bson

from tontine import around, current, snapshot, verdict
from tontine.current import CurrentJob
from tontine.errors import UnknownTask
from tontine.hooks import Hooks
from tontine.module import Library, Task
from tontine.offspring import ChildRequest
from tontine.staging import StageRefused

from ..running.pipe import PrintedLines, ProgressSaid, Report, StateValue
from .added import encode_more, is_more
from .capture import Output
from .counted import CountedEnd, counted
from .pages import Pages
from .staging import Desk

WATCH_EVERY, WATCH_IDLE_EVERY = 0.1, 1.0

Document = dict[str, Any]


class Runner:
    """Calls tasks: sync ones in the thread of their slot, async ones in the worker's event loop."""

    def __init__(
        self,
        library: Library,
        loop: asyncio.AbstractEventLoop,
        post: Callable[[Report], None],
        submit: Callable[[ChildRequest], Any],
        pages: Pages | None = None,
    ) -> None:
        self.library = library
        self.loop = loop
        self.current: dict[int, tuple[CurrentJob, asyncio.Task[Any] | None]] = {}
        self.output: Output | None = None
        self.tells_begin = False
        self.is_forked = False
        """Whether this process is one that a task has forked."""
        self._hooks = library.hooks()
        self._post = post
        self._submit = submit
        self._pages = pages or Pages(post)
        self.desk = Desk(library, post, self._await_in_loop, self._end_if_forked)
        self._states: dict[str, tuple[int, bytes]] = {}
        self._expired: dict[int, float] = {}
        self._saying = threading.Lock()
        self._begun = threading.Event()
        """Set when a job begins, for whoever rests until then."""

    def run(self, seq: int, raw: bytes, begun: float) -> bytes | verdict.NoResult | CountedEnd:
        """Run one job, and tell what is left to be told of it."""
        try:
            end = self.attempt(seq, raw, begun)
        finally:
            job, _ = self.current.pop(seq, (None, None))
            if job is not None:
                if job.unfinished_line and self.output is not None:
                    self.output.finish_line(job)
                self.say_news(job)
            self._expired.pop(seq, None)
        if job is not None and job.noted is not None and isinstance(end, bytes):
            return counted(end, job.noted)
        return end

    def attempt(self, seq: int, raw: bytes, begun: float | None = None) -> bytes | verdict.NoResult:
        """Its result as BSON, or how it ended otherwise."""
        try:
            document = bson.decode(raw, verdict.CODEC)
            task = self.library.find(document["task"])
            args = document.get("args") or {}
            if "plan" in document:
                args = {**args, **self._pages.streams_of(document)}
            reason = task.misfit(args)
        except UnknownTask as error:
            return verdict.ended("refused", "UnknownTask", str(error))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a document, it fails that job only (P3)
            return verdict.ended(
                "refused", type(error).__name__, f"the job cannot be decoded: {error}"
            )
        hooks = self._hooks.get(task.name)
        if hooks is not None:
            return self._attempt_hooked(hooks, task, document, args, reason, begun)
        if reason:
            return verdict.ended("refused", "InvalidArguments", reason)
        try:
            result = self._call(task, document, args, begun)
        except BaseException as error:  # noqa: BLE001 - a task may raise anything, also SystemExit: it fails that job only
            self._end_if_forked(error)
            return self._judge_error(task, document, error)
        return self._judge_result(seq, result)

    def take_states(self, states: Sequence[StateValue]) -> None:
        """New versions of named states, for jobs that begin from now on (MI7)."""
        new = {one.key: (one.version, one.value) for one in states}
        # Another dictionary: jobs that run have the one before.
        self._states = {key: one for key, one in (self._states | new).items() if one[1]}

    def cancel(self, seq: int) -> None:
        """Tell a running job that it is to end; an async one is cancelled as well."""
        job, running = self.current.get(seq, (None, None))
        if job is not None:
            job.mark_cancelled()
        if running is not None:
            self.loop.call_soon_threadsafe(running.cancel)

    def expire(self, seq: int, limit: float) -> None:
        """End an async job that ran longer than its time limit."""
        _, running = self.current.get(seq, (None, None))
        if running is not None:
            self._expired[seq] = limit
            self.loop.call_soon_threadsafe(running.cancel)

    def rest(self) -> None:
        """For a moment, or for long if there is nothing to watch until a job begins."""
        self._begun.clear()
        if self.current or self._begun.wait(
            WATCH_IDLE_EVERY
        ):  # in this order, no job begins unseen
            time.sleep(WATCH_EVERY)

    def say_all_news(self) -> None:
        for job, _ in list(self.current.values()):
            self.say_news(job)

    def say_news(self, job: CurrentJob) -> None:
        """Send on a job's newest progress, and what it printed since.

        Two threads come here; nothing may be on its way in one when the other reports that the job
        has ended.
        """
        with self._saying:
            if job.newest_progress is not None:
                self._post(ProgressSaid(job.seq, *job.newest_progress))
                job.newest_progress = None
            lines = []
            while job.lines:
                at, text = job.lines.popleft()
                lines.append((at, verdict.printable(text)))
            if lines:
                self._post(PrintedLines(job.seq, job.attempt, lines))
            if job.saving is not None:
                self.desk.say_saved(job)

    def _judge_error(
        self, task: Task, document: Document, error: BaseException
    ) -> verdict.NoResult:
        if isinstance(error, StageRefused):
            return error.end
        seq = int(document["seq"])
        try:
            reason = task.misfit_inside(error)
        except Exception:  # noqa: BLE001 - the user's code, like an error that cannot be printed
            reason = None
        if reason:
            return verdict.ended("refused", "InvalidArguments", reason)
        cancelled, limit = self._was_cancelled(seq), self._expired.get(seq)
        return verdict.of_error(task, document, error, cancelled=cancelled, limit=limit)

    def _judge_result(self, seq: int, result: Any) -> bytes | verdict.NoResult:
        if self._was_cancelled(seq):
            return verdict.ended(
                "cancelled", "Cancelled", "it saw that it was cancelled, and ended"
            )
        if is_more(result):
            return encode_more(result, self.current.get(seq, (None, None))[0])
        return verdict.encode(result)

    def _was_cancelled(self, seq: int) -> bool:
        job, _ = self.current.get(seq, (None, None))
        return job is not None and job.cancelled

    def _enter(
        self, task: Task, document: Document, begun: float | None
    ) -> tuple[CurrentJob, contextvars.Context]:
        """The job that a task sees, and the context in which it sees it."""
        seq = int(document["seq"])
        job = CurrentJob(
            document["_id"],
            seq,
            task.name,
            int(document["attempt"]) + 1,
            _note_progress,
            document=document,
            limits=(task.max_attempts, task.timeout),
            begun=begun,
            submit=self._submit,
        )
        context = contextvars.copy_context()
        context.run(current.enter, job)
        if self._states:
            context.run(snapshot.enter, snapshot.Snapshot(self._states))
        self.current[seq] = (job, None)
        if not self._begun.is_set():
            self._begun.set()
        if self.tells_begin and self.output is not None:
            self.output.tell_begin(job)
        return job, context

    def _call(
        self, task: Task, document: Document, args: dict[str, Any], begun: float | None
    ) -> Any:
        job, context = self._enter(task, document, begun)
        function = self.desk.enter(task, job) if task.saves else task.function
        if not task.is_async:
            result = context.run(function, **args)
            self._end_if_forked()
            return result

        async def shell() -> Any:
            self.current[job.seq] = (job, asyncio.current_task())
            try:
                result = await function(**args)
            except BaseException as error:
                self._end_if_forked(error)
                if isinstance(error, around.ENDS_LOOPS):
                    return around.Raised(error)
                raise
            self._end_if_forked()
            return result

        return around.unpacked(
            context.run(asyncio.run_coroutine_threadsafe, shell(), self.loop).result()
        )

    def _attempt_hooked(
        self,
        hooks: Hooks,
        task: Task,
        document: Document,
        args: dict[str, Any],
        reason: str | None,
        begun: float | None,
    ) -> bytes | verdict.NoResult:
        """Run one job with its module's hooks around it, all of them in one context."""
        job, context = self._enter(task, document, begun)
        judge = around.Judge(
            partial(self._judge_error, task, document), partial(self._judge_result, job.seq)
        )
        function = self.desk.enter(task, job) if task.saves else task.function
        steps = around.play(hooks, job, partial(function, **args), judge, refusal=reason)
        if not task.is_async:
            return context.run(around.drive, steps, self._await_in_loop, self._end_if_forked)

        async def shell() -> bytes | verdict.NoResult:
            self.current[job.seq] = (job, asyncio.current_task())
            return await around.drive_async(steps, self._end_if_forked)

        try:
            return context.run(asyncio.run_coroutine_threadsafe, shell(), self.loop).result()
        except BaseException as error:  # noqa: BLE001 - as that of a coroutine which has cancelled itself and returned
            return self._judge_error(task, document, error)

    def _await_in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def _end_if_forked(self, error: BaseException | None = None) -> None:
        """A process that a task has forked comes back out of that task's function: it ends, as a
        program would."""
        if self.is_forked:
            code = error.code if isinstance(error, SystemExit) else int(error is not None)
            os._exit(code if isinstance(code, int) else int(code is not None))


def _note_progress(job: CurrentJob, value: float, note: str) -> None:
    job.newest_progress = (value, verdict.printable(note))
