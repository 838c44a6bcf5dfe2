"""`tontine retry` and `tontine cancel`: change what becomes of jobs, by number one after the other,
or many at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import click

from ..config import StoreConfig
from ..errors import ConfigError, UnknownJob
from ..filter import Filter
from ..legible import legible
from ..records.states import FINAL, OPEN, JobState
from ..store.call import Operation, Store
from .many import (
    BulkCommand,
    agrees,
    change_many,
    changing_options,
    filter_of,
    filter_options,
    is_asked,
)
from .options import json_option, opened, store_options
from .output import note, write_json
from .plan_amend import cancel_plan, is_plans, retry_plan

Change = Callable[[Store, int], tuple[int, str, str]]
"""Changes one job: the exit code that this deserves, the job's state now, and what to say."""

_seqs = click.argument("seqs", nargs=-1, type=click.IntRange(0, 2**63 - 1), metavar="[SEQ...]")


@click.command()
@_seqs
@filter_options(FINAL)
@click.option(
    "--done",
    "done_too",
    is_flag=True,
    help="Also jobs that are done already: their tasks run again.",
)
@click.option(
    "--from",
    "stage",
    metavar="STAGE",
    help="Begin at this stage again; those before it are kept. Only with numbers.",
)
@changing_options
@json_option
@store_options
def retry(
    *,
    seqs: tuple[int, ...],
    done_too: bool,
    stage: str | None,
    every: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    store: StoreConfig,
    **filters: Any,
) -> None:
    """Put finished jobs back in the queue, whatever attempts they have left: some by number, or all
    that filters find.

    Filters find failed jobs unless --state names other states; what is found is counted first and
    asked about. A job that is done is put back only with --done, or after a question. --since and
    --until are about the time when a job ended. A plan's number goes on with a plan that failed,
    was cancelled or is stuck: what is done of it is not run again.

    A job with stages goes on at the first that is not done, or at the one that --from names; one
    that is done begins anew without it.

    Exit code 1 if one of them is not finished or its key is taken, 2 if one does not exist or needs
    --done; the others are put back all the same.

    \b
    Examples:
      tontine retry 17 18
      tontine retry --task 'shop.*' --since 2h --error ConnectionError --dry-run
      tontine retry --state failed --state cancelled --schedule nightly --yes
    """
    meant = _chosen(seqs, filters, every=every, dry_run=dry_run)
    if meant is not None and stage is not None:
        raise click.UsageError("--from goes with numbers: jobs may have other stages")
    if meant is None:
        asks = is_asked() and not yes
        _each(
            seqs,
            lambda store, seq: _retry(store, seq, stage, done_too=done_too, asks=asks),
            partial(retry_plan, stage=stage),
            as_json,
            store,
        )
    else:
        deed = _retrying(meant, done_too=done_too, asks=dry_run or (is_asked() and not yes))
        change_many(store, deed, dry_run=dry_run, yes=yes, as_json=as_json)


@click.command()
@_seqs
@filter_options(OPEN)
@click.option("--no-undo", is_flag=True, help="Of a plan: leave what is done of it as it is.")
@changing_options
@json_option
@store_options
def cancel(
    *,
    seqs: tuple[int, ...],
    no_undo: bool,
    every: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    store: StoreConfig,
    **filters: Any,
) -> None:
    """Cancel jobs, some by number, or all that filters find: queued ones at once, running ones as
    soon as their node has ended them.

    What filters find is counted first and asked about. --since and --until are about the time of
    submission. A plan's number stops the plan: what is queued of it is cancelled, what runs is
    asked to end, and what was done is undone.

    Exit code 1 if one of them has ended already, 2 if one does not exist; the others are cancelled
    all the same.

    \b
    Examples:
      tontine cancel 17 18
      tontine cancel --task shop.mail --state queued --dry-run
      tontine cancel --node web-1 --yes
    """
    meant = _chosen(seqs, filters, every=every, dry_run=dry_run)
    if meant is None:
        _each(
            seqs,
            partial(_cancel, no_undo=no_undo),
            partial(cancel_plan, undo=not no_undo),
            as_json,
            store,
        )
    elif no_undo:
        raise click.UsageError("--no-undo goes with plans' numbers: what filters find are jobs")
    else:
        change_many(store, _cancelling(meant), dry_run=dry_run, yes=yes, as_json=as_json)


def _chosen(
    seqs: tuple[int, ...], filters: dict[str, Any], *, every: bool, dry_run: bool
) -> Filter | None:
    """The filter, or None where jobs are named by number."""
    meant = filter_of(filters)
    by_filter = every or not meant.says_nothing
    if seqs and (by_filter or dry_run):
        raise click.UsageError("give numbers or filters, not both: filters find jobs by themselves")
    if not seqs and not by_filter:
        raise click.UsageError(
            "name jobs by number, or say which with filters like --task, or --all"
        )
    return None if seqs else meant


def _retrying(meant: Filter, *, done_too: bool, asks: bool) -> BulkCommand:
    from ..store import many

    if done_too:
        meant = replace(
            meant, states=(meant.states or frozenset({JobState.FAILED})) | {JobState.DONE}
        )
    elif JobState.DONE in meant.states and not asks:
        raise click.UsageError(
            "--state done runs again what is done already: give --done, too, if that is meant"
        )
    caution = "those that are done would run again; " if JobState.DONE in meant.states else ""
    meant = meant.meaning(FINAL, [JobState.FAILED], "put back")
    return BulkCommand("retry", "put {} back", "put back", meant, _same, many.retry_many, caution)


def _cancelling(meant: Filter) -> BulkCommand:
    from ..store import many

    return BulkCommand(
        "cancel",
        "cancel {}",
        "cancelled",
        meant.meaning(OPEN, OPEN, "cancelled"),
        _same,
        many.cancel_many,
    )


def _same(meant: Filter) -> Operation[Filter]:
    from ..store.read import now

    return meant.anchored((yield from now()))


def _retry(
    store: Store, seq: int, stage: str | None, *, done_too: bool, asks: bool
) -> tuple[int, str, str]:
    from ..store import control

    seen = store.run(control.read_job(seq)).state
    if (
        seen is JobState.DONE
        and not done_too
        and not (asks and agrees(f"job {seq} is done: run it again?"))
    ):
        return 2, seen, f"job {seq} is done: give --done to run it again"
    job, was_finished = store.run(control.retry(seq, seen, stage))
    if was_finished:
        return 0, job.state, f"job {seq} is back in the queue"
    return 1, job.state, f"job {seq} is {job.state.value}: only a finished job can be put back"


def _cancel(store: Store, seq: int, *, no_undo: bool) -> tuple[int, str, str]:
    from ..store import control

    if no_undo:  # one that is a plan's would stop that, and have it undone
        store.run(control.read_job(seq))
        raise ConfigError(f"--no-undo goes with plans, and {seq} is a job: it was left as it is")
    job = store.run(control.cancel(seq))
    match job.state:
        case JobState.CANCELLED:
            return 0, job.state, f"job {seq} is cancelled"
        case JobState.WORKING:
            return (
                0,
                job.state,
                f"job {seq} runs on {legible(job.node, 100)}, which was asked to end it",
            )
    return 1, job.state, f"job {seq} is {job.state.value} already"


def _each(
    seqs: tuple[int, ...], change: Change, change_plan: Change, as_json: bool, config: StoreConfig
) -> None:
    code = 0
    with opened(config) as store:
        for seq in dict.fromkeys(seqs):
            try:
                is_plan = is_plans(store, seq)
                fault, state, message = (change_plan if is_plan else change)(store, seq)
            except (UnknownJob, ConfigError) as error:
                code = 2
                note(f"tontine: {error}")
                continue
            code = max(code, fault)
            if as_json:
                write_json({"seq": seq, "ok": not fault, "state": str(state), "message": message})
            else:
                click.echo(message, err=bool(fault))
    raise click.exceptions.Exit(code)
