"""`tontine schedule`: recurring jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, get_args

import click
from rich.text import Text

from ..config import StoreConfig, seconds
from ..errors import ConfigError
from ..legible import ago, duration, legible
from ..records.job import Job
from ..records.schedule import LastRun, Missed, Overlap, Schedule, Standing
from .arguments import read_arguments
from .complete import complete_arguments, complete_files, complete_schedules, complete_tasks
from .options import json_option, opened, store_options
from .output import job_state, json_text, note, write_json, write_table
from .plan_submit import read_plan_file
from .plan_tree import plan_state
from .unknown import warn_of_unknown

_COLUMNS = ("NAME", "NEXT", "LAST", "WHEN", "TASK", "MISSED", "OVERLAP", "DECLARED BY", "ARGS")


@click.group()
def schedule() -> None:
    """Recurring jobs: at the times of a cron expression, or at fixed intervals.

    A schedule is a document. Whichever node is there inserts the job when it is due, once per due
    time; there is no scheduler to run.
    """


@schedule.command()
@click.argument("name", shell_complete=complete_schedules)
@click.argument("task", required=False, shell_complete=complete_tasks)
@click.argument(
    "args_json", required=False, metavar="[ARGS_JSON]", shell_complete=complete_arguments
)
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    shell_complete=complete_files,
    help="Insert the plan whose document this JSON file has, instead of jobs of a task.",
)
@click.option("--cron", help="A cron expression, like '30 6 * * 1-5'.")
@click.option("--every", help="An interval, like 10m.")
@click.option(
    "--tz",
    "timezone",
    default="UTC",
    show_default=True,
    help="The time zone of --cron, like Europe/Paris.",
)
@click.option(
    "--missed",
    type=click.Choice(get_args(Missed)),
    default="once",
    show_default=True,
    help=(
        "What becomes of times at which no node was there: skip them, fire once for all, or "
        "fire each."
    ),
)
@click.option(
    "--overlap",
    type=click.Choice(get_args(Overlap)),
    default="queue",
    show_default=True,
    help="When it is due while its last job has not ended: queue another one, or skip that time.",
)
@click.option(
    "--max-age",
    metavar="10m",
    help="Cancel a job of it that has not started so long after its insert.",
)
@json_option
@store_options
def add(
    *,
    name: str,
    task: str | None,
    args_json: str | None,
    plan_file: str | None,
    cron: str | None,
    every: str | None,
    timezone: str,
    missed: Missed,
    overlap: Overlap,
    max_age: str | None,
    as_json: bool,
    store: StoreConfig,
) -> None:
    """Add a schedule, or replace the one of that name.

    \b
    Examples:
      tontine schedule add report shop.report --cron '30 6 * * 1-5' --tz Europe/Paris
      tontine schedule add tidy shop.tidy '{"older_than": "7d"}' --every 10m --missed skip
      tontine schedule add nightly --plan album.json --cron '0 3 * * *' --overlap skip
    """
    from ..store import schedules

    interval, age = (None if text is None else seconds(text) for text in (every, max_age))
    if (task is None) == (plan_file is None):
        raise ConfigError("name either a task, or with --plan the file of a plan")
    args = read_arguments(args_json) if args_json else {}
    plan = None if plan_file is None else read_plan_file(plan_file)
    wanted = Schedule(
        name,
        task or "",
        args,
        cron,
        interval,
        timezone,
        missed,
        overlap=overlap,
        max_age=age,
        plan=plan,
    )
    wanted.check()
    with opened(store, is_adding=True) as opened_store:
        added = opened_store.run(schedules.add(wanted))
        if as_json:
            write_json(added.to_document())
        else:
            click.echo(f"{legible(name)}: first due {added.next_at:%Y-%m-%d %H:%M:%S} UTC")
        for one in wanted.tasks:
            warn_of_unknown(opened_store, one)


@schedule.command(name="ls")
@json_option
@store_options
def ls(as_json: bool, store: StoreConfig) -> None:
    """List the schedules, when they are due, what became of their last jobs, and which of them
    cannot fire.

    A broken one is a document that no node can use: it says why, and `schedule add` replaces it.
    """
    from ..store import read, standings

    with opened(store) as opened_store:
        found = opened_store.run(standings.read_standings())
        now = opened_store.run(read.now())
    if as_json:
        for one in found:
            write_json(_document(one))
    elif found:
        write_table(_COLUMNS, [_row(one, now) for one in found], cut=("ARGS", "TASK"))
        for one in found:
            if one.broken is not None:
                click.echo(f"{legible(one.name)} is broken: {legible(one.broken)}")
            for warning in one.warnings:
                click.echo(f"{legible(one.name)}: {warning}")
    else:
        note("no schedule yet: `tontine schedule add NAME TASK --every 10m` adds one")


@schedule.command(name="rm")
@click.argument("name", shell_complete=complete_schedules)
@json_option
@store_options
def rm(name: str, as_json: bool, store: StoreConfig) -> None:
    """Remove a schedule. Jobs that it has inserted stay.

    One that a module declares stays removed, too, until `tontine schedule on`.
    """
    from ..store import schedules

    with opened(store) as opened_store:
        if not opened_store.run(schedules.remove(name)):
            raise ConfigError(f"there is no schedule {name!r}: `tontine schedule ls` lists them")
    if as_json:
        write_json({"name": name, "removed": True})
    else:
        click.echo(f"{legible(name)}: removed")


@schedule.command(name="off")
@click.argument("name", shell_complete=complete_schedules)
@json_option
@store_options
def off(name: str, as_json: bool, store: StoreConfig) -> None:
    """Let a schedule rest until `tontine schedule on`. Jobs that it has inserted stay."""
    from ..store import schedules

    with opened(store) as opened_store:
        if not opened_store.run(schedules.switch_off(name)):
            raise ConfigError(f"there is no schedule {name!r}: `tontine schedule ls` lists them")
    if as_json:
        write_json({"name": name, "off": True})
    else:
        click.echo(f"{legible(name)}: off")


@schedule.command(name="on")
@click.argument("name", shell_complete=complete_schedules)
@json_option
@store_options
def on(name: str, as_json: bool, store: StoreConfig) -> None:
    """Let a schedule that is off go on, from now; bring back one that a module declares and that
    was removed."""
    from ..store import schedules

    with opened(store) as opened_store:
        switched = opened_store.run(schedules.switch_on(name))
    if as_json:
        write_json(
            {"name": name, "off": False, "next_at": None if switched is None else switched.next_at}
        )
    elif switched is None:
        click.echo(f"{legible(name)}: a node that declares it adds it again within a minute or so")
    else:
        click.echo(f"{legible(name)}: next due {switched.next_at:%Y-%m-%d %H:%M:%S} UTC")


@schedule.command(name="run")
@click.argument("name", shell_complete=complete_schedules)
@json_option
@store_options
def run(name: str, as_json: bool, store: StoreConfig) -> None:
    """Insert a job, or the plan, of a schedule now, beside its times; also of one that is off.

    Exit code 1: its last one has not ended, and with --overlap skip there is only one at a time.
    """
    from ..store import schedules

    with opened(store) as opened_store:
        job = opened_store.run(schedules.run_now(name))
    kind = "job" if isinstance(job, Job) else "plan"
    if as_json:
        write_json(
            {
                "name": name,
                "_id": job.id,
                "seq": job.seq,
                "state": job.state,
                "existed": job.existed,
            }
        )
    elif job.existed:
        state = job.state or "new"
        note(f"{legible(name)}: {kind} {job.seq} of it is {state}, and there is one at a time")
    else:
        click.echo(f"{legible(name)}: submitted {kind} {job.seq}")
    if job.existed:
        raise click.exceptions.Exit(1)


def _document(one: Standing) -> dict[str, Any]:
    around = {"broken": one.broken, "warnings": list(one.warnings), "removed": one.is_removed}
    if one.schedule is None:
        return {"_id": one.name, **around}
    last = (
        None
        if one.last is None
        else {"seq": one.last.seq, "state": one.last.state, "at": one.last.at}
    )
    shown = {"overlap": one.schedule.overlap, "off": one.schedule.off, "last": last}
    return {**one.schedule.to_document(), **shown, **around}


def _interval(seconds: float) -> str:
    """As it was asked for: nobody measured it, so a whole number has no decimals."""
    return f"{seconds:.0f} s" if seconds < 10 and seconds == int(seconds) else duration(seconds)


def _row(one: Standing, now: datetime) -> tuple[Any, ...]:
    schedule = one.schedule
    if schedule is None:
        why = "broken" if one.broken is not None else "removed"
        return (one.name, Text(why, style="red"), *["-"] * (len(_COLUMNS) - 2))
    origin = schedule.declared
    return (
        one.name,
        Text("off", style="yellow") if schedule.off else ago(schedule.next_at, now),
        _last(one.last, now, is_plan=schedule.plan is not None),
        f"every {_interval(schedule.every)}"
        if schedule.every
        else f"{schedule.cron} {schedule.timezone}",
        legible(schedule.what, 100),
        schedule.missed,
        f"skip ({schedule.skipped} skipped)" if schedule.skipped else schedule.overlap,
        "-" if origin is None else f"{origin.module} {origin.version}",
        legible(json_text(schedule.args), 200) if schedule.args else "-",
    )


def _last(last: LastRun | None, now: datetime, *, is_plan: bool) -> Text:
    if last is None:
        return Text("-")
    if last.seq is None:
        return Text("removed", style="dim")
    state = plan_state(last.state) if is_plan else job_state(last.state)
    return Text.assemble(state, f" {ago(last.at, now)}, {'plan' if is_plan else 'job'} {last.seq}")
