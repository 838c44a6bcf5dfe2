"""How the demo went: what became of its jobs, and how long the inheritance took."""

from __future__ import annotations

import time

from ...legible import count, duration, legible
from ...records.states import OPEN, JobState
from ...store import read
from ...store.call import Store
from .story import Death, Story
from .stream import JobStream, is_as_designed

DRAIN_WITHIN = 45.0
_FAILURES_READ = 10_000


def drain(store: Store, stream: JobStream) -> None:
    """Wait until the jobs of this demo have ended, for a while."""
    until = time.monotonic() + DRAIN_WITHIN
    while _open(store, stream) and time.monotonic() < until:
        time.sleep(0.2)


def _open(store: Store, stream: JobStream) -> int:
    counts = store.run(read.count_between(stream.first or 0, stream.last))
    return sum(counts.get(state.value, 0) for state in OPEN)


def sum_up(store: Store, stream: JobStream, story: Story) -> tuple[list[str], bool]:
    """The lines to show at the end, and whether every job ended as it should."""
    first, last = stream.first or 0, stream.last
    counts = store.run(read.count_between(first, last))
    failed = store.run(read.read_ended(first, last, _FAILURES_READ, [JobState.FAILED.value]))
    wrong = [job for job in failed if not is_as_designed(job)]
    retried = store.run(
        read.count_where(first, last, {"fails": {"$gt": 0}, "state": JobState.DONE.value})
    )
    rerun = store.run(read.count_where(first, last, {"lost": {"$gt": 0}}))
    unfinished = sum(counts.get(state.value, 0) for state in OPEN)
    ended = f"{counts.get('done', 0):,} done, {retried:,} of them after failed attempts"
    failures = f"{len(failed) - len(wrong):,} failed as designed, {len(wrong):,} otherwise"
    lines = [f"{count(stream.submitted, 'job')}: {ended}; {failures}; {unfinished:,} unfinished"]
    lines += [f"node {death.node.name} was killed{_inheritance(death)}" for death in story.deaths]
    if story.deaths:
        lines.append(
            f"{count(rerun, 'job')} that a killed node held {'was' if rerun == 1 else 'were'} "
            "run by others"
        )
    lines += [legible(f"job {job.get('seq')} failed: {job.get('error')}", 300) for job in wrong[:5]]
    return lines, not wrong and not unfinished and story.is_told


def _inheritance(death: Death) -> str:
    if death.inherited_after is None:
        return "; the demo ended before its share was inherited"
    return f" and its share inherited after {duration(death.inherited_after)}"
