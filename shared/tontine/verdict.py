"""What a run means for its job: its result, or why there is none, as a worker reports it. Pure."""

from __future__ import annotations

import concurrent.futures
import inspect
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, NamedTuple

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

from . import backoff
from .errors import Retry
from .module import Task
from .rules import attempt
from .storable import unstorable

RESULT_LIMIT = 16 * 1024 * 1024 - 16 * 1024
_TIME = 12
"""Bytes that the time it ran takes beside the result."""

CODEC: CodecOptions[Any] = CodecOptions(
    tz_aware=True,
    uuid_representation=4,
    unicode_decode_error_handler="replace",
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)

_CALLERS = (
    "tontine.around",
    "tontine.stages",
    "tontine.staging",
    "tontine.testing.",
    "tontine_node.worker.",
    "asyncio.",
    "concurrent.futures.",
)
"""Modules between a slot and a task, or a hook."""

Kind = Literal["retry", "failed", "refused", "cancelled"]


class NoResult(NamedTuple):
    """How an attempt ended that has no result to store; all of it can be stored itself."""

    kind: Kind
    type: str
    message: str
    traceback: str = ""
    delay: float = 0.0
    """Seconds until the next attempt, if there is one."""


def ended(kind: Kind, type: str, message: str, trace: str = "", delay: float = 0.0) -> NoResult:
    """It ended without a result, whatever its texts are."""
    return NoResult(kind, printable(type), printable(message), printable(trace), delay)


def of_error(
    task: Task,
    document: Mapping[str, Any],
    error: BaseException,
    *,
    cancelled: bool,
    limit: float | None,
) -> NoResult:
    """What an exception means, also one that cannot be printed, or whose backoff fails.

    Its traceback begins in the user's code from here on, for hooks and reports of errors as well.
    """
    BaseException.with_traceback(error, _theirs(error.__traceback__))
    try:
        return _judge(task, document, error, cancelled=cancelled, limit=limit)
    except Exception as trouble:  # noqa: BLE001 - both are the user's code
        kind, why = type(error).__name__, type(trouble).__name__
        return ended(
            "failed", kind, f"it failed, and so did saying how or when to try again ({why})"
        )


def _judge(
    task: Task,
    document: Mapping[str, Any],
    error: BaseException,
    *,
    cancelled: bool,
    limit: float | None,
) -> NoResult:
    """`limit` is the time limit that the job has passed, if any."""
    fails = int(document.get("fails") or 0) + 1
    text = "".join(traceback.format_exception(error))
    described = (type(error).__name__, str(error) or type(error).__name__, text)
    if cancelled:
        return ended("cancelled", *described)
    if limit is not None and isinstance(error, concurrent.futures.CancelledError):
        error = too_late(limit)
        described = ("TimeoutError", str(error), "")
    allowed = attempt.allowed(int(document.get("max_attempts") or 0), task.max_attempts)
    again_in = attempt.again_in(
        fails,
        allowed,
        may_help=task.retries(error),
        delay=lambda: _wanted_delay(task, fails, error),
    )
    if again_in is None:
        return ended("failed", *described)
    return ended("retry", *described, delay=again_in)


def _wanted_delay(task: Task, fails: int, error: BaseException) -> float:
    if isinstance(error, Retry) and error.in_ is not None:
        return error.in_
    return backoff.delay_before(fails, task.backoff)


def _theirs(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the first place that is not of what calls tasks; all of it if there is no
    such place."""
    begin = trace
    while begin is not None and _module_of(begin).startswith(_CALLERS):
        begin = begin.tb_next
    return begin or trace


def _module_of(trace: TracebackType) -> str:
    # A worker's own is `__main__` by its `__name__`.
    names = trace.tb_frame.f_globals
    return str(getattr(names.get("__spec__"), "name", None) or names.get("__name__"))


def too_late(limit: float) -> TimeoutError:
    """The error of an attempt that was ended at its time limit."""
    return TimeoutError(f"it ran longer than its time limit of {limit:g} s")


def encode(result: Any) -> bytes | NoResult:
    """What the task returned as BSON; how it ended if that is impossible or too much."""
    try:
        encoded = bson.encode({"r": result}, codec_options=CODEC)
    except Exception as error:  # noqa: BLE001 - bson raises errors of many types
        return ended("refused", "UnstorableResult", unstorable_text(result, error))
    if len(encoded) > RESULT_LIMIT - _TIME:
        size = f"{len(encoded) / 1024 / 1024:.1f} MB"
        return ended("refused", "ResultTooLarge", f"the result has {size}; MongoDB stores 16 MB")
    return encoded


def unstorable_text(result: Any, error: Exception, what: str = "result") -> str:
    """Why what a function returned cannot be stored."""
    if inspect.iscoroutine(result):
        result.close()
        return (
            "the task returned a coroutine that nobody awaits: it is async in a wrapper that "
            "is not; make that async"
        )
    return (
        unstorable(result, what)
        or f"the {what} ({type(result).__name__}) cannot be stored as BSON: {error}"
    )


def delays(task: Task) -> list[float]:
    """A task's backoff as its master needs it, which runs no code of the user's."""
    try:
        return [
            attempt.bounded(backoff.delay_before(fails, task.backoff))
            for fails in range(1, min(task.max_attempts, 10))
        ]
    except Exception:  # noqa: BLE001 - the user's code: it is judged when a job needs it
        return []


def printable(text: str) -> str:
    """The end of a text, without the lone surrogates that fit neither JSON nor BSON."""
    return text[-20_000:].encode("utf-8", "backslashreplace").decode()


def with_time(encoded: bytes, ran: float) -> bytes:
    """The document {"r": result} with the milliseconds it ran appended as an int64 `ms`, without
    encoding it again."""
    size = len(encoded) + _TIME
    return (
        size.to_bytes(4, "little")
        + encoded[4:-1]
        + b"\x12ms\x00"
        + round(ran * 1000).to_bytes(8, "little")
        + b"\x00"
    )


def with_counts(encoded: bytes, counts: Mapping[str, Any]) -> bytes:
    """Such a document with what the job has counted as `c`."""
    more = bson.encode({"c": counts})
    size = len(encoded) + len(more) - 5
    return size.to_bytes(4, "little") + encoded[4:-1] + more[4:]
