"""`tontine plan SEQ` and `tontine plans`: one plan as a tree of its steps, and all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..config import StoreConfig
from ..legible import ago, count, legible
from ..records.plan_status import WAITING
from ..records.states import PlanState
from ..rules.plan_shown import undo_told
from .options import json_option, opened, store_options
from .output import console, job_state, note, write_json, write_table
from .plan_tree import dot, plan_state, tree

if TYPE_CHECKING:
    from ..records.plan import PlanRecord
    from ..records.plan_status import PlanStatus, StepStatus
    from ..store.call import Store

Look = Callable[[], "tuple[PlanRecord, PlanStatus]"]
"""Reads a plan, and how it stands."""

LOOK_EVERY = 0.2
JOBS_SHOWN = 1000


@click.command()
@click.option(
    "--state",
    type=click.Choice(["new", *(state.value for state in PlanState)]),
    help="Only plans in this state; new ones are those that no node has accepted yet.",
)
@click.option("--name", help="Only plans of this name.")
@click.option(
    "--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="At most so many."
)
@json_option
@store_options
def plans(
    *, state: str | None, name: str | None, limit: int, as_json: bool, store: StoreConfig
) -> None:
    """List plans, the newest first: state, steps that are done, age, and the error that stopped
    one."""
    from ..store.plans.status import list_plans, read_counted, read_status
    from ..store.read import now

    with opened(store) as opened_store:
        found = opened_store.run(list_plans(state, name, limit))
        moment = opened_store.run(now())
        rows = []
        for plan in found:
            if as_json:
                status = None if plan.seq is None else opened_store.run(read_status(plan.seq))
                write_json(facts(plan, status))
            elif counted := opened_store.run(read_counted({"_id": plan.id})):  # not its result
                rows.append(_row(plan, counted[2], ago(plan.created_at, moment)))
    if rows:
        columns = ("SEQ", "STATE", "NAME", "DONE", "STEPS", "AGE", "NOTE")
        write_table(columns, rows, right=("SEQ", "DONE", "STEPS"), cut=("NOTE", "NAME"))
    elif not as_json:
        note(
            "no such plan"
            if state or name
            else "no plan yet: `tontine submit --plan FILE` adds one"
        )


def _row(plan: PlanRecord, status: PlanStatus, age: str) -> tuple[Any, ...]:
    progress = "-" if plan.seq is None else f"{status.progress:.0%}"
    error = "" if plan.error is None else legible(str(plan.error), 200)
    seq = "-" if plan.seq is None else plan.seq
    return (seq, plan_state(plan.state), plan.name or "-", progress, len(plan.steps), age, error)


def facts(plan: PlanRecord, status: PlanStatus | None) -> dict[str, Any]:
    """A plan as programs want it."""
    shown: dict[str, Any] = {
        "_id": plan.id,
        "seq": plan.seq,
        "state": plan.state,
        "name": plan.name,
        "key": plan.key,
        "try": plan.try_,
        "cause": plan.cause,
        "error": None if plan.error is None else plan.error.to_document(),
        "created_at": plan.created_at,
        "finished_at": plan.finished_at,
    }
    if status is None:
        return shown
    return {
        **shown,
        "progress": status.progress,
        "result": status.result,
        "steps": {step.name: _step_facts(step) for step in status.steps.values()},
        "finally": None if status.closing is None else _step_facts(status.closing),
    }


def _step_facts(step: StepStatus) -> dict[str, Any]:
    return {
        "task": step.task,
        "state": step.state,
        "done": step.done,
        "total": step.total,
        "failed": step.jobs.failed,
        "undo": None if step.undo is None else {"done": step.undo.done, "all": step.undo.all},
    }


@click.command()
@click.argument("seq", type=click.IntRange(1, 2**63 - 1))
@click.option("--jobs", "with_jobs", is_flag=True, help="Also its jobs, each with its number.")
@click.option("--follow", is_flag=True, help="Draw it again as it changes, until it has ended.")
@click.option("--dot", "as_dot", is_flag=True, help="The graph of its steps, for Graphviz.")
@json_option
@store_options
def plan(
    *, seq: int, with_jobs: bool, follow: bool, as_dot: bool, as_json: bool, store: StoreConfig
) -> None:
    """Show one plan as a tree: of each step its state, how many of its jobs are done, and how long
    it took.

    \b
    Examples:
      tontine plan 17
      tontine plan 17 --follow
      tontine plan 17 --dot | dot -Tsvg > plan.svg

    Exit code 2 if there is no such plan.
    """
    if as_dot and (with_jobs or follow or as_json):
        raise click.UsageError("--dot writes the graph and nothing else: give it alone")
    if follow and with_jobs:
        raise click.UsageError("--follow draws the steps: give --jobs without it")
    with opened(store) as opened_store:
        if follow:
            follow_plan(opened_store, partial(read_both, opened_store, seq), as_json=as_json)
            return
        found, status = read_both(opened_store, seq)
        if as_json:
            write_json(facts(found, status))
        elif as_dot:
            click.echo(dot(found, status))
        else:
            _draw(opened_store, found, status)
        if with_jobs:
            _write_jobs(opened_store, seq, as_json=as_json)


def read_both(store: Store, seq: int) -> tuple[PlanRecord, PlanStatus]:
    """A plan, and how it stands."""
    from ..store.plans.read import read_plan
    from ..store.plans.status import read_status

    status = store.run(read_status(seq))  # first: who sees that it has ended draws its end
    return store.run(read_plan(seq)), status


def _draw(store: Store, found: PlanRecord, status: PlanStatus) -> None:
    from ..store.read import now

    out = console()
    for line in tree(found, status, store.run(now())):
        out.print(line)


def _write_jobs(store: Store, seq: int, *, as_json: bool) -> None:
    from ..store.plans.read import read_jobs

    jobs, _ = store.run(read_jobs(seq))
    shown = len(jobs) if as_json else JOBS_SHOWN
    for job in sorted(jobs, key=lambda one: one.place.id)[:shown]:
        error = "" if job.error is None else f"{job.error.type}: {job.error.message}"
        if as_json:
            place = job.place.to_document()
            write_json({"_id": job.place.id, "seq": job.seq, "state": job.state, "plan": place})
        else:
            line = job_state(job.state.value)
            console().print(f"  {job.seq:>8}  ", line, f" {job.place.id}  {legible(error, 200)}")
    if len(jobs) > JOBS_SHOWN and not as_json:
        note(f"... and {count(len(jobs) - JOBS_SHOWN, 'job')} more")


def follow_plan(store: Store, look: Look, *, as_json: bool = False) -> PlanStatus:
    """Draw a plan again and again until it has ended; where nobody can see that, a line for each
    change of a step."""
    from rich.console import Group
    from rich.live import Live

    from ..store.read import now

    out = console(stderr=True)
    if not out.is_terminal or as_json:
        return _tell_changes(look, as_json=as_json)
    with Live(console=out, auto_refresh=False) as live:
        while True:
            found, status = look()
            lines = tree(found, status, store.run(now()), out.height - 1)
            live.update(Group(*lines), refresh=True)
            if status.is_final:
                return status
            time.sleep(LOOK_EVERY)


def _told(plan: PlanRecord, status: PlanStatus) -> Iterator[str]:
    """How all that has begun of a plan stands, also on its way back and in the end."""
    for step in (*status.steps.values(), *filter(None, (status.closing,))):
        if step.state != WAITING:
            yield f"{step.name.removeprefix('~')}: {step.state}"
        if (undo := undo_told(plan, step)) and step.undo is not None:
            yield f"{step.name}: {undo.partition(',')[0]}"


def _tell_changes(look: Look, *, as_json: bool) -> PlanStatus:
    seen: list[str] = []
    before: Any = ()
    while True:
        found, status = look()
        if as_json and (now := facts(found, status)) != before:
            write_json(now)
            before = now
        told = [] if as_json else list(_told(found, status))
        for line in told:
            if line not in seen:
                note(line)
        seen = told
        if status.is_final:
            if not as_json:
                note(f"plan {status.seq}: {status.state}")
            return status
        time.sleep(LOOK_EVERY)
