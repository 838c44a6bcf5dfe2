"""How a job ended, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from ...legible import duration
from ...records.job import Job
from ...records.states import JobState
from .evidence import Evidence, Finding, Trace
from .words import at, summary, times

_MAY_STILL_COME = timedelta(minutes=5)


def explain_ended(e: Evidence, job: Job) -> Iterator[Finding]:
    """The findings for a job in a final state."""
    if job.state is JobState.DONE:
        yield Finding(
            "done", f"It is done: {_by(e, job)}finished it {at(job.finished_at, e.now)}{_ran(job)}."
        )
    elif job.state is JobState.CANCELLED and job.error is not None and job.error.type == "TooLate":
        why = (
            f"It was cancelled {at(job.finished_at, e.now)} because it had not started by "
            f"{at(job.start_by, e.now)}."
        )
        yield Finding("too-late", why, f"{_retry(e, job)}, to run whenever there is room")
    elif job.state is JobState.CANCELLED:
        yield Finding(
            "cancelled", f"It was cancelled {at(job.finished_at, e.now)}.", _retry(e, job)
        )
    elif job.error is not None and job.error.type == "InvalidJob":
        yield _refused(e, job)
    else:
        yield _failed(e, job)
    if earlier := len(job.errors):
        yield Finding(
            "earlier-errors",
            f"Before that it failed {times(earlier)}, the last time with {_last(job)}.",
        )
    if isinstance(e.expire_at, datetime):
        yield Finding("expires", f"Retention removes it {at(e.expire_at, e.now)}.")


def _by(e: Evidence, job: Job) -> str:
    return f"node {e.name_of(job.node)} " if job.node else "a node "


def _ran(job: Job) -> str:
    if not isinstance(job.started_at, datetime) or not isinstance(job.finished_at, datetime):
        return f", at attempt {job.attempt}"
    return (
        f" after {duration((job.finished_at - job.started_at).total_seconds())}, at attempt "
        f"{job.attempt}"
    )


def _retry(e: Evidence, job: Job) -> str:
    if e.plan is not None:
        return f"`tontine retry {e.plan}` goes on with its plan, if that has not succeeded"
    return f"`tontine retry {job.seq}` puts it back in the queue"


def _last(job: Job) -> str:
    return summary(job.errors[-1])


def _refused(e: Evidence, job: Job) -> Finding:
    reason = job.error.message if job.error else ""
    if not job.key or "has its key" not in reason:
        return Finding(
            "refused",
            f"It was refused {at(job.finished_at, e.now)}: {reason}.",
            "insert a corrected document",
        )
    if e.key_holder is None:
        return Finding(
            "key-was-taken",
            (
                f"It was refused because another unfinished job had its key {job.key!r}; that one "
                "has ended since."
            ),
            _retry(e, job),
        )
    return Finding(
        "key-taken",
        f"It was refused because its key {job.key!r} is taken by job {e.key_holder.seq}, which is "
        f"{e.key_holder.state.value}.",
        f"`tontine why {e.key_holder.seq}` tells about that one",
    )


def _failed(e: Evidence, job: Job) -> Finding:
    if job.error is not None and job.error.type == "Lost":
        code, why = "failed-lost", job.error.message
    else:
        code, why = "failed", summary(job.error)
    where = f" on node {e.name_of(job.node)}" if job.node else ""
    attempts = f", at attempt {job.attempt}" if job.attempt else ""
    return Finding(
        code, f"It failed {at(job.finished_at, e.now)}{where}{attempts}: {why}.", _retry(e, job)
    )


def explain_missing(e: Evidence, trace: Trace) -> Iterator[Finding]:
    """Why there is no such job."""
    if trace.seq is None:
        yield Finding(
            "no-such-id", "There is no job with this _id.", "`tontine jobs` lists the newest"
        )
    elif trace.seq < 1:
        yield Finding("no-such-number", "There is no such job: numbers start at 1.", "")
    elif trace.seq > trace.counter:
        last = f"the last one given is {trace.counter}" if trace.counter else "none has been given"
        yield Finding(
            "beyond", f"No job has this number yet: {last}.", "`tontine jobs` lists the newest"
        )
    elif trace.lowest is None or trace.seq < trace.lowest:
        there = (
            f"the lowest one there is {trace.lowest}"
            if trace.lowest is not None
            else "no job is left"
        )
        by = "by retention" if trace.removes else "by hand, because no retention is set"
        yield Finding(
            "removed", f"Job {trace.seq} is gone: {there}, so it was most likely removed {by}."
        )
    else:
        yield _hole(e, trace)


def _hole(e: Evidence, trace: Trace) -> Finding:
    when = trace.next_created_at
    if when is not None and e.now - when < _MAY_STILL_COME:
        return Finding(
            "hole-young",
            (
                f"The number {trace.seq} was taken {at(when, e.now)} and no job has it: its "
                "producer may still insert it."
            ),
        )
    removed = ", or its job has been removed by retention" if trace.removes else ""
    taken = f", about {at(when, e.now)}," if when else ""
    return Finding(
        "hole",
        f"The number {trace.seq} was taken{taken} but no job has it: its producer ended before "
        "it inserted the job"
        f"{removed}. Holes are harmless.",
    )
