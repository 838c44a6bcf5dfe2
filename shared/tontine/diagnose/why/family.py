"""Where a job comes from, and what it has submitted."""

from __future__ import annotations

from collections.abc import Iterator

from ...legible import count, legible
from ...records.job import Job
from ...records.states import JobState
from .evidence import Evidence, Finding


def tell_family(e: Evidence, job: Job) -> Iterator[Finding]:
    """The parent and the children of a job, if it has any."""
    if job.parent is not None:
        yield _parent(e.parent, job.parent)
    if e.children.count:
        yield _children(e)


def _parent(parent: Job | None, seq: int) -> Finding:
    if parent is None:
        return Finding(
            "parent", f"The task of job {seq} submitted it, and that job is no longer kept."
        )
    return Finding(
        "parent",
        f"The task of job {seq} ({legible(parent.task, 100)}), {parent.state.value}, submitted it.",
    )


def _children(e: Evidence) -> Finding:
    states = e.children.summary
    failed = next((one.seq for one in e.children.some if one.state is JobState.FAILED), None)
    advice = "" if failed is None else f"`tontine why {failed}` tells about one that failed"
    return Finding(
        "children", f"Its task submitted {count(e.children.count, 'job')}: {states}.", advice
    )
