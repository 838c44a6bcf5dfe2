"""`tontine retry` and `tontine cancel`: change what becomes of jobs, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import click

from ..config import StoreConfig
from ..errors import UnknownJob
from ..legible import legible
from ..states import JobState
from ..store.call import Store
from .options import json_option, opened, seq_argument, store_options
from .output import note, write_json

Change = Callable[[Store, int], tuple[bool, JobState, str]]
"""Changes one job: whether it did what was asked, the job's state now, and what to say."""


@click.command()
@seq_argument
@json_option
@store_options
def retry(seqs: tuple[int, ...], as_json: bool, store: StoreConfig) -> None:
    """Put finished jobs back in the queue, whatever attempts they have left.

    Exit code 1 if one of them is not finished, 2 if one does not exist; the others are put back all the same.
    """
    _each(seqs, _retry, as_json, store)


@click.command()
@seq_argument
@json_option
@store_options
def cancel(seqs: tuple[int, ...], as_json: bool, store: StoreConfig) -> None:
    """Cancel jobs: queued ones at once, running ones as soon as their node has ended them.

    Exit code 1 if one of them has ended already, 2 if one does not exist; the others are cancelled all the same.
    """
    _each(seqs, _cancel, as_json, store)


def _retry(store: Store, seq: int) -> tuple[bool, JobState, str]:
    from ..store import control

    job, was_finished = store.run(control.retry(seq))
    if was_finished:
        return True, job.state, f"job {seq} is back in the queue"
    return False, job.state, f"job {seq} is {job.state.value}: only a finished job can be put back"


def _cancel(store: Store, seq: int) -> tuple[bool, JobState, str]:
    from ..store import control

    job = store.run(control.cancel(seq))
    match job.state:
        case JobState.CANCELLED:
            return True, job.state, f"job {seq} is cancelled"
        case JobState.WORKING:
            return True, job.state, f"job {seq} runs on {legible(job.node, 100)}, which was asked to end it"
    return False, job.state, f"job {seq} is {job.state.value} already"


def _each(seqs: tuple[int, ...], change: Change, as_json: bool, config: StoreConfig) -> None:
    code = 0
    with opened(config) as store:
        for seq in dict.fromkeys(seqs):
            try:
                was_done, state, message = change(store, seq)
            except UnknownJob as error:
                code = 2
                note(f"tontine: {error}")
                continue
            code = code or int(not was_done)
            if as_json:
                write_json({"seq": seq, "ok": was_done, "state": state.value, "message": message})
            else:
                click.echo(message, err=not was_done)
    raise click.exceptions.Exit(code)
