"""What waiting for jobs is made of, whoever waits and however: what to ask next, how long to rest,
what to raise."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from .errors import JobCancelled, JobFailed, JobNotFinished
from .plan import Plan
from .records.job import Job
from .records.plan_status import PlanStatus
from .records.states import JobState
from .store import read
from .store.call import Operation

T = TypeVar("T")

BREATH = 0.002
_AT_ONCE = 1000


Ask = Generator[Operation[Any] | float, Any, T]
"""What to run, or how many seconds to rest; a client does both in its own colour."""


def waiting(
    jobs: Job | Sequence[Job], timeout: float | None, *, raises: bool
) -> Ask[Job | list[Job]]:
    """Wait until all have ended; these as they are then."""
    many = [jobs] if isinstance(jobs, Job) else _several(jobs)
    until = None if timeout is None else time.monotonic() + timeout
    ended: dict[Any, Job] = {}
    rests = pauses()
    missing = [job.id for job in many]
    while missing:
        found = yield read.read_final(missing[:_AT_ONCE])
        ended |= {_key(job.id): job for job in found}
        missing = [one for one in missing if _key(one) not in ended]
        if missing and until is not None and time.monotonic() >= until:
            raise late(many, timeout)
        if missing:
            yield BREATH if found else next(rests)
    as_ended = judged([ended[_key(job.id)] for job in many], raises)
    return as_ended[0] if isinstance(jobs, Job) else as_ended


def _several(jobs: Any) -> list[Job]:
    """A number is what comes to mind, because other calls take one."""
    many = list(jobs) if isinstance(jobs, Iterable) else [jobs]
    for one in many:
        if isinstance(one, PlanStatus):
            raise TypeError(f"wait takes one plan at a time: wait for {one!r} alone")
        if isinstance(one, Plan):
            raise TypeError(f"{one!r} is not submitted yet: wait for what `submit_plan` returns")
        if not isinstance(one, Job):
            raise TypeError(
                f"wait takes jobs as `submit` and `get` return them, not {one!r}: get it first"
            )
    return many


def _key(id: Any) -> Any:
    # A producer may choose any `_id`, also one that Python cannot hash.
    return id if isinstance(id, str | int) or type(id).__name__ == "ObjectId" else repr(id)


def pauses() -> Iterator[float]:
    """Seconds between looks: short at first, for a job that ends at once, and a quarter of a second
    for long."""
    pause = 0.005
    while True:
        yield pause
        pause = min(pause * 1.3, 0.25)


def late(jobs: Sequence[Job], timeout: float | None) -> JobNotFinished:
    """The error for jobs that did not end in time."""
    if len(jobs) == 1:
        (job,) = jobs
        named, asked = (
            (f"{job.seq}", f": `tontine why {job.seq}` tells why")
            if job.is_numbered
            else (f"{job.id}", "")
        )
        return JobNotFinished(f"job {named} did not end within {timeout:g} s{asked}")
    some = ", ".join(str(job.seq) for job in jobs[:5])
    return JobNotFinished(
        f"not all of the jobs {some}{'...' if len(jobs) > 5 else ''} ended within {timeout:g} s"
    )


def judged(jobs: list[Job], raises: bool) -> list[Job]:
    """Jobs that have ended; if one of them should be raised that did not end well, it is."""
    failed = [job for job in jobs if job.state is not JobState.DONE] if raises else []
    if failed:
        raise (JobCancelled if failed[0].state is JobState.CANCELLED else JobFailed)(
            failed
        ) from None
    return jobs
