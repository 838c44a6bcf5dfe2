"""What happened to a job before: attempts that failed, were lost or were given back."""

from __future__ import annotations

from collections.abc import Iterator

from ...records.job import Job
from ...records.states import JobState
from .evidence import Evidence, Finding
from .words import summary, times


def tell_history(e: Evidence, job: Job) -> Iterator[Finding]:
    """The earlier attempts of an unfinished job."""
    if job.fails:
        yield _failed(job)
    if job.lost:
        yield _lost(e, job)
    elsewhere = job.attempt - job.fails - job.lost - (job.state is JobState.WORKING)
    if elsewhere > 0:
        yield Finding(
            "given-back",
            f"It was claimed {times(elsewhere)} {'more ' if job.fails or job.lost else ''}and "
            "given back unsettled, "
            "or put back by an operator; that costs it nothing.",
        )


def _failed(job: Job) -> Finding:
    allowed = f" of {job.max_attempts}" if job.max_attempts else ""
    attempts = "attempt" if job.fails == 1 and not job.max_attempts else "attempts"
    return Finding(
        "retried", f"{job.fails}{allowed} {attempts} failed, the last with {summary(job.error)}."
    )


def _lost(e: Evidence, job: Job) -> Finding:
    sentence = (
        f"Its worker or node ended {times(job.lost)} while it ran; at {e.lost_limit} "
        "times it is failed."
    )
    if job.lost < e.suspect_from:
        return Finding("lost", sentence)
    return Finding(
        "suspect",
        f"{sentence} It is suspected of ending them, so a node claims it alone, for a free slot, "
        "one such job at a "
        "time.",
        "`tontine nodes --json` shows `last_crash` in `metrics`",
    )
