"""What runs around a task: the hooks of its module, in the context of the task, so that each sees
what the others set.

The order is a generator of steps; a sync task's are made in a thread of its own, an async task's in
the event loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from .current import CurrentJob
from .errors import TontineError
from .function import is_async
from .hooks import Ended, Hooks
from .verdict import NoResult, ended

log = logging.getLogger("tontine.hooks")

T = TypeVar("T")

End = bytes | NoResult
Call = Callable[[], Any]
Steps = Generator[tuple[Call, bool], Any, T]
"""What to call, and whether to await what it gives."""
Await = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine in an event loop, for a thread that has none, and gives what it returns."""
Check = Callable[[BaseException | None], None]
"""Called after each step, with what it raised."""


@dataclass(frozen=True, slots=True)
class Judge:
    """What an attempt means for its job, whether it raised or returned."""

    of_error: Callable[[BaseException], NoResult]
    of_result: Callable[[Any], End]


ENDS_LOOPS = (SystemExit, KeyboardInterrupt)
"""What leaves a coroutine through the event loop, and ends that for all others."""


@dataclass(frozen=True, slots=True)
class Raised:
    """Such an error on its way out of the loop as a value."""

    error: BaseException


def unpacked(value: Any) -> Any:
    """What came out of the loop; raises what was raised in it."""
    if isinstance(value, Raised):
        raise value.error
    return value


async def _packed(awaitable: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await awaitable
    except ENDS_LOOPS as error:
        return Raised(error)


def start(hooks: Iterable[Callable[[], Any]], loop: asyncio.AbstractEventLoop) -> None:
    """Call the hooks for a worker's start; one that fails is logged, and the worker works without
    it."""
    for hook in hooks:
        try:
            made = hook()
            if is_async(hook):
                unpacked(loop.run_until_complete(_packed(made)))
        except BaseException:  # the user's code may raise anything, also SystemExit
            log.exception("the hook %s failed at the worker's start", _name(hook))


def play(
    hooks: Hooks, job: CurrentJob, work: Call, judge: Judge, *, refusal: str | None = None
) -> Steps[End]:
    """The steps of one attempt. Whatever a hook raises after the task was called, the end stays
    what it is.

    With a `refusal` the task cannot be called: only who waits for a failure hears of that.
    """
    if refusal:
        end, told = _told(ended("refused", "InvalidArguments", refusal))
        yield from _after(hooks.failed, job, told)
        return end
    try:
        for hook in hooks.before:
            yield partial(hook, job), is_async(hook)
        result = yield work, is_async(work)
    except BaseException as error:  # noqa: BLE001 - as without hooks: it fails that job only
        end, told = _told(judge.of_error(_as_outside(error)), error=error)
    else:
        end, told = _told(judge.of_result(result), result=result)
    yield from _after(hooks.after, job, told)
    if told.outcome == "failed":
        yield from _after(hooks.failed, job, told)
    return end


def drive(steps: Steps[T], await_: Await, check: Check) -> T:
    """Make all steps in this thread, but those that await."""

    def make(call: Call, awaits: bool) -> Any:
        return unpacked(await_(_packed(call()))) if awaits else call()

    try:
        step = next(steps)
        while True:
            try:
                made = make(*step)
            except BaseException as error:  # noqa: BLE001 - the steps judge it
                check(error)
                step = steps.throw(error)
            else:
                check(None)
                step = steps.send(made)
    except StopIteration as end:
        return cast("T", end.value)


async def drive_async(steps: Steps[T], check: Check) -> T:
    """Make all steps in the event loop."""
    try:
        step = next(steps)
        while True:
            call, awaits = step
            try:
                made = await call() if awaits else call()
            except BaseException as error:  # noqa: BLE001 - the steps judge it
                check(error)
                step = steps.throw(error)
            else:
                check(None)
                step = steps.send(made)
    except StopIteration as end:
        return cast("T", end.value)


def _after(
    hooks: Iterable[Callable[[CurrentJob, Ended], Any]], job: CurrentJob, told: Ended
) -> Generator[tuple[Call, bool], Any, None]:
    for hook in hooks:
        try:
            yield partial(hook, job, told), is_async(hook)
        except BaseException:  # the user's code may raise anything, also SystemExit
            log.exception("the hook %s failed; job %d stays %s", _name(hook), job.seq, told.outcome)


def _told(end: End, *, result: Any = None, error: BaseException | None = None) -> tuple[End, Ended]:
    """The end, and what the hooks are told of it."""
    if isinstance(end, bytes):
        return end, Ended("done", result)
    if end.kind == "refused":
        return end, Ended("failed", error=TontineError(f"{end.type}: {end.message}"))
    if end.type == "TimeoutError" and isinstance(error, asyncio.CancelledError):
        error = TimeoutError(end.message)
    return end, Ended(end.kind, None, error, end.delay if end.kind == "retry" else None)


def _as_outside(error: BaseException) -> BaseException:
    """A cancellation as whoever waits for an async task sees it."""
    return (
        concurrent.futures.CancelledError() if isinstance(error, asyncio.CancelledError) else error
    )


def _name(hook: Any) -> str:
    return str(getattr(hook, "__qualname__", None) or repr(hook)[:100])
