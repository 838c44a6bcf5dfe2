"""Calling a task as a worker does: in a context of its own that has the job, sync code where no event loop runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any

from ..current import CurrentJob, enter

Ended = tuple[Any, BaseException | None]
"""What a task returned, or what it raised."""

# Not KeyboardInterrupt, nor what a test framework raises to end a test: those are about the test, not about the job.
_OF_THE_TASK = (Exception, SystemExit, asyncio.CancelledError)


def call(function: Callable[..., Any], job: CurrentJob, args: Mapping[str, Any]) -> Ended:
    """Call it and wait for its end, also from code that an event loop runs."""
    context = _context_of(job)
    if not _is_in_loop():
        return context.run(_end_of, function, args)
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(context.run, _end_of, function, args).result()


async def acall(function: Callable[..., Any], job: CurrentJob, args: Mapping[str, Any]) -> Ended:
    """Call it from an event loop: an async task in this loop, a sync one beside it."""
    context = _context_of(job)
    loop = asyncio.get_running_loop()
    if not inspect.iscoroutinefunction(function):
        return await loop.run_in_executor(None, lambda: context.run(_end_of, function, args))
    try:
        return await loop.create_task(_async_end_of(function, args), context=context)
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is not None and current.cancelling():  # the caller is to end, not only the task
            raise
        return None, error


def _context_of(job: CurrentJob) -> Context:
    context = copy_context()
    context.run(enter, job)
    return context


def _end_of(function: Callable[..., Any], args: Mapping[str, Any]) -> Ended:
    try:
        if inspect.iscoroutinefunction(function):
            return asyncio.run(function(**args)), None
        return function(**args), None
    except _OF_THE_TASK as error:
        return None, error


async def _async_end_of(function: Callable[..., Any], args: Mapping[str, Any]) -> Ended:
    try:
        return await function(**args), None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a task may raise anything
        return None, error


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
