"""`tontine schedule`: recurring jobs."""

from __future__ import annotations

from typing import Any, get_args

import click
from rich.text import Text

from ..config import StoreConfig, seconds
from ..errors import ConfigError
from ..legible import ago, duration, legible
from ..schedule import Broken, Missed, Schedule
from .complete import complete_tasks
from .options import json_option, opened, store_options
from .output import json_text, note, write_json, write_table
from .submit import read_arguments

_COLUMNS = ("NAME", "NEXT", "WHEN", "TASK", "MISSED", "ARGS")


@click.group()
def schedule() -> None:
    """Recurring jobs: at the times of a cron expression, or at fixed intervals.

    A schedule is a document. Whichever node is there inserts the job when it is due, once per due time; there is no
    scheduler to run.
    """


@schedule.command()
@click.argument("name")
@click.argument("task", shell_complete=complete_tasks)
@click.argument("args_json", required=False, metavar="[ARGS_JSON]")
@click.option("--cron", help="A cron expression, like '30 6 * * 1-5'.")
@click.option("--every", help="An interval, like 10m.")
@click.option("--tz", "timezone", default="UTC", show_default=True, help="The time zone of --cron, like Europe/Paris.")
@click.option(
    "--missed",
    type=click.Choice(get_args(Missed)),
    default="once",
    show_default=True,
    help="What becomes of times at which no node was there: skip them, fire once for all, or fire each.",
)
@json_option
@store_options
def add(
    name: str,
    task: str,
    args_json: str | None,
    cron: str | None,
    every: str | None,
    timezone: str,
    missed: Missed,
    as_json: bool,
    store: StoreConfig,
) -> None:
    """Add a schedule, or replace the one of that name.

    \b
    Examples:
      tontine schedule add report shop.report --cron '30 6 * * 1-5' --tz Europe/Paris
      tontine schedule add tidy shop.tidy '{"older_than": "7d"}' --every 10m --missed skip
    """
    from ..store import schedules

    interval = None if every is None else seconds(every)
    wanted = Schedule(name, task, read_arguments(args_json) if args_json else {}, cron, interval, timezone, missed)
    wanted.check()
    with opened(store, is_adding=True) as opened_store:
        added = opened_store.run(schedules.add(wanted))
        if as_json:
            write_json(added.to_document())
        else:
            click.echo(f"{legible(name)}: first due {added.next_at:%Y-%m-%d %H:%M:%S} UTC")


@schedule.command(name="ls")
@json_option
@store_options
def ls(as_json: bool, store: StoreConfig) -> None:
    """List the schedules, and which of them cannot fire.

    A broken one is a document that no node can use: it says why, and `schedule add` replaces it.
    """
    from ..store import look, schedules

    with opened(store) as opened_store:
        found = opened_store.run(schedules.read_schedules())
        now = opened_store.run(look.now())
    if as_json:
        for one in found:
            write_json(_document(one))
    elif found:
        write_table(_COLUMNS, [_row(one, now) for one in found], cut=("ARGS", "TASK"))
        for one in found:
            if isinstance(one, Broken):
                click.echo(f"{legible(one.name)} is broken: {legible(one.why)}")
    else:
        note("no schedule yet: `tontine schedule add NAME TASK --every 10m` adds one")


@schedule.command(name="rm")
@click.argument("name")
@json_option
@store_options
def rm(name: str, as_json: bool, store: StoreConfig) -> None:
    """Remove a schedule. Jobs that it has inserted stay."""
    from ..store import schedules

    with opened(store) as opened_store:
        if not opened_store.run(schedules.remove(name)):
            raise ConfigError(f"there is no schedule {name!r}: `tontine schedule ls` lists them")
    if as_json:
        write_json({"name": name, "removed": True})
    else:
        click.echo(f"{legible(name)}: removed")


def _document(one: Schedule | Broken) -> dict[str, Any]:
    if isinstance(one, Broken):
        return {"_id": one.name, "broken": one.why}
    return {**one.to_document(), "broken": None}


def _row(one: Schedule | Broken, now: Any) -> tuple[Any, ...]:
    if isinstance(one, Broken):
        return (one.name, Text("broken", style="red"), "-", "-", "-", "-")
    when = f"every {duration(one.every)}" if one.every else f"{one.cron} {one.timezone}"
    return (
        one.name,
        ago(one.next_at, now),
        when,
        one.task,
        one.missed,
        legible(json_text(one.args), 200) if one.args else "-",
    )
