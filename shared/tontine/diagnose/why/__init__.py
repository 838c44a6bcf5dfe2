"""Why a job is where it is: `read.py` gathers evidence, and it becomes findings, the most important
first."""

from __future__ import annotations

from ...records.job import Job
from ...records.states import FINAL, JobState
from .ended import explain_ended, explain_missing
from .evidence import Evidence, Finding, Trace
from .family import tell_family
from .held import explain_held
from .queued import explain_queued, second_look
from .stages import tell_stages
from .unnumbered import explain_unnumbered

__all__ = ["Evidence", "Finding", "Trace", "explain", "second_look"]


def explain(evidence: Evidence) -> list[Finding]:
    """Why the job is where it is."""
    job = evidence.job
    if job is None:
        return list(explain_missing(evidence, evidence.trace or Trace(None, 0)))
    odd = [Finding("odd-field", f"{one[0].upper()}{one[1:]}.") for one in evidence.odd_fields]
    return [*_about(evidence, job), *odd]


def _about(evidence: Evidence, job: Job) -> list[Finding]:
    if not job.is_numbered:
        return list(explain_unnumbered(evidence, job))
    explain_state = explain_queued
    if job.state in FINAL:
        explain_state = explain_ended
    elif job.state is JobState.WORKING:
        explain_state = explain_held
    about = [*explain_state(evidence, job), *tell_stages(evidence, job)]
    return [*about, *tell_family(evidence, job)]
