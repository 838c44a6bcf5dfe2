"""`current_job().submit(...)`: jobs that a task submits through its node, without a connection of
its own.

Here they get their names and become requests; who sends a request, and where to, is left to whoever
runs the task.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, Unpack

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError

from . import hooks
from .calls import AnyTask, Args, TaskCall, named, named_many
from .errors import ConfigError, TontineError, Unstorable
from .family import child_id, name_problem
from .options import BatchOptions, JobOptions, given
from .records.job import LARGEST, Job, utc

JOBS_AT_ONCE = 500
BYTES_AT_ONCE = 1024 * 1024

_CODEC: CodecOptions[Any] = CodecOptions(tz_aware=True, uuid_representation=4)
_naming = threading.Lock()


@dataclass(frozen=True, slots=True)
class ChildRequest:
    """Some jobs that a task wants in the queue."""

    parent: int
    attempt: int
    wish: dict[str, Any]
    """The task and whatever else they have in common, by the names that `submit` has for it."""
    names: list[str]
    args: list[bytes]
    """The arguments of each, as BSON."""
    is_counted: bool
    """Whether the names are numbers in the order of the calls, and not the task's own."""


_KEPT = ("task", "run_at", "priority", "key", "max_attempts", "timeout", "unique_for")

Send = Callable[[ChildRequest], "Future[list[Job]]"]


def send_nowhere(_: ChildRequest) -> NoReturn:
    raise TontineError("nobody is here who could submit jobs for this one")


def recorded(into: list[Job]) -> Send:
    """For tests: what a task submits is put here, and counts as inserted."""

    def record(request: ChildRequest) -> Future[list[Job]]:
        jobs = [
            Job(
                id=child_id(request.parent, name),
                seq=request.parent + len(into) + place,
                args=bson.decode(args, _CODEC),
                parent=request.parent,
                meta=request.wish.get("meta") or {},
                **{field: request.wish[field] for field in _KEPT if field in request.wish},
            )
            for place, (name, args) in enumerate(zip(request.names, request.args, strict=True), 1)
        ]
        into.extend(jobs)
        done: Future[list[Job]] = Future()
        done.set_result(jobs)
        return done

    return record


class Parent:
    """A running job as the parent of those that it submits."""

    __slots__ = ("_counted", "_send")

    seq: int
    attempt: int

    def __init__(self, send: Send) -> None:
        self._send = send
        self._counted = 0

    def submit(
        self,
        task: AnyTask,
        args: Args = None,
        *,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Job:
        """Add one job through this node; it is in the queue when this returns, and once, however
        often the task runs.

        A later run of the same job that makes the same calls in the same order gets the same jobs,
        marked `existed`. Where the order may differ, give each a `name`, unique among this job's
        own.
        """
        self._refuse_in_event_loop("submit")
        task_name, args = named(task, args)
        with hooks.submitting(task_name, options.get("meta")) as meta:
            wish = _wish(task_name, {**options, "meta": meta})
            (job,) = self._send(self._request(wish, args, name)).result()
        return job

    def submit_async(
        self,
        task: AnyTask,
        args: Args = None,
        *,
        name: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Coroutine[Any, Any, Job]:
        """The same as `submit`, for `await` in an async task. Jobs are counted when this is
        called."""
        task_name, args = named(task, args)
        with hooks.submitting(task_name, options.get("meta")) as meta:
            wish = _wish(task_name, {**options, "meta": meta})
        return self._one(self._request(wish, args, name))

    def submit_many(
        self, task: AnyTask, many: Iterable[Args | TaskCall], **options: Unpack[BatchOptions]
    ) -> list[Job]:
        """Add one job per arguments, counted one after another; they go in some hundred at a
        time."""
        self._refuse_in_event_loop("submit_many")
        task_name, each = named_many(task, many)
        with hooks.submitting(task_name, options.get("meta")) as meta:
            wish = _wish(task_name, {**options, "meta": meta})
            return [
                job
                for request in self._requests(wish, each)
                for job in self._send(request).result()
            ]

    def submit_many_async(
        self, task: AnyTask, many: Iterable[Args | TaskCall], **options: Unpack[BatchOptions]
    ) -> Coroutine[Any, Any, list[Job]]:
        """The same as `submit_many`, for `await` in an async task. Jobs are counted when this is
        called."""
        task_name, each = named_many(task, many)
        with hooks.submitting(task_name, options.get("meta")) as meta:
            wish = _wish(task_name, {**options, "meta": meta})
        return self._all(self._requests(wish, each))

    async def _one(self, request: ChildRequest) -> Job:
        (job,) = await asyncio.wrap_future(self._send(request))
        return job

    async def _all(self, requests: Iterator[ChildRequest]) -> list[Job]:
        jobs: list[Job] = []
        for request in requests:
            some = await asyncio.wrap_future(self._send(request))
            jobs += some
        return jobs

    def _request(self, wish: dict[str, Any], args: Args, name: str | None) -> ChildRequest:
        if name is not None and (reason := name_problem(name)):
            raise ConfigError(f"this cannot be a job: {reason}")
        _check(wish)
        encoded = _encoded(wish, args)
        names = [str(self._count(1))] if name is None else [name]
        return ChildRequest(self.seq, self.attempt, wish, names, [encoded], name is None)

    def _requests(self, wish: dict[str, Any], many: Iterable[Args]) -> Iterator[ChildRequest]:
        """All are counted now, whenever they are sent."""
        _check(wish)
        everything = list(many)
        first = self._count(len(everything))
        return self._chunks(wish, everything, first)

    def _chunks(self, wish: dict[str, Any], many: list[Args], first: int) -> Iterator[ChildRequest]:
        while many:
            encoded: list[bytes] = []
            size = 0
            while len(encoded) < min(JOBS_AT_ONCE, len(many)) and size < BYTES_AT_ONCE:
                encoded.append(_encoded(wish, many[len(encoded)]))
                size += len(encoded[-1])
            names = [str(first + place) for place in range(len(encoded))]
            yield ChildRequest(self.seq, self.attempt, wish, names, encoded, is_counted=True)
            many, first = many[len(encoded) :], first + len(encoded)

    def _count(self, number: int) -> int:
        """Take so many numbers; the first of them."""
        with _naming:
            first = self._counted + 1
            self._counted += number
        return first

    def _refuse_in_event_loop(self, name: str) -> None:
        """To wait there would stop every async task of the worker, and nobody would see why."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise ConfigError(
            f"{name} waits, and would stop the event loop: `await current_job().{name}_async(...)`"
        )


def _wish(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """As `Wish` has it, which comes with the driver: workers do not load that."""
    wish = {"task": task, **given(options)}
    if isinstance(wish.get("run_at"), datetime):
        wish["run_at"] = utc(wish["run_at"])
    return wish


def _check(wish: dict[str, Any]) -> None:
    """Refuse what cannot be sent. What else is wrong with a job is said where it is inserted."""
    try:
        bson.encode(wish, codec_options=_CODEC)
    except (BSONError, OverflowError, UnicodeError) as error:
        _refuse(wish, None, error)


def _encoded(wish: dict[str, Any], args: Args) -> bytes:
    if args is not None and not isinstance(args, Mapping):
        _refuse(wish, args, TypeError(f"`args` is {type(args).__name__}"))
    try:
        encoded = bson.encode(args or {}, codec_options=_CODEC)
    except (BSONError, OverflowError, UnicodeError) as error:
        _refuse(wish, args, error)
    if len(encoded) > LARGEST:
        _refuse(wish, args, ValueError(f"it has {len(encoded)} bytes"))
    return encoded


def _refuse(wish: dict[str, Any], args: Any, error: Exception) -> NoReturn:
    """In the words that `Client.submit` has for it; they come with the driver, which workers do not
    load otherwise."""
    from .store.insert import Wish, refuse_unfit

    refuse_unfit(Wish(**wish), [args])
    raise Unstorable(f"MongoDB cannot store this: {error}") from error
