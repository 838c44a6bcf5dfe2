"""(1) AsyncClient: the same as `Client`, call for call, for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack, overload

from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from . import plan_calls
from .asked import Which, name_for, open_transaction, schedule_of
from .awaiting import late, pauses
from .calls import AnyTask, Args, TaskCall, named, named_many
from .changed import Changed
from .config import Duration, StoreConfig
from .errors import ConfigError
from .filter import Filter, Filters, Moment, chosen, purged
from .found import found_async
from .options import BatchOptions, JobOptions
from .plan import Plan
from .records.batch import Batch
from .records.job import Job
from .records.plan_status import PlanStatus
from .records.schedule import Missed, Overlap, Schedule, Standing
from .store import bell, find, insert, logs, many, read, schedules, standings, which
from .store.call import Operation
from .store.connect import open_async_store
from .store.counter import Reserve
from .store.insert import Wish
from .store.logs import Line
from .store.names import JOBS
from .store.prepare import AsyncPreparedStore, Prepared


class AsyncClient:
    """The same as `Client`, for asyncio; also takes a PyMongo async or a Motor client or
    database."""

    def __init__(
        self,
        source: str | AsyncMongoClient[Any] | AsyncDatabase[Any] | Any = None,
        *,
        database: str | None = None,
    ) -> None:
        self._owned = source is None or isinstance(source, str)
        uri = source if isinstance(source, str) else None
        self._config = StoreConfig.of(uri, database) if self._owned else StoreConfig()
        self._opening = asyncio.Lock()
        self._reserve = Reserve()
        self._store: AsyncPreparedStore | None = None
        if not self._owned:
            self._store = AsyncPreparedStore(_async_database(source, database))

    async def _opened(self) -> AsyncPreparedStore:
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    # Starting the embedded MongoDB takes a moment that the application's event loop
                    # must not lose.
                    opened = await asyncio.to_thread(open_async_store, self._config)
                    self._store = AsyncPreparedStore(opened.database)
        return self._store

    async def _run(self, steps: Operation[Any], *, is_within: bool = False) -> Any:
        return await (await self._opened()).run(steps, is_within=is_within)

    async def prepare(self, *, everything: bool = False) -> Prepared:
        """Make the collections, indexes and validators that are missing, now; what could not be
        made is in the answer.

        The first call of a client sees to what it needs by itself, but not inside of a transaction:
        an application that submits there calls this when it starts. With `everything` also the
        indexes that only jobs with `max_age` or `unique_for` need; otherwise these are made with
        the first such job.
        """
        return await (await self._opened()).prepare_now(everything=everything)

    async def submit(
        self,
        task: AnyTask,
        args: Args = None,
        *,
        session: AsyncClientSession | Any | None = None,
        **options: Unpack[JobOptions],
    ) -> Job:
        """Add one job: its task by name or as itself, or `call(task, ...)` with the arguments.

        `options` are `delay` or `run_at`, `priority`, `key`, `max_attempts`, `timeout`, `max_age`,
        `unique_for` and `meta`, as `JobOptions` has them.

        With a `key` that an unfinished job has, that job comes back, marked `existed`; with
        `unique_for` also one that is done, for so long after its end. A job that is not started
        within `max_age` after it was due is cancelled. With the `session` of an open transaction it
        is there when that commits; `ring()` then makes nodes look at once.
        """
        name, args = named(task, args)
        wish = Wish.of(name, options)
        within = open_transaction(session, self._store)
        steps = insert.submit(wish, args, self._reserve, session=within)
        return await self._run(steps, is_within=within is not None)  # type: ignore[no-any-return]

    async def submit_many(
        self,
        task: AnyTask,
        many: Iterable[Args | TaskCall],
        *,
        progress: Callable[[int], None] | None = None,
        session: AsyncClientSession | Any | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Add one job per arguments, or per call of the task; `progress` hears how many are in,
        `SubmitInterrupted` tells what was inserted."""
        name, each = named_many(task, many)
        wish = Wish.of(name, options)
        within = open_transaction(session, self._store)
        steps = insert.submit_many(wish, each, progress=progress, session=within)
        return await self._run(steps, is_within=within is not None)  # type: ignore[no-any-return]

    async def submit_plan(
        self,
        plan: Plan | Mapping[str, Any],
        *,
        key: str | None = None,
        tenant: str | None = None,
    ) -> PlanStatus:
        """Add a plan, or its document: jobs with an order between them. With a `key` that an
        unfinished plan has, that one comes back, marked `existed`."""
        steps = plan_calls.submit(plan, self._reserve, key=key, tenant=tenant)
        return await self._run(steps)  # type: ignore[no-any-return]

    async def plan(self, plan: PlanStatus | int) -> PlanStatus:
        """A plan as it is now, by its number or a status of it."""
        return await self._run(plan_calls.read(plan))  # type: ignore[no-any-return]

    @overload
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
    @overload
    async def wait(
        self,
        jobs: PlanStatus,
        timeout: float | None = None,
        *,
        raises: bool = False,
    ) -> PlanStatus: ...
    async def wait(
        self,
        jobs: Job | Sequence[Job] | PlanStatus,
        timeout: float | None = None,
        *,
        raises: bool = False,
    ) -> Job | list[Job] | PlanStatus:
        """Wait until the job (or all of the jobs, or the plan) ended, and return it as it is then.

        With `raises` one that failed or was cancelled is raised, as `JobFailed` or `JobCancelled`,
        when all have ended; a plan that is not done as `PlanFailed`.
        """
        asking = plan_calls.waiting_for(jobs, timeout, raises=raises)
        answer = None
        try:
            while True:
                wanted = asking.send(answer)
                if isinstance(wanted, float):
                    await asyncio.sleep(wanted)
                else:
                    answer = await self._run(wanted)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def get(self, job: Which = None, *, key: str | None = None) -> Job:
        """One job as it is now; by `key` the unfinished one that has it, else the newest that had
        it lately."""
        return await self._run(which.read_job(job, key))  # type: ignore[no-any-return]

    @overload
    async def cancel(self, job: PlanStatus, *, undo: bool = True) -> PlanStatus: ...
    @overload
    async def cancel(
        self, job: Which = None, *, key: str | None = None, undo: bool = True
    ) -> Job: ...
    async def cancel(
        self, job: Which | PlanStatus = None, *, key: str | None = None, undo: bool = True
    ) -> Job | PlanStatus:
        """Cancel a queued job at once; ask the node that runs it to end a running one.

        A plan, by its status or its number, is stopped: what is queued of it is cancelled, what
        runs is asked to end, and what was done is undone, unless `undo` is false.
        """
        return await self._run(plan_calls.cancel(job, key, undo=undo))  # type: ignore[no-any-return]

    @overload
    async def retry(self, job: PlanStatus) -> PlanStatus: ...
    @overload
    async def retry(self, job: Which = None, *, key: str | None = None) -> Job: ...
    async def retry(
        self, job: Which | PlanStatus = None, *, key: str | None = None
    ) -> Job | PlanStatus:
        """Put a finished job back in the queue; an unfinished one is left as it is.

        A plan, by its status or its number, goes on where it failed or was cancelled: what is done
        of it is not run again.
        """
        return await self._run(plan_calls.retry(job, key))  # type: ignore[no-any-return]

    async def logs(self, job: Which = None, *, key: str | None = None) -> list[Line]:
        """What the job's task printed and logged: lines with their time and attempt, the newest
        1,000 of each."""
        return await self._run(logs.read_lines_of(job, key))  # type: ignore[no-any-return]

    async def follow(
        self,
        job: Which = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Job, None]:
        """The job as it is now, and again after each change that was seen, until it has ended.

        It looks a few times a second: of changes in quick succession only the last is seen.
        """
        until = None if timeout is None else time.monotonic() + timeout
        seen, rests = await self.get(job, key=key), pauses()
        yield seen
        while not seen.is_final:
            if until is not None and time.monotonic() >= until:
                raise late([seen], timeout)
            await asyncio.sleep(next(rests))
            if changed := await self._run(read.read_changed(seen)):
                seen = changed
                yield seen

    async def ring(self) -> None:
        """Make idle nodes look for jobs now, after a transaction with jobs was committed."""
        await self._run(bell.ring(JOBS))

    async def schedule(
        self,
        name: str,
        task: AnyTask | plan_calls.Planned,
        args: Args = None,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str = "UTC",
        missed: Missed = "once",
        overlap: Overlap = "queue",
        max_age: Duration | None = None,
    ) -> Schedule:
        """Add a recurring job, or replace the one of that name: by a cron expression, or `every` so
        often. A `Plan` in the place of the task is inserted as a plan each time.

        `missed` says what becomes of times at which no node was there, `overlap="skip"` that a time
        is passed over while the job before has not ended, `max_age` how long after its insert a job
        may still be started.
        """
        wanted = schedule_of(name, task, args, cron, every, timezone, missed, overlap, max_age)
        return await self._run(schedules.add(wanted))  # type: ignore[no-any-return]

    async def unschedule(self, name: str) -> bool:
        """Remove a schedule, also one that a module declares; False where there is none. Its jobs
        stay."""
        return await self._run(schedules.remove(name))  # type: ignore[no-any-return]

    async def schedules(self) -> list[Standing]:
        """All schedules by name, with their last runs, and those that cannot fire with the
        reason."""
        return await self._run(standings.read_standings())  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Close the connection, unless the application brought it."""
        if self._owned and self._store is not None:
            await self._store.database.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def find(self, *, limit: int | None = None, **filters: Unpack[Filters]) -> AsyncIterator[Job]:
        """Jobs that meet all filters, newest first, read as they are asked for."""
        return found_async(self._run, Filter.of(**filters), limit)

    async def count(self, *, limit: int | None = None, **filters: Unpack[Filters]) -> int:
        """How many jobs meet all filters; with a `limit`, one more than that where there are
        more."""
        return await self._run(find.count(Filter.of(**filters), limit))  # type: ignore[no-any-return]

    async def cancel_many(
        self,
        *,
        all: bool = False,
        progress: Callable[[int], None] | None = None,
        **filters: Unpack[Filters],
    ) -> Changed:
        """Cancel unfinished jobs that meet all filters; `progress` hears how many so far."""
        return await self._run(many.cancel_many(chosen(filters, every=all), progress))  # type: ignore[no-any-return]

    async def retry_many(
        self,
        *,
        all: bool = False,
        progress: Callable[[int], None] | None = None,
        **filters: Unpack[Filters],
    ) -> Changed:
        """Put failed jobs that meet all filters back in the queue, or those of the `state` that is
        named."""
        return await self._run(many.retry_many(chosen(filters, every=all), progress))  # type: ignore[no-any-return]

    async def purge(
        self,
        *,
        older_than: Moment | None = None,
        all: bool = False,
        progress: Callable[[int], None] | None = None,
        **filters: Unpack[Filters],
    ) -> Changed:
        """Remove finished jobs that meet all filters, and what they printed; not those of the last
        minute."""
        return await self._run(many.purge(purged(filters, older_than, every=all), progress))  # type: ignore[no-any-return]


def _async_database(source: Any, name: str | None) -> Any:
    kind = type(source).__name__
    if isinstance(source, AsyncDatabase) or kind == "AsyncIOMotorDatabase":
        return source
    if isinstance(source, AsyncMongoClient) or kind == "AsyncIOMotorClient":
        return source[name_for(source, name)]
    raise ConfigError(
        f"AsyncClient takes a URI, a PyMongo async or a Motor handle, not {kind}; try Client"
    )
