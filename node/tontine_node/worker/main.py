"""The worker process: it loads the modules, opens its connections, reads orders and writes reports.
It has none to the database.

Threads: one reads orders, one for each slot runs them, one writes reports (many to a frame), one
watches the lease and the master. Async tasks share one event loop, in the main thread.
"""

from __future__ import annotations

import asyncio
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tontine import around, verdict
from tontine.clock import SystemClock
from tontine.context import Context, run_in
from tontine.context_profile import load_profile
from tontine.errors import ConfigError
from tontine.module import Library, load

from ..config import ContextConfig
from ..log_style import LogStyle
from ..running import declared, pipe
from ..running.board import Board
from . import capture
from .lifeline import Lifeline, end_group, end_with_parent
from .opening import Opening
from .pages import Pages
from .postbox import Postbox
from .run import Runner
from .slots import Slots

LINGER = 0.002
REPORTS_AT_ONCE = 1000
BYTES_AT_ONCE = 4 * 1024 * 1024


class Worker:
    """One worker process."""

    def __init__(
        self,
        index: int,
        connection: socket.socket,
        board: Board,
        library: Library,
        context: Context | None = None,
    ) -> None:
        clock = SystemClock()
        self.connection = connection
        self.board = board
        self.library = library
        self.outbox: queue.SimpleQueue[pipe.Report | None] = queue.SimpleQueue()
        """None is the end: what was said before it is sent, and the process ends."""
        self.postbox = Postbox(self.outbox.put)
        self.pages = Pages(self.outbox.put)
        self.loop = asyncio.new_event_loop()
        self.opening = Opening(context, self.loop)
        self.retired = asyncio.Event()
        self.lifeline = Lifeline(index, board, clock)
        self.runner = Runner(library, self.loop, self.outbox.put, self.postbox.ask, self.pages)
        self.slots = Slots(index, board, clock, self.lifeline, self.runner, self.outbox.put)

    def run(self) -> None:
        """Serve until it is retired, the master closes the connection or the lease runs out."""
        os.register_at_fork(after_in_child=self.renounce)
        writing, *others = (
            threading.Thread(target=_or_end, args=(target,), daemon=True)
            for target in (self.write_reports, self.read_orders, self.watch)
        )
        for thread in (writing, *others):
            thread.start()
        for slot in range(self.board.slots):
            name = f"slot-{slot}"
            threading.Thread(
                target=_or_end, args=(self.slots.serve, slot), daemon=True, name=name
            ).start()
        if broken := self.opening.get_ready():
            self.outbox.put(broken)
        else:
            around.start(self.library.start_hooks(), self.loop)
            self.outbox.put(describe(self.library))
            self.loop.run_until_complete(self.retired.wait())
        self.opening.close()
        self.outbox.put(None)
        writing.join()

    def read_orders(self) -> None:
        while frame := pipe.read(self.connection):
            orders = pipe.Orders.unpack(*frame)
            if orders.states:
                self.runner.take_states(orders.states)
            for seq, kept in orders.resume:  # before their orders
                self.runner.desk.take_kept(seq, kept)
            if orders.run:
                self.slots.take(orders.run)
            if orders.recall:
                self.slots.give_back()
            if orders.submitted is not None:
                self.postbox.take_answer(*orders.submitted)
            for answer in orders.staged:
                self.runner.desk.take_answer(answer)
            for page in orders.pages:
                self.pages.take_answer(page)
            for seq in orders.cancel:
                self.runner.cancel(seq)
            for seq, limit in orders.expire:
                self.runner.expire(seq, limit)
            if orders.retire:
                self.loop.call_soon_threadsafe(self.retired.set)
        end_group()  # the master is gone: nobody may learn what this worker would do next (N6)

    def write_reports(self) -> None:
        is_over = False
        while not is_over:
            reports, is_over = self._gather()
            try:
                self.connection.sendall(pipe.pack_reports(reports))
            except OSError:
                break
        os._exit(0)

    def _gather(self) -> tuple[list[pipe.Report], bool]:
        """What is to be said next, in one frame; and whether nothing comes after it."""
        report = self.outbox.get()
        if self.slots.inbox:
            # Its slots have enough to do: a frame of many costs no more than a frame of one.
            time.sleep(LINGER)
        reports: list[pipe.Report] = []
        size = 0
        while report is not None:
            reports.append(report)
            size += pipe.size_of(report)
            if len(reports) == REPORTS_AT_ONCE or size >= BYTES_AT_ONCE or self.outbox.empty():
                return reports, False
            report = self.outbox.get()
        return reports, True

    def watch(self) -> None:
        """Watch the lease and the master, and send on what the jobs have to say."""
        while True:
            self.runner.rest()
            self.lifeline.check()
            self.runner.say_all_news()

    def renounce(self) -> None:
        """In a process that a task has forked: it is no worker, and must not speak or act as
        one."""
        self.runner.is_forked = True
        self.connection.close()
        self.board.detach()
        for number, usual in (
            (signal.SIGINT, signal.default_int_handler),
            (signal.SIGTERM, signal.SIG_DFL),
        ):
            signal.signal(number, usual)
        self.loop.call_soon(
            os._exit, 0
        )  # where an async task forked, and waits: the jobs beside it are not its own


def describe(library: Library) -> pipe.Hello:
    """What a worker says of its modules when it has loaded them."""
    tasks = {
        task.name: pipe.TaskFacts(
            task.on_lost,
            task.is_async,
            task.timeout,
            task.max_attempts,
            verdict.delays(task),
            task.retries(TimeoutError()),
            task.saves,
            [one.timeout for one in task.staged.stages] if task.staged else (),
        )
        for module in library.modules
        for task in module.tasks.values()
    }
    return pipe.Hello(library.describe(), tasks, declared.pack(library))


def _or_end(target: Callable[..., None], *args: Any) -> None:
    """Run a thread of the worker; without one of them the process is of no use, and its master must
    see that."""
    try:
        target(*args)
    except BaseException:  # noqa: BLE001 - the top of a thread
        traceback.print_exc()
        os._exit(70)


def _load(context: ContextConfig) -> tuple[Library, Context | None] | pipe.BrokenModules:
    begun: list[str] = []

    def begin(source: str) -> str:
        begun.append(source)
        return source

    try:
        library = load(begin(source) for source in context.modules)
        return library, load_profile(begin(context.profile)) if context.profile else None
    except ConfigError as error:
        return pipe.BrokenModules(f"{error}{_place(error)}", "configuration", begun[-1])
    except BaseException as error:  # noqa: BLE001 - a user's module may raise anything while it is imported
        why = f"{begun[-1]} cannot be imported: {type(error).__name__}: {error}{_place(error)}"
        return pipe.BrokenModules(why, source=begun[-1])


def _place(error: BaseException) -> str:
    """Where in the user's files an import failed; nothing if it failed in none of them."""
    machinery = (
        "<frozen",
        __file__,
        f"{Path(inspect.getfile(load)).parent}{os.sep}",
        inspect.getfile(importlib),
    )
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(machinery)
    ]
    return f" ({os.path.relpath(own[-1].filename)}:{own[-1].lineno})" if own else ""


def main(arguments: Sequence[str]) -> None:
    """`python -m tontine_node.worker.main INDEX CONNECTION-FD BOARD-FD PROCESSES SLOTS PARENT LOG
    CONTEXT`, the last as `ContextConfig.argument()` writes it."""
    index, connection_fd, board_fd, processes, slots, parent = map(int, arguments[:6])
    log, context = LogStyle.parse(arguments[6]), ContextConfig.of_argument(arguments[7])
    end_with_parent(parent)
    # Only the master decides when a worker ends. Not SIG_IGN, which programs that a task starts
    # would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for fd in (connection_fd, board_fd):
        os.set_inheritable(fd, False)
    connection = socket.socket(fileno=connection_fd)
    board = Board(board_fd, processes, slots)
    capture.shield()
    run_in(context.name)
    loaded = _load(context)
    if isinstance(loaded, pipe.BrokenModules):
        connection.sendall(pipe.pack_reports([loaded]))
        return
    worker = Worker(index, connection, board, *loaded)
    worker.runner.output = capture.install(as_json=log.as_json)
    worker.runner.tells_begin = log.verbose
    worker.run()


if __name__ == "__main__":
    importlib.invalidate_caches()
    main(sys.argv[1:])
