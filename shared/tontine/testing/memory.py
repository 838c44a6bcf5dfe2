"""The jobs of an eager queue: documents in memory, a clock that stands still, and what becomes of a
job in them.

An operation is a generator, as in the store: it yields each attempt that is to be made and gets
back how that ended, so that the sync and the async queue share every rule. It is no MongoDB: one
process, one after another, no queries.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast

import bson
from bson.errors import BSONError

from .. import around, verdict
from ..around import End
from ..current import CurrentJob, running_job
from ..errors import ConfigError, JobNotFinished, TontineError, UnknownTask
from ..family import child_id
from ..filter import Filter
from ..found import check_limit
from ..hooks import Hooks
from ..module import Library, Task
from ..offspring import ChildRequest, Send
from ..records.batch import Batch
from ..records.job import Job, nobodys_task
from ..records.schedule import Schedule, Standing
from ..records.states import JobState
from ..store import insert
from ..store.call import DECODED, translated
from ..store.counter import Block
from ..store.end import TOO_LATE
from ..store.insert import Wish
from ..store.offspring import _differs
from ..store.standings import last_run
from . import stages
from .ending import Document, errors_so_far, is_final, judge_of, write_end
from .finding import find, find_one, named

T = TypeVar("T")

AT_MOST = 10_000
"""Attempts of one run: a task that submits itself would have no last one."""
HOLDER = "eager"


@dataclass(frozen=True, slots=True)
class MemoryAttempt:
    """One call of a task, with the hooks around it, that is to be made now."""

    job: CurrentJob
    steps: around.Steps[End]
    is_async: bool


Steps = Generator[MemoryAttempt | None, End | None, T]
"""It yields None where another thread or coroutine runs what it waits for."""


class Memory:
    """All that an eager queue knows."""

    def __init__(
        self, library: Library, now: datetime | None, *, at_once: bool, declared: bool = False
    ) -> None:
        self.library = library
        self.at_once = at_once
        self.now = _to_milliseconds(now or datetime.now(UTC))
        self.documents: dict[int, Document] = {}
        self.open: dict[int, Document] = {}
        """Those that have not ended: all that is looked through to find what is due."""
        self.schedules: dict[str, Schedule] = {}
        self.running: dict[int, CurrentJob] = {}
        self.changing = threading.RLock()
        for module in library.modules if declared else ():
            for schedule in module.schedules():
                self.add_schedule(schedule)

    def submit(self, wish: Wish, args: Mapping[str, Any] | None) -> Steps[Job]:
        """Add one job, unless an unfinished one has its key, and run it where it is due."""
        wish.check()
        holder = self._holder_of(wish)
        if holder is not None:
            return self._read(holder, existed=True)
        (document,) = self._insert(wish, [args])
        yield from self._run_at_once()
        return Job.from_document(document)

    def submit_many(self, wish: Wish, many: Iterable[Mapping[str, Any] | None]) -> Steps[Batch]:
        """Add one job per arguments, then run those that are due."""
        wish.check()
        batch = Batch(wish.task)
        batch.add(self._insert(wish, list(many)))
        yield from self._run_at_once()
        return batch

    def wait(self, jobs: Sequence[Job], timeout: float | None) -> Steps[list[Job]]:
        """The jobs as they have ended; the clock moves on for those that are due later, at most by
        `timeout`."""
        until = None if timeout is None else self.now + timedelta(seconds=timeout)
        yield from self.run()
        while waited := [document for job in jobs if not is_final(document := self._find(job))]:
            at = self._next_time()
            if (
                at is not None
                and (until is None or at <= until)
                and any(map(self._is_due_later, waited))
            ):
                yield from self._move_to(at)
            elif any(one["state"] == JobState.WORKING for one in waited) and not self._is_inside():
                yield None
            else:
                raise JobNotFinished(_unended(waited[0], self.library))
        return [self._read(self._find(job)) for job in jobs]

    def cancel(self, which: Any, key: str | None) -> Job:
        """Cancel a queued job, or ask one that runs to end."""
        document = self._find(which, key)
        if document["state"] == JobState.QUEUED:
            document |= {"state": JobState.CANCELLED.value, "finished_at": self.now, "cancel": True}
            del self.open[document["seq"]]
        elif document["state"] == JobState.WORKING:
            document["cancel"] = True
            self.running[document["seq"]].mark_cancelled()
        return self._read(document)

    def retry(self, which: Any, key: str | None) -> Steps[Job]:
        """Put a finished job back, and run it."""
        document = self._find(which, key)
        if not is_final(document):
            return self._read(document)
        own = document.get("key")
        if own is not None and self._open_with(own) is not None:
            raise ConfigError(
                f"job {document['seq']} cannot go back: an unfinished job has its key {own!r}"
            )
        errors = errors_so_far(document)
        if document["state"] == JobState.DONE:
            document.pop("stages", None)
            document.pop("saved", None)
        for name in (
            "cancel",
            "finished_at",
            "started_at",
            "progress",
            "result",
            "counts",
            "error",
            "start_by",
        ):
            document.pop(name, None)
        back = {
            "state": JobState.QUEUED.value,
            "node": None,
            "run_at": self.now,
            "lost": 0,
            "fails": 0,
        }
        document |= back | {"errors": errors}
        self.open[document["seq"]] = document
        job = self._read(document)
        yield from self._run_at_once()
        return job

    def get(self, which: Any, key: str | None) -> Job:
        """One job as it is now, by a record of it, its number, its id or its key."""
        return self._read(self._find(which, key))

    def submitted(self, task: str | None) -> list[Job]:
        """All jobs there were, or those of one task, in the order in which they came."""
        return [self._read(one) for one in self.documents.values() if task in (None, one["task"])]

    def find(self, filter: Filter, limit: int | None) -> list[Job]:
        """Jobs that meet the filter, newest first."""
        check_limit(limit)
        return [self._read(one) for one in islice(find(self.documents, filter, self.now), limit)]

    def count(self, filter: Filter, limit: int | None) -> int:
        """How many jobs meet the filter; with a limit, one more than that where there are more."""
        return sum(
            1
            for _ in islice(
                find(self.documents, filter, self.now), None if limit is None else limit + 1
            )
        )

    def standings(self) -> list[Standing]:
        """All schedules by name, with what became of their last jobs."""
        return [self._standing(self.schedules[name]) for name in sorted(self.schedules)]

    def _standing(self, schedule: Schedule) -> Standing:
        document = named(self.documents, schedule.last_job)
        last = document and last_run(schedule.last_job, self._read(document))
        return Standing(schedule.name, schedule, last=last or None)

    def add_schedule(self, schedule: Schedule) -> Schedule:
        """Add or replace a schedule: it is due for the first time after now."""
        schedule.check()
        if reason := nobodys_task(schedule.task):
            raise ConfigError(f"it can insert no job: {reason}")
        before = self.schedules.get(schedule.name)
        known = replace(schedule, last_job=before and before.last_job)
        added = replace(
            known, args=_through_bson(dict(schedule.args)), next_at=schedule.next_after(self.now)
        )
        self.schedules[schedule.name] = added
        return added

    def run(self) -> Steps[list[Job]]:
        """Run all that is due, also what that submits, until nothing is; the jobs that were run."""
        ran: dict[int, Document] = {}
        for _ in range(AT_MOST):
            document = self._claim_next()
            if document is None:
                return [self._read(one) for one in ran.values()]
            yield from self._attempt(document)
            ran[document["seq"]] = document
        names = ", ".join(sorted({one["task"] for one in ran.values()}))
        raise TontineError(f"{AT_MOST:,} attempts and no end: does one of {names} submit itself?")

    def advance(self, by: float) -> Steps[list[Job]]:
        """Move the clock on, and run at its time what is due on the way; the jobs that were run."""
        if by < 0:
            raise ConfigError(f"the clock of a queue goes on, not back by {-by:g} s")
        until = self.now + timedelta(seconds=by)
        ran = yield from self.run()
        while (at := self._next_time()) is not None and at <= until:
            ran += yield from self._move_to(at)
        self.now = until
        return list({job.seq: self._read(self._find(job)) for job in ran}.values())

    def send(self, request: ChildRequest) -> Future[list[Job]]:
        """Add what a task submits with `current_job().submit(...)`; it runs when that task has
        ended."""
        answer: Future[list[Job]] = Future()
        try:
            answer.set_result(
                [
                    self._add_child(request, *one)
                    for one in zip(request.names, request.args, strict=True)
                ]
            )
        except TontineError as error:
            answer.set_exception(error)
        return answer

    def _add_child(self, request: ChildRequest, name: str, raw: bytes) -> Job:
        wish, args, name = (
            Wish(**request.wish),
            bson.decode(raw, DECODED),
            child_id(request.parent, name),
        )
        earlier = named(self.documents, name)
        if earlier is not None:
            job = self._read(earlier, existed=True)
            if job.task != wish.task or (request.is_counted and job.args != args):
                raise _differs(job, f"{job.task}, or with other arguments")
            return job
        wish.check()
        holder = self._holder_of(wish)
        if holder is not None:
            return self._read(holder, existed=True)
        (document,) = self._insert(wish, [args], {"_id": name, "parent": request.parent})
        return Job.from_document(document)

    def _insert(
        self, wish: Wish, chunk: Sequence[Mapping[str, Any] | None], more: Mapping[str, Any] = {}
    ) -> list[Document]:
        """The documents as they are sent, by the rules of a client: what it refuses is refused
        here, in its words."""
        insert.refuse_unfit(wish, chunk)
        with self.changing:
            block = Block(len(self.documents) + 1, len(chunk), self.now)
            documents = [{**one, **more} for one in insert.make_documents(wish, chunk, block)]
            self._add([_through_bson(one) for one in documents])
        return documents

    def _add(self, documents: Sequence[Document]) -> None:
        for one in documents:
            self.documents[one["seq"]] = self.open[one["seq"]] = one

    def _run_at_once(self) -> Steps[None]:
        # What a task submits comes after it: a job does not run inside another, and a chain of jobs
        # has no depth.
        if self.at_once and not self._is_inside():
            yield from self.run()

    def _is_inside(self) -> bool:
        """Whether one of its jobs asks."""
        return running_job() in self.running.values()

    def _move_to(self, at: datetime) -> Steps[list[Job]]:
        self.now = at
        for schedule in [*self.schedules.values()]:
            times, following = schedule.fire(at)
            fired = [job for time in times if (job := self._fire(schedule, time))]
            skipped, last = len(times) - len(fired), [schedule.last_job, *fired][-1]
            self.schedules[schedule.name] = replace(
                schedule, next_at=following, last_job=last, skipped=schedule.skipped + skipped
            )
        return (yield from self.run())

    def _fire(self, schedule: Schedule, time: datetime) -> str | None:
        """Add the job of a due time, unless it must not overlap and the one before has not ended;
        its `_id`."""
        wish = Wish(schedule.task, key=schedule.key, max_age=schedule.max_age)
        if schedule.key is not None and self._open_with(schedule.key) is not None:
            return None
        document = {"_id": schedule.job_id(time), **wish.document(schedule.args, self.now)}
        self._add(
            [_through_bson({**document, "seq": len(self.documents) + 1, "schedule": schedule.name})]
        )
        return schedule.job_id(time)

    def _claim_next(self) -> Document | None:
        with self.changing:
            document = min(filter(self._is_due, self.open.values()), key=_rank, default=None)
            if document is not None:
                document |= {
                    "state": JobState.WORKING.value,
                    "node": HOLDER,
                    "attempt": document["attempt"] + 1,
                }
            return document

    def _is_due(self, document: Document) -> bool:
        # Without modules it is as without nodes: whatever comes waits.
        is_waiting = document["state"] == JobState.QUEUED and bool(self.library.modules)
        return is_waiting and (document.get("run_at") or self.now) <= self.now

    def _next_time(self) -> datetime | None:
        """When something is due next, after now."""
        jobs = [one["run_at"] for one in self.open.values() if self._is_due_later(one)]
        return min(
            [*jobs, *(one.next_at for one in self.schedules.values() if one.next_at)], default=None
        )

    def _is_due_later(self, document: Document) -> bool:
        run_at = document.get("run_at")
        is_waiting = document["state"] == JobState.QUEUED and bool(self.library.modules)
        return is_waiting and run_at is not None and run_at > self.now

    def _attempt(self, document: Document) -> Steps[None]:
        """Make one attempt, as a worker would, and write down how it ended."""
        start_by = document.pop("start_by", None)
        if start_by is not None and start_by < self.now:
            late = f"it was not started by {start_by:%Y-%m-%dT%H:%M:%S.%fZ}, and shall not be later"
            document["attempt"] -= 1
            return self._settle(document, verdict.ended("cancelled", TOO_LATE, late))
        document["started_at"] = self.now
        seq, args = document["seq"], _through_bson(document["args"])
        try:
            task = self.library.find(document["task"])
        except UnknownTask as error:
            return self._settle(document, verdict.ended("refused", "UnknownTask", str(error)))
        job, hooks = (
            _job_of(task, document, self.send),
            self.library.hooks().get(task.name) or Hooks(),
        )
        function = stages.work(task, job, document) if task.saves else task.function
        work, judge = partial(function, **args), judge_of(task, document, job)
        steps = around.play(hooks, job, work, judge, refusal=task.misfit(args))
        self.running[seq] = job
        try:
            end = yield MemoryAttempt(job, steps, task.is_async)
        finally:
            del self.running[seq]
        if job.saving is not None and job.saving.newest is not None:
            stages.write_saved(job, job.saving.newest, document)
        if isinstance(end, bytes) and job.noted is not None and job.noted.counts:
            document["counts"] = dict(job.noted.counts)
        return self._settle(document, cast("End", end))

    def _settle(self, document: Document, end: End) -> None:
        with self.changing:
            write_end(document, end, self.now)
            if is_final(document):
                del self.open[document["seq"]]

    def _holder_of(self, wish: Wish) -> Document | None:
        """The job that has a wish's key: an unfinished one, or a done one for as long as it is to
        be unique."""
        if wish.key is None or wish.unique_for is None:
            return None if wish.key is None else self._open_with(wish.key)
        held = (
            one
            for one in self.documents.values()
            if one.get("held_key") == wish.key and self._holds(one)
        )
        return self._open_with(wish.key) or next(held, None)

    def _holds(self, document: Document) -> bool:
        is_done = document["state"] == JobState.DONE
        return is_done and bool(
            document["finished_at"] + timedelta(seconds=document["unique_for"]) > self.now
        )

    def _open_with(self, key: str) -> Document | None:
        return next((one for one in self.open.values() if one.get("key") == key), None)

    def _find(self, which: Any, key: str | None = None) -> Document:
        return find_one(self.documents, which, key)

    def _read(self, document: Document, *, existed: bool = False) -> Job:
        return Job.from_document(_through_bson(document), existed=existed)


def _job_of(task: Task, document: Document, send: Send) -> CurrentJob:
    """What `current_job()` gives the task."""

    def note(_: CurrentJob, value: float, text: str) -> None:
        document["progress"] = {"value": value, "note": text}

    limits = (task.max_attempts, task.timeout)
    seq, attempt = int(document["seq"]), document["attempt"]
    return CurrentJob(
        document["_id"],
        seq,
        task.name,
        attempt,
        note,
        document=document,
        limits=limits,
        submit=send,
    )


def _rank(document: Document) -> tuple[int, int]:
    return -document.get("priority", 0), document["seq"]


def _unended(document: Document, library: Library) -> str:
    text = f"job {document['seq']} ({document['task']}) is {document['state']}"
    if document["state"] == JobState.WORKING:
        return f"{text}, and cannot end while its own task waits for it"
    if not library.modules:
        return f"{text} and stays so: this queue was made without modules, so nothing runs its jobs"
    return (
        f"{text} until {document['run_at']:%Y-%m-%d %H:%M:%S} UTC: wait longer, or `advance` "
        "the queue's clock"
    )


def _through_bson(document: Document) -> Document:
    """What MongoDB would give back, or the refusal of a client."""
    try:
        return dict(bson.decode(bson.encode(document, codec_options=DECODED), DECODED))
    except (BSONError, OverflowError, UnicodeError) as error:
        raise translated(error) from error


def _to_milliseconds(moment: datetime) -> datetime:
    """As MongoDB keeps it."""
    moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
