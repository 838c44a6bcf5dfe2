"""`tontine why`: the reasons for a job being where it is, and what to do about them."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from ..config import StoreConfig
from ..diagnose.why import Evidence, Finding, explain, second_look
from ..errors import UnknownJob
from ..legible import legible
from ..records.job import Job
from .options import json_option, opened, store_options
from .output import console, job_state, write_json
from .plan_amend import is_plans
from .plan_why import about_place, why_plan


@click.command()
@click.argument("name", metavar="SEQ_OR_ID", required=False)
@click.option(
    "--id", "id_text", metavar="ID", help="Ask by _id, also where a job has that as its number."
)
@json_option
@store_options
def why(name: str | None, id_text: str | None, as_json: bool, store: StoreConfig) -> None:
    """Tell why a job, or a plan, is where it is, the most important reason first, and what to do
    about it.

    \b
    Examples:
      tontine why 17
      tontine why 665f1c0e9b1e8a0001a3c0de    by its _id, also before it has a number

    Digits are a number first, and an _id if no job has that number.

    It only reads. When nothing explains why a job waits, it looks again a few seconds later to see
    whether the job's owner is working at all. Exit code 2 if there is no such job.
    """
    from ..diagnose.why import read
    from ..store.call import Store

    if (name is None) == (id_text is None):
        raise click.UsageError("give a job's number or its _id")

    def gather(opened_store: Store) -> Evidence:
        steps = read.gather_by_id(id_text or "") if name is None else read.gather_named(name)
        found = opened_store.run(steps)
        if found.job and found.job.is_numbered and (wait := second_look(found)):
            time.sleep(wait)
            return opened_store.run(read.look_again(found.job.seq, found))
        return found

    with opened(store) as opened_store:
        if name is not None and name.isdecimal() and is_plans(opened_store, int(name)):
            why_plan(opened_store, int(name), as_json=as_json)
            return
        found = gather(opened_store)
        findings = [*explain(found), *about_place(opened_store, found.job)]
    if as_json:
        write_json({**_facts(found), "findings": [asdict(finding) for finding in findings]})
        raise click.exceptions.Exit(0 if found.job else 2)
    if found.job is None:
        raise UnknownJob(_line(findings[0]))
    _write(found.job, findings)


def _facts(found: Evidence) -> dict[str, Any]:
    job = found.job
    if job is None:
        return {"seq": found.trace.seq if found.trace else None, "state": None}
    return {
        "seq": job.seq if job.is_numbered else None,
        "_id": job.id,
        "task": job.task,
        "state": job.state.value,
    }


def _line(finding: Finding) -> str:
    return legible(
        f"{finding.sentence.rstrip('.')}{f': {finding.advice}' if finding.advice else ''}"
    )


def _write(job: Job, findings: list[Finding]) -> None:
    out = console()
    label = (
        f"job {job.seq}" if job.is_numbered else f"job without a number, _id {legible(job.id, 100)}"
    )
    out.print(
        Text.assemble((label, "bold"), f"  {legible(job.task or '-', 100)}  ", job_state(job.state))
    )
    for finding in findings:
        out.print(Text(f"  {legible(finding.sentence)}"))
        if finding.advice:
            out.print(Text(f"  → {legible(finding.advice)}", style="dim"))
