"""`tontine submit`: insert jobs, and on wish wait for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any

import click

from ..config import StoreConfig, seconds
from ..errors import ConfigError, NotPermitted, SubmitInterrupted, TontineError
from ..legible import legible
from ..records.job import Job, utc
from ..store import insert, schema
from ..store.call import Store
from ..store.insert import Wish
from ..store.ranges import key_of
from . import plan_submit, waiting
from .arguments import read_arguments, read_object
from .complete import complete_arguments, complete_files, complete_tasks
from .options import json_option, opened, store_options
from .output import note, write_json
from .progress import Meter
from .unknown import warn_of_unknown
from .waiting import Awaited

_CENTURY = 100 * 365.25 * 86400


@click.command()
@click.argument("task", required=False, shell_complete=complete_tasks)
@click.argument("args_json", metavar="[ARGS_JSON]", default="{}", shell_complete=complete_arguments)
@click.option(
    "--count",
    "-n",
    type=click.IntRange(1, 100_000_000),
    default=1,
    metavar="N",
    help="Insert N such jobs.",
)
@click.option(
    "--delay", metavar="10s", help="Run it not before this time from now: 10s, 5m, 1h30m, 7d."
)
@click.option(
    "--at",
    metavar="ISO",
    help="Run it not before this moment; without a time zone it is local time.",
)
@click.option(
    "--key", help="Insert nothing if an unfinished job has this key; that job is meant then."
)
@click.option("--priority", type=int, default=0, metavar="P", help="Higher first. [default: 0]")
@click.option(
    "--max-attempts", type=click.IntRange(1), metavar="N", help="Instead of the task's own."
)
@click.option("--timeout", metavar="30s", help="Limit of each attempt, instead of the task's own.")
@click.option(
    "--max-age", metavar="10m", help="Cancel it if it has not started so long after it was due."
)
@click.option(
    "--unique-for",
    metavar="1h",
    help="With --key: insert nothing either for so long after such a job was done.",
)
@click.option(
    "--version",
    metavar="RANGE",
    help="Run it only with such a version of its module: >=1.2,<2 or ==1.2.*",
)
@click.option(
    "--meta",
    "meta_json",
    metavar="JSON",
    shell_complete=complete_arguments,
    help=(
        "An object kept with the job and no argument of its task: a tenant, a request's id. At "
        "most 4 KB."
    ),
)
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    help="Insert the plan whose document this JSON file has, instead of jobs.",
    shell_complete=complete_files,
)
@click.option("--tenant", metavar="T", help="With --plan: whose it is.")
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until all have ended; exit code 1 if any failed or was cancelled.",
)
@json_option
@store_options
def submit(
    *,
    task: str | None,
    args_json: str,
    count: int,
    delay: str | None,
    at: str | None,
    key: str | None,
    priority: int,
    max_attempts: int | None,
    timeout: str | None,
    max_age: str | None,
    unique_for: str | None,
    version: str | None,
    meta_json: str | None,
    plan_file: str | None,
    tenant: str | None,
    wait: bool,
    as_json: bool,
    store: StoreConfig,
) -> None:
    """Insert jobs that run TASK with the JSON object ARGS_JSON as its arguments.

    "@mail.json" reads it from that file and "-" from stdin. For what JSON has no word for, write
    MongoDB's Extended JSON: {"$date": "2030-01-31T06:00:00Z"}, {"$oid": "..."}, {"$numberDecimal":
    "9.99"}.

    \b
    Examples:
      tontine submit shop.resize '{"image": "a.png"}'
      tontine submit shop.resize '{"image": "a.png"}' --wait      prints its result
      tontine submit shop.report --at 2030-01-31T06:00 --key monthly
      tontine submit shop.mail @mail.json --delay 10m
      tontine submit shop.resize --version '>=1.2,<2'
      tontine submit shop.mail @mail.json --meta '{"tenant": "ada"}'
      tontine submit shop.bill '{"order": {"$oid": "65f0c0ffee65f0c0ffee65f0"}}'
      tontine submit shop.noop --count 100000 --wait              with a progress bar
      tontine submit --plan album.json --wait                     draws its steps as they end

    --json writes one object per job: what was inserted, or with --wait the whole document of each
    as it ended. With --wait the result goes to stdout and everything else to stderr.
    """
    if plan_file is not None:
        if task is not None:
            raise ConfigError("give a TASK or --plan, not both: the plan's file names its tasks")
        of_jobs = {
            "--count": count > 1,
            "--delay": delay,
            "--at": at,
            "--priority": priority,
            "--max-attempts": max_attempts,
            "--timeout": timeout,
            "--max-age": max_age,
            "--unique-for": unique_for,
            "--version": version,
            "--meta": meta_json,
        }
        if option := next((name for name, value in of_jobs.items() if value), None):
            raise ConfigError(f"{option} goes with a TASK: the plan's file says all of its steps")
        document = plan_submit.read_plan_file(plan_file)
        with opened(store, is_adding=True) as opened_store:
            _prepare(opened_store)
            raise click.exceptions.Exit(
                plan_submit.submit_plan(
                    opened_store, document, wait=wait, as_json=as_json, key=key, tenant=tenant
                )
            )
    if task is None:
        raise click.UsageError("name the TASK to run, or give --plan FILE")
    if tenant is not None:
        raise ConfigError("--tenant goes with --plan")
    if delay is not None and at is not None:
        raise ConfigError("give --delay or --at, not both")
    if args_json == meta_json == "-":
        raise ConfigError(
            "ARGS_JSON and --meta cannot both come from stdin: write one of them into a file"
        )
    if key is not None and count > 1:
        raise ConfigError("--key and --count exclude each other: a key names one job")
    limit, age, unique = (
        None if text is None else seconds(text) for text in (timeout, max_age, unique_for)
    )
    task = key_of(task, version)
    wish = Wish(
        task,
        delay=_delay(delay),
        run_at=_moment(at),
        priority=priority,
        key=key,
        max_attempts=max_attempts,
        timeout=limit,
        max_age=age,
        unique_for=unique,
        meta=None if meta_json is None else _meta(meta_json),
    )
    wish.check()
    args = read_arguments(args_json)
    with opened(store, is_adding=True) as opened_store:
        _prepare(opened_store)
        announce = _announce_json if as_json and not wait else None
        batch = _insert(opened_store, wish, args, count, announce)
        if not as_json:
            click.echo(batch.headline(), err=wait)
        if not wait:  # waiting says so itself, if it lasts
            warn_of_unknown(opened_store, task)
        if wait:
            raise click.exceptions.Exit(waiting.wait(opened_store, batch, as_json=as_json))


def _delay(text: str | None) -> float | None:
    delay = None if text is None else seconds(text)
    if delay is not None and delay > _CENTURY:
        raise ConfigError(f"--delay {text} is more than a century")
    return delay


def _meta(text: str) -> dict[str, Any]:
    return read_object(text, "--meta", "what is kept with the job", '\'{"tenant": "ada"}\'')


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise ConfigError(
            f"--at {legible(text, 60)!r} is no time: write 2030-01-31T06:00 (local) or "
            "2030-01-31T06:00:00Z"
        ) from None


def _prepare(store: Store) -> None:
    """A key is unique only where its index is; a producer who may not make one relies on the nodes
    for it."""
    try:
        store.run(schema.ensure())
    except NotPermitted:
        return


def _insert(
    store: Store,
    wish: Wish,
    args: dict[str, Any],
    count: int,
    announce: Callable[[Sequence[Job]], None] | None,
) -> Awaited:
    """Insert chunk by chunk: what is kept of each is its first and last number, however many there
    are."""
    batch = Awaited(wish.task)
    with Meter("inserting", count, shown=count > insert.CHUNK) as meter:
        try:
            for size in _chunks(count):
                jobs: Sequence[Job] = (
                    store.run(insert.submit_many(wish, repeat(args, size)))
                    if wish.key is None
                    else [store.run(insert.submit(wish, args))]
                )
                batch.add(jobs)
                meter.reach(batch.size)
                if announce:
                    announce(jobs)
        except SubmitInterrupted as error:
            raise _interrupted(
                batch.size + error.inserted, error.unknown, error.__cause__ or error
            ) from error
        except TontineError as error:
            if batch.size:
                raise _interrupted(batch.size, 0, error) from error
            raise
        except KeyboardInterrupt:
            note(f"{batch.size:,} jobs were inserted, and up to {insert.CHUNK:,} more")
            raise
    return batch


def _chunks(count: int) -> Iterator[int]:
    for start in range(0, count, insert.CHUNK):
        yield min(insert.CHUNK, count - start)


def _interrupted(inserted: int, unknown: int, why: BaseException) -> SubmitInterrupted:
    return SubmitInterrupted(
        f"{inserted:,} jobs were inserted, {unknown:,} more may have been: {why}", inserted, unknown
    )


def _announce_json(jobs: Sequence[Job]) -> None:
    for job in jobs:
        write_json(
            {
                "_id": job.id,
                "seq": job.seq,
                "task": job.task,
                "state": job.state,
                "existed": job.existed,
            }
        )
