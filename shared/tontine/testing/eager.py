"""An eager queue: stands in for a client in unit tests, without MongoDB, and runs jobs where they
are submitted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, TypeVar, Unpack, overload

from ..around import End
from ..async_client import AsyncClient
from ..awaiting import judged
from ..calls import AnyTask, Args, TaskCall, named, named_many
from ..client import Client
from ..config import Duration, seconds
from ..errors import ConfigError
from ..filter import Filter, Filters
from ..module import Library, Module, load
from ..plan import Plan
from ..plan_calls import Planned
from ..records.batch import Batch
from ..records.job import Job
from ..records.schedule import Schedule, Standing
from ..store.insert import Wish
from .calling import acall, call
from .memory import Memory, Steps

T = TypeVar("T")

BREATH = 0.001


class _NoStore:
    """In the place of a client's connection: what an eager queue does not do itself ends here."""

    def run(self, steps: Any, **_: Any) -> NoReturn:
        steps.close()
        raise _no_mongodb()

    def __getattr__(self, name: str) -> NoReturn:
        raise _no_mongodb()


def _no_mongodb() -> ConfigError:
    return ConfigError(
        "an EagerQueue has no MongoDB to do this with: use the fixture tontine_queue for this test"
    )


def _library(modules: Sequence[Module | str]) -> Library:
    """Modules themselves, or their names as `tontine node` takes them."""
    given = [module for module in modules if isinstance(module, Module)]
    named = load([module for module in modules if isinstance(module, str)])
    return Library((*given, *(module for module in named.modules if module not in given)))


class EagerQueue(Client):
    """A client whose jobs run in this process as they are submitted, on documents in memory.

    It takes modules, or their names as `tontine node` does; without any it only remembers what was
    submitted. Its clock, `now`, stands still until `advance` moves it. With `at_once=False` jobs
    wait for `run`. With `schedules=True` it has the schedules that its modules declare, and
    `advance` fires them.
    """

    def __init__(
        self,
        *modules: Module | str,
        at_once: bool = True,
        now: datetime | None = None,
        schedules: bool = False,
    ) -> None:
        self._owned = False
        self._store: Any = _NoStore()
        self._reserve: Any = None
        self._memory = Memory(_library(modules), now, at_once=at_once, declared=schedules)

    @property
    def now(self) -> datetime:
        """The time by the queue's own clock."""
        return self._memory.now

    def submit(self, task: AnyTask, args: Args = None, **options: Any) -> Job:
        """Add one job, with the options of a client, and run what is due; the job as it was
        added."""
        name, args = named(task, args)
        return self._drive(self._memory.submit(_wish_of(name, options), args))

    def submit_many(
        self,
        task: AnyTask,
        many: Iterable[Args | TaskCall],
        *,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> Batch:
        """Add one job per arguments, with the options of a client, and run what is due."""
        name, each = named_many(task, many)
        steps = self._memory.submit_many(_wish_of(name, options), each)
        return _told(self._drive(steps), progress)

    @overload  # type: ignore[override]  # plans take a node, or run_plan
    def wait(self, jobs: Job, timeout: float | None = None, *, raises: bool = False) -> Job: ...
    @overload
    def wait(
        self, jobs: Sequence[Job], timeout: float | None = None, *, raises: bool = False
    ) -> list[Job]: ...
    def wait(
        self, jobs: Job | Sequence[Job], timeout: float | None = None, *, raises: bool = False
    ) -> Job | list[Job]:
        """The job (or all of the jobs) as it ended; the clock moves on to what is due later, at
        most by `timeout`."""
        many = [jobs] if isinstance(jobs, Job) else list(jobs)
        ended = judged(self._drive(self._memory.wait(many, timeout)), raises)
        return ended[0] if isinstance(jobs, Job) else ended

    def get(self, job: Any = None, *, key: str | None = None) -> Job:
        """One job as it is now."""
        return self._memory.get(job, key)

    def cancel(self, job: Any = None, *, key: str | None = None) -> Job:  # type: ignore[override]
        """Cancel a queued job at once; ask a running one to end."""
        return self._memory.cancel(job, key)

    def retry(self, job: Any = None, *, key: str | None = None) -> Job:  # type: ignore[override]
        """Put a finished job back in the queue, and run what is due."""
        return self._drive(self._memory.retry(job, key))

    def submitted(self, task: str | None = None) -> list[Job]:
        """All jobs that were submitted, or those of one task, as they are now and in the order in
        which they came."""
        return self._memory.submitted(task)

    def run(self) -> list[Job]:
        """Run all that is due now; the jobs that were run."""
        return self._drive(self._memory.run())

    def prepare(self, *, everything: bool = False) -> Any:
        """Nothing has to be made ready; an application may ask for it when it starts."""

    def ring(self) -> None:
        """Nobody has to be woken."""

    def advance(self, by: Duration) -> list[Job]:
        """Move the clock on and run, each at its time, what is due on the way; the jobs that were
        run."""
        return self._drive(self._memory.advance(seconds(by)))

    def schedule(
        self,
        name: str,
        task: AnyTask | Planned,
        args: Args = None,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        **options: Any,
    ) -> Schedule:
        """Add a recurring job, or replace the one of that name; `advance` fires it."""
        return self._memory.add_schedule(_schedule_of(name, task, args, cron, every, options))

    def unschedule(self, name: str) -> bool:
        """Remove a schedule; False where there is none. Its jobs stay."""
        return self._memory.schedules.pop(name, None) is not None

    def schedules(self) -> list[Standing]:
        """All schedules that it has, by name, with what became of their last jobs."""
        return self._memory.standings()

    def find(self, *, limit: int | None = None, **filters: Unpack[Filters]) -> Iterator[Job]:
        """Jobs that meet all filters, newest first."""
        return iter(self._memory.find(Filter.of(**filters), limit))

    def count(self, *, limit: int | None = None, **filters: Unpack[Filters]) -> int:
        """How many jobs meet all filters; with a `limit`, one more than that where there are
        more."""
        return self._memory.count(Filter.of(**filters), limit)

    def as_async(self) -> AsyncEagerQueue:
        """The same queue for code that awaits its client."""
        return AsyncEagerQueue(_memory=self._memory)

    def _drive(self, steps: Steps[T]) -> T:
        end: End | None = None
        try:
            while True:
                attempt = steps.send(end)
                end = (
                    None
                    if attempt is None
                    else call(attempt.steps, attempt.job, is_async=attempt.is_async)
                )
                if attempt is None:
                    time.sleep(BREATH)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


class AsyncEagerQueue(AsyncClient):
    """The same as `EagerQueue`, for asyncio: async tasks run in the loop of the caller."""

    def __init__(
        self,
        *modules: Module | str,
        at_once: bool = True,
        now: datetime | None = None,
        schedules: bool = False,
        _memory: Memory | None = None,
    ) -> None:
        self._owned = False
        self._store: Any = _NoStore()
        self._reserve: Any = None
        self._memory = _memory or Memory(
            _library(modules), now, at_once=at_once, declared=schedules
        )

    async def _run(self, steps: Any, **_: Any) -> NoReturn:
        steps.close()
        raise _no_mongodb()

    @property
    def now(self) -> datetime:
        """The time by the queue's own clock."""
        return self._memory.now

    async def submit(self, task: AnyTask, args: Args = None, **options: Any) -> Job:
        """Add one job, with the options of a client, and run what is due; the job as it was
        added."""
        name, args = named(task, args)
        return await self._drive(self._memory.submit(_wish_of(name, options), args))

    async def submit_many(
        self,
        task: AnyTask,
        many: Iterable[Args | TaskCall],
        *,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> Batch:
        """Add one job per arguments, with the options of a client, and run what is due."""
        name, each = named_many(task, many)
        steps = self._memory.submit_many(_wish_of(name, options), each)
        return _told(await self._drive(steps), progress)

    @overload  # type: ignore[override]  # plans take a node, or run_plan
    async def wait(
        self,
        jobs: Job,
        timeout: float | None = None,
        *,
        raises: bool = False,
    ) -> Job: ...
    @overload
    async def wait(
        self,
        jobs: Sequence[Job],
        timeout: float | None = None,
        *,
        raises: bool = False,
    ) -> list[Job]: ...
    async def wait(
        self,
        jobs: Job | Sequence[Job],
        timeout: float | None = None,
        *,
        raises: bool = False,
    ) -> Job | list[Job]:
        """The job (or all of the jobs) as it ended; the clock moves on to what is due later, at
        most by `timeout`."""
        many = [jobs] if isinstance(jobs, Job) else list(jobs)
        ended = judged(await self._drive(self._memory.wait(many, timeout)), raises)
        return ended[0] if isinstance(jobs, Job) else ended

    async def get(self, job: Any = None, *, key: str | None = None) -> Job:
        """One job as it is now."""
        return self._memory.get(job, key)

    async def cancel(self, job: Any = None, *, key: str | None = None) -> Job:  # type: ignore[override]
        """Cancel a queued job at once; ask a running one to end."""
        return self._memory.cancel(job, key)

    async def retry(self, job: Any = None, *, key: str | None = None) -> Job:  # type: ignore[override]
        """Put a finished job back in the queue, and run what is due."""
        return await self._drive(self._memory.retry(job, key))

    def submitted(self, task: str | None = None) -> list[Job]:
        """All jobs that were submitted, or those of one task, as they are now and in the order in
        which they came."""
        return self._memory.submitted(task)

    async def run(self) -> list[Job]:
        """Run all that is due now; the jobs that were run."""
        return await self._drive(self._memory.run())

    async def prepare(self, *, everything: bool = False) -> Any:
        """Nothing has to be made ready; an application may ask for it when it starts."""

    async def ring(self) -> None:
        """Nobody has to be woken."""

    async def advance(self, by: Duration) -> list[Job]:
        """Move the clock on and run, each at its time, what is due on the way; the jobs that were
        run."""
        return await self._drive(self._memory.advance(seconds(by)))

    async def schedule(
        self,
        name: str,
        task: AnyTask | Planned,
        args: Args = None,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        **options: Any,
    ) -> Schedule:
        """Add a recurring job, or replace the one of that name; `advance` fires it."""
        return self._memory.add_schedule(_schedule_of(name, task, args, cron, every, options))

    async def unschedule(self, name: str) -> bool:
        """Remove a schedule; False where there is none. Its jobs stay."""
        return self._memory.schedules.pop(name, None) is not None

    async def schedules(self) -> list[Standing]:
        """All schedules that it has, by name, with what became of their last jobs."""
        return self._memory.standings()

    def find(self, *, limit: int | None = None, **filters: Unpack[Filters]) -> AsyncIterator[Job]:
        """Jobs that meet all filters, newest first."""
        return _each(self._memory.find(Filter.of(**filters), limit))

    async def count(self, *, limit: int | None = None, **filters: Unpack[Filters]) -> int:
        """How many jobs meet all filters; with a `limit`, one more than that where there are
        more."""
        return self._memory.count(Filter.of(**filters), limit)

    async def _drive(self, steps: Steps[T]) -> T:
        end: End | None = None
        try:
            while True:
                attempt = steps.send(end)
                end = (
                    None
                    if attempt is None
                    else await acall(attempt.steps, attempt.job, is_async=attempt.is_async)
                )
                if attempt is None:
                    await asyncio.sleep(BREATH)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def _wish_of(task: str, options: Mapping[str, Any]) -> Wish:
    """What a client would have been asked for, whatever options it has."""
    if options.get("session") is not None:
        raise ConfigError(
            "an EagerQueue takes part in no transaction: use the fixture tontine_queue for this "
            "test"
        )
    given = {name: value for name, value in options.items() if name != "session"}
    return Wish.of(task, given)


def _schedule_of(
    name: str,
    task: AnyTask | Planned,
    args: Args,
    cron: str | None,
    every: Duration | None,
    options: Mapping[str, Any],
) -> Schedule:
    interval = None if every is None else seconds(every)
    age = None if options.get("max_age") is None else seconds(options["max_age"])
    if isinstance(task, Plan | Mapping):
        raise ConfigError("this queue runs jobs: `run_plan` runs a plan without MongoDB")
    task_name, args = named(task, args)
    return Schedule(
        name, task_name, {} if args is None else args, cron, interval, **{**options, "max_age": age}
    )


async def _each(jobs: list[Job]) -> AsyncIterator[Job]:
    for job in jobs:
        yield job


def _told(batch: Batch, progress: Callable[[int], None] | None) -> Batch:
    if progress:
        progress(len(batch))
    return batch
