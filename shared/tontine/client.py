"""(1) Client and AsyncClient: two thin shells over the same store operations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, overload

from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database
from pymongo.errors import ConfigurationError

from .batch import Batch
from .config import StoreConfig, database_for, seconds
from .errors import ConfigError, JobNotFinished
from .job import Job
from .store import control, insert, look
from .store.call import Steps
from .store.connect import open_async_store, open_store
from .store.insert import Wish
from .store.prepare import AsyncPreparedStore, Prepared, PreparedStore
from .store.reserve import Reserve

_AT_ONCE = 1000
_BREATH = 0.002

Args = Mapping[str, Any] | None
Duration = float | str | timedelta


def _wish(
    task: str,
    delay: Duration | None,
    run_at: datetime | None,
    priority: int,
    key: str | None,
    max_attempts: int | None,
    timeout: Duration | None,
) -> Wish:
    return Wish(
        task,
        None if delay is None else seconds(delay),
        run_at,
        priority,
        key,
        max_attempts,
        None if timeout is None else seconds(timeout),
    )


def _waiting(jobs: Sequence[Job]) -> Generator[Steps[list[Job]], list[Job], list[Job]]:
    """Ask for the ended ones among `jobs` until all have; yields what to run, gets its answer."""
    ended: dict[Any, Job] = {}
    while missing := [job.id for job in jobs if _key(job.id) not in ended]:
        for job in (yield look.read_final(missing[:_AT_ONCE])):
            ended[_key(job.id)] = job
    return [ended[_key(job.id)] for job in jobs]


def _key(id: Any) -> Any:
    # A producer may choose any `_id`, also one that Python cannot hash.
    return id if isinstance(id, str | int) or type(id).__name__ == "ObjectId" else repr(id)


def _pauses() -> Iterator[float]:
    pause = 0.005
    while True:
        yield pause
        pause = min(pause * 1.3, 0.25)


def _late(jobs: Sequence[Job], timeout: float | None) -> JobNotFinished:
    some = ", ".join(str(job.seq) for job in jobs[:5])
    return JobNotFinished(f"not all of the jobs {some}{'...' if len(jobs) > 5 else ''} ended within {timeout:g} s")


class Client:
    """Submits jobs and waits for them.

    Takes a URI (default: TONTINE_URI, else the settings file's, else the embedded MongoDB) or a PyMongo client or
    database that the application already has; that one is left open when this client is closed. Its first call makes
    the database ready if nobody has: make one client and keep it.
    """

    def __init__(
        self, source: str | MongoClient[Any] | Database[Any] | None = None, *, database: str | None = None
    ) -> None:
        self._reserve = Reserve()
        self._owned = source is None or isinstance(source, str)
        if isinstance(source, Database):
            handle = source
        elif isinstance(source, MongoClient):
            handle = source[_name_for(source, database)]
        elif self._owned:
            handle = open_store(StoreConfig.of(source, database)).database
        else:
            raise ConfigError(f"Client takes a URI or a PyMongo handle, not {type(source).__name__}; try AsyncClient")
        self._store = PreparedStore(handle)

    def prepare(self) -> Prepared:
        """Make the collections, indexes and validators that are missing, now; what could not be made is in the answer.

        The first call of a client sees to what it needs by itself.
        """
        return self._store.prepare_all()

    def submit(
        self,
        task: str,
        args: Args = None,
        *,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        priority: int = 0,
        key: str | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
    ) -> Job:
        """Add one job. With a `key` that an unfinished job has, that job comes back, marked `existed`."""
        wish = _wish(task, delay, run_at, priority, key, max_attempts, timeout)
        return self._store.run(insert.submit(wish, args, self._reserve))

    def submit_many(
        self,
        task: str,
        many: Iterable[Args],
        *,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Batch:
        """Add one job per arguments; `progress` hears how many are in, `SubmitInterrupted` tells what was inserted."""
        wish = _wish(task, delay, run_at, priority, None, max_attempts, timeout)
        return self._store.run(insert.submit_many(wish, many, progress=progress))

    @overload
    def wait(self, jobs: Job, timeout: float | None = None) -> Job: ...
    @overload
    def wait(self, jobs: Sequence[Job], timeout: float | None = None) -> list[Job]: ...
    def wait(self, jobs: Job | Sequence[Job], timeout: float | None = None) -> Job | list[Job]:
        """Wait until the job (or all of the jobs) ended, and return it as it is then."""
        many = [jobs] if isinstance(jobs, Job) else list(jobs)
        until = None if timeout is None else time.monotonic() + timeout
        asking, pauses, answer = _waiting(many), _pauses(), None
        while True:
            try:
                steps = asking.send(answer) if answer is not None else next(asking)
            except StopIteration as end:
                return end.value[0] if isinstance(jobs, Job) else end.value  # type: ignore[no-any-return]
            if answer is not None and until is not None and time.monotonic() >= until:
                raise _late(many, timeout)
            answer = self._store.run(steps)
            time.sleep(_BREATH if answer else next(pauses))

    def get(self, seq: int) -> Job:
        """One job as it is now."""
        return self._store.run(control.read_job(seq))

    def cancel(self, seq: int) -> Job:
        """Cancel a queued job at once; ask the node that runs it to end a running one."""
        return self._store.run(control.cancel(seq))

    def retry(self, seq: int) -> Job:
        """Put a finished job back in the queue; an unfinished one is left as it is."""
        return self._store.run(control.retry(seq))[0]

    def close(self) -> None:
        """Close the connection, unless the application brought it."""
        if self._owned:
            self._store.database.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """The same as `Client`, for asyncio; also takes a PyMongo async or a Motor client or database."""

    def __init__(
        self, source: str | AsyncMongoClient[Any] | AsyncDatabase[Any] | Any = None, *, database: str | None = None
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
                    # Starting the embedded MongoDB takes a moment that the application's event loop must not lose.
                    opened = await asyncio.to_thread(open_async_store, self._config)
                    self._store = AsyncPreparedStore(opened.database)
        return self._store

    async def _run(self, steps: Steps[Any]) -> Any:
        return await (await self._opened()).run(steps)

    async def prepare(self) -> Prepared:
        """Make the collections, indexes and validators that are missing, now; what could not be made is in the answer.

        The first call of a client sees to what it needs by itself.
        """
        return await (await self._opened()).prepare_all()

    async def submit(
        self,
        task: str,
        args: Args = None,
        *,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        priority: int = 0,
        key: str | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 - the job's time limit, not this call's
    ) -> Job:
        """Add one job. With a `key` that an unfinished job has, that job comes back, marked `existed`."""
        wish = _wish(task, delay, run_at, priority, key, max_attempts, timeout)
        return await self._run(insert.submit(wish, args, self._reserve))  # type: ignore[no-any-return]

    async def submit_many(
        self,
        task: str,
        many: Iterable[Args],
        *,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109
        progress: Callable[[int], None] | None = None,
    ) -> Batch:
        """Add one job per arguments; `progress` hears how many are in, `SubmitInterrupted` tells what was inserted."""
        wish = _wish(task, delay, run_at, priority, None, max_attempts, timeout)
        return await self._run(insert.submit_many(wish, many, progress=progress))  # type: ignore[no-any-return]

    @overload
    async def wait(self, jobs: Job, timeout: float | None = None) -> Job: ...  # noqa: ASYNC109
    @overload
    async def wait(self, jobs: Sequence[Job], timeout: float | None = None) -> list[Job]: ...  # noqa: ASYNC109
    async def wait(
        self,
        jobs: Job | Sequence[Job],
        timeout: float | None = None,  # noqa: ASYNC109 - the same call as Client's
    ) -> Job | list[Job]:
        """Wait until the job (or all of the jobs) ended, and return it as it is then."""
        many = [jobs] if isinstance(jobs, Job) else list(jobs)
        until = None if timeout is None else time.monotonic() + timeout
        asking, pauses, answer = _waiting(many), _pauses(), None
        while True:
            try:
                steps = asking.send(answer) if answer is not None else next(asking)
            except StopIteration as end:
                return end.value[0] if isinstance(jobs, Job) else end.value  # type: ignore[no-any-return]
            if answer is not None and until is not None and time.monotonic() >= until:
                raise _late(many, timeout)
            answer = await self._run(steps)
            await asyncio.sleep(_BREATH if answer else next(pauses))

    async def get(self, seq: int) -> Job:
        """One job as it is now."""
        return await self._run(control.read_job(seq))  # type: ignore[no-any-return]

    async def cancel(self, seq: int) -> Job:
        """Cancel a queued job at once; ask the node that runs it to end a running one."""
        return await self._run(control.cancel(seq))  # type: ignore[no-any-return]

    async def retry(self, seq: int) -> Job:
        """Put a finished job back in the queue; an unfinished one is left as it is."""
        return (await self._run(control.retry(seq)))[0]  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Close the connection, unless the application brought it."""
        if self._owned and self._store is not None:
            await self._store.database.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, type: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _name_for(mongo: Any, given: str | None) -> str:
    """The database to use of a client that the application brings."""
    try:
        own = str(mongo.get_default_database().name)
    except ConfigurationError:  # its URI named none
        own = None
    return database_for(given, own)


def _async_database(source: Any, name: str | None) -> Any:
    kind = type(source).__name__
    if isinstance(source, AsyncDatabase) or kind == "AsyncIOMotorDatabase":
        return source
    if isinstance(source, AsyncMongoClient) or kind == "AsyncIOMotorClient":
        return source[_name_for(source, name)]
    raise ConfigError(f"AsyncClient takes a URI, a PyMongo async or a Motor handle, not {kind}; try Client")
