"""(4) Run: a child process with S slots for sync and async tasks. It has no database connection.

Threads: one reads orders, S run them, one writes reports (many to a frame), one watches the lease and the master. Async
tasks share one event loop, in the main thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import importlib
import inspect
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import bson

from tontine import around, current, verdict
from tontine.clock import SystemClock
from tontine.errors import ConfigError, UnknownTask
from tontine.hooks import Hooks
from tontine.module import Library, Task, load

from ..log_style import LogStyle
from ..running import declared, pipe
from ..running.board import Board
from . import capture
from .postbox import Postbox

WATCH_EVERY, WATCH_IDLE_EVERY = 0.1, 1.0
LINGER = 0.002
REPORTS_AT_ONCE = 1000
BYTES_AT_ONCE = 4 * 1024 * 1024


class Worker:
    """One worker process."""

    def __init__(self, index: int, connection: socket.socket, board: Board, library: Library) -> None:
        self.index = index
        self.connection = connection
        self.board = board
        self.library = library
        self.hooks = library.hooks()
        self.clock = SystemClock()
        self.is_forked = False
        """Whether this process is one that a task has forked."""
        self.inbox: deque[tuple[int, bytes]] = deque()
        self.ordering = threading.Lock()
        """Held to change the inbox: orders are begun, or given back, in the order in which they came."""
        self.ordered = threading.Condition(self.ordering)
        self.outbox: queue.SimpleQueue[tuple[str, Any, bytes]] = queue.SimpleQueue()
        self.postbox = Postbox(self.outbox.put)
        self.loop = asyncio.new_event_loop()
        self.current: dict[int, tuple[current.CurrentJob, asyncio.Task[Any] | None]] = {}
        self.expired: dict[int, float] = {}
        self.saying = threading.Lock()
        self.begun = threading.Event()
        """Set when a job begins, for whoever rests until then."""
        self.output: capture.Output | None = None
        self.tells_begin = False

    def run(self) -> None:
        """Serve until the master closes the connection or the lease runs out."""
        os.register_at_fork(after_in_child=self.renounce)
        threads = [self.read_orders, self.write_reports, self.watch_lease]
        for target in threads:
            threading.Thread(target=_or_end, args=(target,), daemon=True).start()
        for slot in range(self.board.slots):
            threading.Thread(target=_or_end, args=(self.serve_slot, slot), daemon=True, name=f"slot-{slot}").start()
        around.start(self.library.start_hooks(), self.loop)
        self.outbox.put(("hello", self.describe(), b""))
        self.loop.run_forever()

    def describe(self) -> dict[str, Any]:
        tasks = {
            task.name: [
                task.on_lost,
                task.is_async,
                task.timeout,
                task.max_attempts,
                verdict.delays(task),
                task.retries(TimeoutError()),
            ]
            for module in self.library.modules
            for task in module.tasks.values()
        }
        return {"modules": self.library.describe(), "tasks": tasks, "schedules": declared.pack(self.library)}

    def read_orders(self) -> None:
        while frame := pipe.read(self.connection):
            head, body = frame
            if "run" in head:
                raws = pipe.cut(body, (size for _, size in head["run"]))
                with self.ordering:
                    self.inbox.extend((seq, raw) for (seq, _), raw in zip(head["run"], raws, strict=True))
                    self.ordered.notify(len(head["run"]))
            if "recall" in head:
                self.give_back()
            if "submitted" in head:
                self.postbox.take_answer(head["submitted"], body)
            for seq in head.get("cancel", ()):
                self.cancel(seq)
            for seq, limit in head.get("expire", ()):
                self.expire(seq, limit)
        _end_group()  # the master is gone: nobody may learn what this worker would do next (N6)

    def give_back(self) -> None:
        """Return the orders that no slot has begun."""
        with self.ordering:
            returned = [seq for seq, _ in self.inbox]
            self.inbox.clear()
        self.outbox.put(("returned", returned, b""))

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
            self.expired[seq] = limit
            self.loop.call_soon_threadsafe(running.cancel)

    def write_reports(self) -> None:
        while True:
            reports = [self.outbox.get()]
            if self.inbox:  # its slots have enough to do: a frame of many costs no more than a frame of one
                time.sleep(LINGER)
            size = len(reports[0][2])
            while len(reports) < REPORTS_AT_ONCE and size < BYTES_AT_ONCE:
                try:
                    reports.append(self.outbox.get_nowait())
                except queue.Empty:
                    break
                size += len(reports[-1][2])
            head: pipe.Head = {}
            bodies: list[bytes] = []
            requests: list[bytes] = []
            for name, what, body in reports:
                head.setdefault(name, []).append(what)
                if body:
                    (requests if name == "submit" else bodies).append(body)
            try:
                self.connection.sendall(pipe.pack(head, bodies + requests))
            except OSError:
                os._exit(0)

    def watch_lease(self) -> None:
        """End this process when the lease runs out or the master is gone (N6)."""
        parent = os.getppid()
        while True:
            self.rest()
            if os.getppid() != parent or self.clock.now() > self.board.deadline:
                self.end_at_deadline()
            for job, _ in list(self.current.values()):
                self.say_news(job)

    def end_at_deadline(self) -> NoReturn:
        """Somebody else may run these jobs now: all that works for them ends. Only the mark says that none is to blame,
        because a task can exit with any code."""
        self.board.mark_deadline(self.index)
        _end_group()

    def rest(self) -> None:
        """For a moment, or for long if there is nothing to watch until a job begins."""
        self.begun.clear()
        if self.current or self.begun.wait(WATCH_IDLE_EVERY):  # in this order, no job begins unseen
            time.sleep(WATCH_EVERY)

    def say_news(self, job: current.CurrentJob) -> None:
        """Send on a job's newest progress, and what it printed since.

        Two threads come here; nothing may be on its way in one when the other reports that the job has ended.
        """
        with self.saying:
            if job.newest_progress is not None:
                self.outbox.put(("progress", [job.seq, *job.newest_progress], b""))
                job.newest_progress = None
            lines = []
            while job.lines:
                at, text = job.lines.popleft()
                lines.append([at, verdict.printable(text)])
            if lines:
                self.outbox.put(("lines", [job.seq, job.attempt, lines], b""))

    def serve_slot(self, slot: int) -> None:
        while True:
            seq, raw, begun = self.begin_next(slot)
            try:
                end = self.attempt(seq, raw, begun)
            finally:
                job, _ = self.current.pop(seq, (None, None))
                if job is not None:
                    if job.unfinished_line and self.output is not None:
                        self.output.finish_line(job)
                    self.say_news(job)
                self.expired.pop(seq, None)
            self.board.ended(self.index, slot)
            ran = self.clock.now() - begun
            name, what, body = verdict.done(seq, end, ran) if isinstance(end, bytes) else end
            if name == "ended":
                what = [seq, ran, *what]
            self.outbox.put((name, what, body))

    def begin_next(self, slot: int) -> tuple[int, bytes, float]:
        """Take the next order and count it as begun, at once: so the begun ones are always the first that came."""
        with self.ordering:
            while not self.inbox:
                self.ordered.wait()
            seq, raw = self.inbox.popleft()
            # A thawed worker may find orders of a life that is over: the lease is checked right before each start (J2).
            begun = self.clock.now()
            if begun > self.board.deadline:
                self.end_at_deadline()
            self.board.started(self.index, slot, seq, begun)
        return seq, raw, begun

    def attempt(self, seq: int, raw: bytes, begun: float | None = None) -> bytes | verdict.Report:
        """Run one job; its result as BSON, or how it ended otherwise."""
        try:
            document = bson.decode(raw, verdict.CODEC)
            task = self.library.find(document["task"])
            args = document.get("args") or {}
            reason = task.misfit(args)
        except UnknownTask as error:
            return verdict.ended("refused", "UnknownTask", str(error))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a document, it fails that job only (P3)
            return verdict.ended("refused", type(error).__name__, f"the job cannot be decoded: {error}")
        hooks = self.hooks.get(task.name)
        if hooks is not None:
            return self.attempt_hooked(hooks, task, document, args, reason, begun)
        if reason:
            return verdict.ended("refused", "InvalidArguments", reason)
        try:
            result = self.call(task, document, args, begun)
        except BaseException as error:  # noqa: BLE001 - a task may raise anything, also SystemExit: it fails that job only
            self.end_if_forked(error)
            return self.judge_error(task, document, error)
        return self.judge_result(seq, result)

    def judge_error(self, task: Task, document: dict[str, Any], error: BaseException) -> verdict.Report:
        seq = int(document["seq"])
        try:
            reason = task.misfit_inside(error)
        except Exception:  # noqa: BLE001 - the user's code, like an error that cannot be printed
            reason = None
        if reason:
            return verdict.ended("refused", "InvalidArguments", reason)
        cancelled, limit = self.was_cancelled(seq), self.expired.get(seq)
        return verdict.of_error(task, document, error, cancelled=cancelled, limit=limit)

    def judge_result(self, seq: int, result: Any) -> bytes | verdict.Report:
        if self.was_cancelled(seq):
            return verdict.ended("cancelled", "Cancelled", "it saw that it was cancelled, and ended")
        return verdict.encode(result)

    def enter(
        self, task: Task, document: dict[str, Any], begun: float | None
    ) -> tuple[current.CurrentJob, contextvars.Context]:
        """The job that a task sees, and the context in which it sees it."""
        seq = int(document["seq"])
        job = current.CurrentJob(
            document["_id"],
            seq,
            task.name,
            int(document["attempt"]) + 1,
            self.note_progress,
            document=document,
            limits=(task.max_attempts, task.timeout),
            begun=begun,
            submit=self.postbox.ask,
        )
        context = contextvars.copy_context()
        context.run(current.enter, job)
        self.current[seq] = (job, None)
        if not self.begun.is_set():
            self.begun.set()
        if self.tells_begin and self.output is not None:
            self.output.tell_begin(job)
        return job, context

    def call(self, task: Task, document: dict[str, Any], args: dict[str, Any], begun: float | None) -> Any:
        job, context = self.enter(task, document, begun)
        if not task.is_async:
            result = context.run(task.function, **args)
            self.end_if_forked()
            return result

        async def shell() -> Any:
            self.current[job.seq] = (job, asyncio.current_task())
            try:
                result = await task.function(**args)
            except BaseException as error:
                self.end_if_forked(error)
                if isinstance(error, around.ENDS_LOOPS):
                    return around.Raised(error)
                raise
            self.end_if_forked()
            return result

        return around.unpacked(context.run(asyncio.run_coroutine_threadsafe, shell(), self.loop).result())

    def attempt_hooked(
        self,
        hooks: Hooks,
        task: Task,
        document: dict[str, Any],
        args: dict[str, Any],
        reason: str | None,
        begun: float | None,
    ) -> bytes | verdict.Report:
        """Run one job with its module's hooks around it, all of them in one context."""
        job, context = self.enter(task, document, begun)
        judge = around.Judge(partial(self.judge_error, task, document), partial(self.judge_result, job.seq))
        steps = around.play(hooks, job, partial(task.function, **args), judge, refusal=reason)
        if not task.is_async:
            return context.run(around.drive, steps, self.await_in_loop, self.end_if_forked)

        async def shell() -> bytes | verdict.Report:
            self.current[job.seq] = (job, asyncio.current_task())
            return await around.drive_async(steps, self.end_if_forked)

        try:
            return context.run(asyncio.run_coroutine_threadsafe, shell(), self.loop).result()
        except BaseException as error:  # noqa: BLE001 - as that of a coroutine which has cancelled itself and returned
            return self.judge_error(task, document, error)

    def await_in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def renounce(self) -> None:
        """In a process that a task has forked: it is no worker, and must not speak or act as one."""
        self.is_forked = True
        self.connection.close()
        self.board.detach()
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            signal.signal(number, usual)
        self.loop.call_soon(os._exit, 0)  # where an async task forked, and waits: the jobs beside it are not its own

    def end_if_forked(self, error: BaseException | None = None) -> None:
        """A process that a task has forked comes back out of that task's function: it ends, as a program would."""
        if self.is_forked:
            code = error.code if isinstance(error, SystemExit) else int(error is not None)
            os._exit(code if isinstance(code, int) else int(code is not None))

    def note_progress(self, job: current.CurrentJob, value: float, note: str) -> None:
        job.newest_progress = (value, verdict.printable(note))

    def was_cancelled(self, seq: int) -> bool:
        job, _ = self.current.get(seq, (None, None))
        return job is not None and job.cancelled


def _or_end(target: Callable[..., None], *args: Any) -> None:
    """Run a thread of the worker; without one of them the process is of no use, and its master must see that."""
    try:
        target(*args)
    except BaseException:  # noqa: BLE001 - the top of a thread
        traceback.print_exc()
        os._exit(70)


def _end_group() -> NoReturn:
    """End this process, and what its tasks have started as long as it is in the same group."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _place(error: BaseException) -> str:
    """Where in the user's files an import failed; nothing if it failed in none of them."""
    machinery = ("<frozen", __file__, f"{Path(inspect.getfile(load)).parent}{os.sep}", inspect.getfile(importlib))
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(machinery)]
    return f" ({os.path.relpath(own[-1].filename)}:{own[-1].lineno})" if own else ""


def _end_with_parent() -> None:
    """Ask Linux to end this process when its master ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main(arguments: Sequence[str]) -> None:
    """`python -m tontine_node.worker.main INDEX CONNECTION-FD BOARD-FD PROCESSES SLOTS PARENT LOG MODULE...`"""
    index, connection_fd, board_fd, processes, slots, parent = map(int, arguments[:6])
    log, modules = LogStyle.parse(arguments[6]), arguments[7:]
    _end_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    # Only the master decides when a worker ends. Not SIG_IGN, which programs that a task starts would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for fd in (connection_fd, board_fd):
        os.set_inheritable(fd, False)
    connection = socket.socket(fileno=connection_fd)
    board = Board(board_fd, processes, slots)
    capture.shield()
    try:
        library = load(modules)
    except ConfigError as error:
        connection.sendall(pipe.pack({"broken": [f"{error}{_place(error)}"]}))
        return
    except BaseException as error:  # noqa: BLE001 - a user's module may raise anything while it is imported
        text = f"{', '.join(modules)} cannot be imported: {type(error).__name__}: {error}{_place(error)}"
        connection.sendall(pipe.pack({"broken": [text]}))
        return
    worker = Worker(index, connection, board, library)
    worker.output, worker.tells_begin = capture.install(as_json=log.as_json), log.verbose
    worker.run()


if __name__ == "__main__":
    importlib.invalidate_caches()
    main(sys.argv[1:])
