"""Why a claimed job has not ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ...legible import duration, legible
from ...records.job import Job
from ...records.node import Sighting
from ...records.states import Desired
from ...rules.health import buried_in, is_gone, is_silent
from .evidence import Evidence, Finding
from .history import tell_history
from .inside import cannot_end, look_into
from .obstacle import START
from .words import about, at, names


def explain_held(e: Evidence, job: Job) -> Iterator[Finding]:
    """The findings for a job that a node holds."""
    holder = e.node(job.node)
    if holder is None or is_gone(holder):
        yield _holder_dead(e, job, holder)
    elif is_silent(holder):
        yield _holder_silent(e, holder)
    else:
        if wrong := cannot_end(holder, e.now, has_started=started_at(job) is not None):
            yield Finding(
                "holder-troubled", f"Its node, {holder.name}, {wrong}.", look_into(holder)
            )
        yield from _running(e, job, holder)
    if job.cancel:
        yield Finding(
            "cancel-asked",
            (
                "Cancelling was asked for and has not been done yet: its node ends it within about "
                "a second of seeing it."
            ),
        )
    yield from tell_history(e, job)


def _holder_dead(e: Evidence, job: Job, holder: Sighting | None) -> Finding:
    facts = (
        f" ({holder.death or 'no reason on record'}, {at(holder.died_at, e.now)})" if holder else ""
    )
    who = f"It is held by node {e.name_of(job.node)}, which is dead{facts}"
    if e.beating:
        return Finding("holder-dead", f"{who}: a live node will give it back within a few seconds.")
    return Finding("holder-dead", f"{who}, and no node is alive to give it back.", START)


def _holder_silent(e: Evidence, holder: Sighting) -> Finding:
    silent = f"Node {holder.name}, which holds it, has not beaten for {holder.beat_age or 0:.0f} s"
    others = [node for node in e.beating if node is not holder]
    if not others:
        return Finding(
            "holder-silent",
            f"{silent}, and nobody else is there to inherit.",
            START,
        )
    wait = buried_in(holder, min(node.lease for node in others))
    return Finding(
        "holder-silent",
        f"{silent}; if it stays silent, {names(others)} will give the job back in {about(wait)}.",
    )


def _running(e: Evidence, job: Job, holder: Sighting) -> Iterator[Finding]:
    started = started_at(job)
    if started is None:
        yield Finding(
            "claimed",
            f"Node {holder.name} has claimed it (attempt {job.attempt}) and either starts it now "
            "or has it waiting "
            "for a free slot.",
        )
    else:
        yield Finding(
            "running",
            f"Node {holder.name} has been running it for "
            f"{duration((e.now - started).total_seconds())} "
            f"(attempt {job.attempt}){_progress(job)}.{_limit(job)}",
            "" if job.cancel else f"`tontine cancel {job.seq}` ends it",
        )
    if holder.is_leaving:
        verb = "pausing" if holder.desired is Desired.PAUSED else "stopping"
        yield Finding(
            "holder-leaving",
            f"Node {holder.name} is {verb}: it finishes what runs, and starts nothing more.",
        )


def started_at(job: Job) -> datetime | None:
    """When the present attempt started, as far as is known: what started before `run_at` was an
    earlier one."""
    started, run_at = job.started_at, job.run_at
    if not isinstance(started, datetime) or (isinstance(run_at, datetime) and started < run_at):
        return None
    return started


def _progress(job: Job) -> str:
    if job.progress is None:
        return ""
    return f", {job.progress.value:.0%}" + (
        f": {legible(job.progress.note, 200)}" if job.progress.note else ""
    )


def _limit(job: Job) -> str:
    return f" Its time limit is {duration(job.timeout)}." if job.timeout else ""
