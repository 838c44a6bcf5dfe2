"""Making an attempt as a worker does: in a context of its own that has the job, sync code where no
event loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, TypeVar

from ..around import Await, Steps, drive, drive_async
from ..current import CurrentJob, enter
from ..function import is_async

T = TypeVar("T")

# Not KeyboardInterrupt, nor what a test framework raises to end a test: those are about the test,
# not about the job.
_OF_THE_TASK = (Exception, SystemExit, asyncio.CancelledError)


def alone(function: Any, args: Mapping[str, Any]) -> Steps[tuple[Any, BaseException | None]]:
    """The one step of a task without hooks: what it returned, or what it raised."""
    try:
        return (yield partial(function, **args), is_async(function)), None
    except BaseException as error:  # noqa: BLE001 - a task may raise anything
        return None, error


def call(steps: Steps[T], job: CurrentJob, *, is_async: bool) -> T:
    """Make the steps of a sync or async task and wait for their end, also from code that an event
    loop runs."""
    context, making = _context_of(job), _Making(steps)
    make = making.make_apart if is_async else making.make_here
    if not _is_in_loop():
        context.run(make)
    else:
        with ThreadPoolExecutor(1) as apart:
            apart.submit(context.run, make).result()
    return making.ended()


async def acall(steps: Steps[T], job: CurrentJob, *, is_async: bool) -> T:
    """Make them from an event loop: those of an async task in this loop, those of a sync one beside
    it."""
    context, making = _context_of(job), _Making(steps)
    loop = asyncio.get_running_loop()
    if not is_async:
        await loop.run_in_executor(None, context.run, making.make, _awaiting_in(loop))
        return making.ended()
    try:
        await loop.create_task(making.make_async(), context=context)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():  # the caller is to end, not only the task
            raise
    return making.ended()


class _Making(Generic[T]):
    """What became of the steps of one attempt."""

    def __init__(self, steps: Steps[T]) -> None:
        self.steps = steps
        self.end: list[T] = []
        self.about_the_test: list[BaseException] = []

    def note(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, _OF_THE_TASK):
            self.about_the_test.append(error)

    def make(self, await_: Await) -> None:
        self.end.append(drive(self.steps, await_, self.note))

    def make_here(self) -> None:
        runner = asyncio.Runner()  # it has a loop only if it is needed
        try:
            self.make(lambda coroutine: runner.run(coroutine, context=copy_context()))
        finally:
            runner.close()

    def make_apart(self) -> None:
        try:
            asyncio.run(self.make_async())
        except asyncio.CancelledError:
            if not self.end:
                raise

    async def make_async(self) -> None:
        self.end.append(await drive_async(self.steps, self.note))
        current = asyncio.current_task()
        if (
            current is not None and current.cancelling()
        ):  # the steps were told, and so must be whoever waits: Ctrl-C
            raise asyncio.CancelledError

    def ended(self) -> T:
        for error in self.about_the_test:
            raise error
        return self.end[0]


def _awaiting_in(loop: asyncio.AbstractEventLoop) -> Await:
    return lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result()


def _context_of(job: CurrentJob) -> Context:
    context = copy_context()
    context.run(enter, job)
    return context


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
