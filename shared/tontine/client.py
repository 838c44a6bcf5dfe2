"""(1) Client: a thin shell over the store operations; `AsyncClient` is the other one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack, overload

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.database import Database

from . import plan_calls
from .asked import Which, name_for, open_transaction, schedule_of
from .awaiting import late, pauses
from .calls import AnyTask, Args, TaskCall, named, named_many
from .changed import Changed
from .config import Duration, StoreConfig
from .errors import ConfigError
from .filter import Filter, Filters, Moment, chosen, purged
from .found import found
from .options import BatchOptions, JobOptions
from .plan import Plan
from .records.batch import Batch
from .records.job import Job
from .records.plan_status import PlanStatus
from .records.schedule import Missed, Overlap, Schedule, Standing
from .store import bell, find, insert, logs, many, read, schedules, standings, which
from .store.connect import open_store
from .store.counter import Reserve
from .store.insert import Wish
from .store.logs import Line
from .store.names import JOBS
from .store.prepare import Prepared, PreparedStore


class Client:
    """Submits jobs and waits for them.

    Takes a URI (default: TONTINE_URI, else the settings file's, else the embedded MongoDB) or a
    PyMongo client or database that the application already has; that one is left open when this
    client is closed. Its first call makes the database ready if nobody has: make one client and
    keep it.
    """

    def __init__(
        self,
        source: str | MongoClient[Any] | Database[Any] | None = None,
        *,
        database: str | None = None,
    ) -> None:
        self._reserve = Reserve()
        self._owned = source is None or isinstance(source, str)
        if isinstance(source, Database):
            handle = source
        elif isinstance(source, MongoClient):
            handle = source[name_for(source, database)]
        elif self._owned:
            handle = open_store(StoreConfig.of(source, database)).database
        else:
            raise ConfigError(
                f"Client takes a URI or a PyMongo handle, not {type(source).__name__}; try "
                "AsyncClient"
            )
        self._store = PreparedStore(handle)

    def prepare(self, *, everything: bool = False) -> Prepared:
        """Make the collections, indexes and validators that are missing, now; what could not be
        made is in the answer.

        The first call of a client sees to what it needs by itself, but not inside of a transaction:
        an application that submits there calls this when it starts. With `everything` also the
        indexes that only jobs with `max_age` or `unique_for` need; otherwise these are made with
        the first such job.
        """
        return self._store.prepare_now(everything=everything)

    def submit(
        self,
        task: AnyTask,
        args: Args = None,
        *,
        session: ClientSession | None = None,
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
        return self._store.run(steps, is_within=within is not None)

    def submit_many(
        self,
        task: AnyTask,
        many: Iterable[Args | TaskCall],
        *,
        progress: Callable[[int], None] | None = None,
        session: ClientSession | None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch:
        """Add one job per arguments, or per call of the task; `progress` hears how many are in,
        `SubmitInterrupted` tells what was inserted."""
        name, each = named_many(task, many)
        wish = Wish.of(name, options)
        within = open_transaction(session, self._store)
        steps = insert.submit_many(wish, each, progress=progress, session=within)
        return self._store.run(steps, is_within=within is not None)

    def submit_plan(
        self,
        plan: Plan | Mapping[str, Any],
        *,
        key: str | None = None,
        tenant: str | None = None,
    ) -> PlanStatus:
        """Add a plan, or its document: jobs with an order between them. With a `key` that an
        unfinished plan has, that one comes back, marked `existed`."""
        steps = plan_calls.submit(plan, self._reserve, key=key, tenant=tenant)
        return self._store.run(steps)

    def plan(self, plan: PlanStatus | int) -> PlanStatus:
        """A plan as it is now, by its number or a status of it."""
        return self._store.run(plan_calls.read(plan))

    @overload
    def wait(self, jobs: Job, timeout: float | None = None, *, raises: bool = False) -> Job: ...
    @overload
    def wait(
        self, jobs: Sequence[Job], timeout: float | None = None, *, raises: bool = False
    ) -> list[Job]: ...
    @overload
    def wait(
        self, jobs: PlanStatus, timeout: float | None = None, *, raises: bool = False
    ) -> PlanStatus: ...
    def wait(
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
                    time.sleep(wanted)
                else:
                    answer = self._store.run(wanted)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def get(self, job: Which = None, *, key: str | None = None) -> Job:
        """One job as it is now; by `key` the unfinished one that has it, else the newest that had
        it lately."""
        return self._store.run(which.read_job(job, key))

    @overload
    def cancel(self, job: PlanStatus, *, undo: bool = True) -> PlanStatus: ...
    @overload
    def cancel(self, job: Which = None, *, key: str | None = None, undo: bool = True) -> Job: ...
    def cancel(
        self, job: Which | PlanStatus = None, *, key: str | None = None, undo: bool = True
    ) -> Job | PlanStatus:
        """Cancel a queued job at once; ask the node that runs it to end a running one.

        A plan, by its status or its number, is stopped: what is queued of it is cancelled, what
        runs is asked to end, and what was done is undone, unless `undo` is false.
        """
        return self._store.run(plan_calls.cancel(job, key, undo=undo))

    @overload
    def retry(self, job: PlanStatus) -> PlanStatus: ...
    @overload
    def retry(self, job: Which = None, *, key: str | None = None) -> Job: ...
    def retry(self, job: Which | PlanStatus = None, *, key: str | None = None) -> Job | PlanStatus:
        """Put a finished job back in the queue; an unfinished one is left as it is.

        A plan, by its status or its number, goes on where it failed or was cancelled: what is done
        of it is not run again.
        """
        return self._store.run(plan_calls.retry(job, key))

    def logs(self, job: Which = None, *, key: str | None = None) -> list[Line]:
        """What the job's task printed and logged: lines with their time and attempt, the newest
        1,000 of each."""
        return self._store.run(logs.read_lines_of(job, key))

    def follow(
        self, job: Which = None, *, key: str | None = None, timeout: float | None = None
    ) -> Iterator[Job]:
        """The job as it is now, and again after each change that was seen, until it has ended.

        It looks a few times a second: of changes in quick succession only the last is seen.
        """
        until = None if timeout is None else time.monotonic() + timeout
        seen, rests = self.get(job, key=key), pauses()
        yield seen
        while not seen.is_final:
            if until is not None and time.monotonic() >= until:
                raise late([seen], timeout)
            time.sleep(next(rests))
            if changed := self._store.run(read.read_changed(seen)):
                seen = changed
                yield seen

    def ring(self) -> None:
        """Make idle nodes look for jobs now, after a transaction with jobs was committed."""
        self._store.run(bell.ring(JOBS))

    def schedule(
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
        return self._store.run(schedules.add(wanted))

    def unschedule(self, name: str) -> bool:
        """Remove a schedule, also one that a module declares; False where there is none. Its jobs
        stay."""
        return self._store.run(schedules.remove(name))

    def schedules(self) -> list[Standing]:
        """All schedules by name, with their last runs, and those that cannot fire with the
        reason."""
        return self._store.run(standings.read_standings())

    def close(self) -> None:
        """Close the connection, unless the application brought it."""
        if self._owned:
            self._store.database.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def find(self, *, limit: int | None = None, **filters: Unpack[Filters]) -> Iterator[Job]:
        """Jobs that meet all filters, newest first, read as they are asked for."""
        return found(self._store.run, Filter.of(**filters), limit)

    def count(self, *, limit: int | None = None, **filters: Unpack[Filters]) -> int:
        """How many jobs meet all filters; with a `limit`, one more than that where there are
        more."""
        return self._store.run(find.count(Filter.of(**filters), limit))

    def cancel_many(
        self,
        *,
        all: bool = False,
        progress: Callable[[int], None] | None = None,
        **filters: Unpack[Filters],
    ) -> Changed:
        """Cancel unfinished jobs that meet all filters; `progress` hears how many so far."""
        return self._store.run(many.cancel_many(chosen(filters, every=all), progress))

    def retry_many(
        self,
        *,
        all: bool = False,
        progress: Callable[[int], None] | None = None,
        **filters: Unpack[Filters],
    ) -> Changed:
        """Put failed jobs that meet all filters back in the queue, or those of the `state` that is
        named."""
        return self._store.run(many.retry_many(chosen(filters, every=all), progress))

    def purge(
        self,
        *,
        older_than: Moment | None = None,
        all: bool = False,
        progress: Callable[[int], None] | None = None,
        **filters: Unpack[Filters],
    ) -> Changed:
        """Remove finished jobs that meet all filters, and what they printed; not those of the last
        minute."""
        return self._store.run(many.purge(purged(filters, older_than, every=all), progress))
