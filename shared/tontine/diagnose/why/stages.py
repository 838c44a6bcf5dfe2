"""At which stage a job is, and what it does not have to do again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...legible import amount, duration, legible
from ...records.job import Job
from ...records.stage import StageDone
from ...records.states import FINAL, JobState
from ...records.task_key import name_of
from .evidence import Evidence, Finding

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def tell_stages(e: Evidence, job: Job) -> Iterator[Finding]:
    """Where a job with stages goes on, or went no further."""
    names = stage_names(e, job.task)
    if job.state is JobState.DONE or not (names or job.stages):
        return
    where = _where(len(job.stages), names)
    kept = _kept(e, job.stages)
    if job.state is JobState.WORKING:
        yield Finding("stages", f"It is at {where}, {_ordinal(job.attempt)} attempt.{kept}")
    elif job.state in FINAL:
        advice = f"`tontine retry {job.seq}` goes on there"
        if job.stages:
            advice += f", `tontine retry {job.seq} --from {job.stages[0].name}` begins anew"
        yield Finding("stages", f"It came to {where}.{kept}", advice)
    elif job.stages:
        yield Finding("stages", f"It goes on at {where}.{kept}")


def stage_names(e: Evidence, task: str) -> tuple[str, ...]:
    """The stages of a task, as a live node announces them."""
    known = (dict(node.stages).get(name_of(task), ()) for node in e.live)
    return next(filter(None, known), ())


def _where(done: int, names: Sequence[str]) -> str:
    if done < len(names):
        return f"stage {done + 1} of {len(names)} ({legible(names[done], 60)})"
    return f"stage {done + 1}"


def _kept(e: Evidence, done: Sequence[StageDone]) -> str:
    told = [f"{place} ({_facts(e, stage)})" for place, stage in enumerate(done, 1)]
    if not told:
        return ""
    if len(told) == 1:
        return f" Stage {told[0]} is kept and does not run again."
    return f" Stages {', '.join(told[:-1])} and {told[-1]} are kept and do not run again."


def _facts(e: Evidence, stage: StageDone) -> str:
    by = f", by {legible(e.name_of(stage.node), 60)}" if stage.node else ""
    took = duration(stage.ms / 1000)
    return f"{legible(stage.name, 60)}, {took}, {amount(stage.bytes)}{by}"


def _ordinal(attempt: int) -> str:
    if 1 <= attempt <= len(_ORDINALS):
        return _ORDINALS[attempt - 1]
    return f"{attempt}th"
