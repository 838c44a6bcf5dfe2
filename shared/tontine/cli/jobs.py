"""`tontine jobs`: the newest jobs, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from ..config import StoreConfig
from ..legible import ago, count, duration, legible
from ..states import JobState
from .complete import complete_tasks
from .options import json_option, opened, store_options
from .output import job_state, note, write_json, write_table

_COLUMNS = ("SEQ", "STATE", "TASK", "ATTEMPT", "AGE", "RAN", "NODE", "NOTE")
_UNNUMBERED_SHOWN = 1000


@click.command()
@click.option("--state", type=click.Choice([state.value for state in JobState]), help="Only jobs in this state.")
@click.option("--task", help="Only jobs of this task.", shell_complete=complete_tasks)
@click.option(
    "--limit", "-n", type=click.IntRange(1, 2**31 - 1), default=20, show_default=True, help="How many at most."
)
@json_option
@store_options
def jobs(state: str | None, task: str | None, limit: int, as_json: bool, store: StoreConfig) -> None:
    """List jobs, newest first.

    \b
    Examples:
      tontine jobs                            the 20 newest
      tontine jobs --state failed -n 100      what failed lately
      tontine jobs --task shop.resize --json  documents for a program, without results
    """
    from ..store import look

    with opened(store) as opened_store:
        found = opened_store.run(look.list_jobs(JobState(state) if state else None, task, limit))
        if as_json:
            for document in found:
                write_json(document)
            return
        now = opened_store.run(look.now())
        unnumbered = opened_store.run(look.find_unnumbered(_UNNUMBERED_SHOWN))
    if found:
        write_table(
            _COLUMNS, [_row(document, now) for document in found], right=("SEQ", "ATTEMPT"), cut=("NOTE", "TASK")
        )
    elif not unnumbered:
        note("no such job" if state or task else "no job yet: `tontine submit TASK` adds one")
    if unnumbered:
        more = "or more " if len(unnumbered) == _UNNUMBERED_SHOWN else ""
        note(f"{count(len(unnumbered), 'job')} {more}without a number yet: nodes number them when they run")


def _row(document: Mapping[str, Any], now: datetime) -> tuple[Any, ...]:
    return (
        document.get("seq"),
        job_state(document.get("state")),
        document.get("task", "-"),
        document.get("attempt", 0),
        ago(document.get("created_at"), now),
        _ran(document, now),
        document.get("node") or "-",
        _remark(document, now),
    )


def _ran(document: Mapping[str, Any], now: datetime) -> str:
    started = document.get("started_at")
    ended = document.get("finished_at") or (now if document.get("state") == JobState.WORKING else None)
    if isinstance(started, datetime) and isinstance(ended, datetime):
        return duration((ended - started).total_seconds())
    return "-"


def _remark(document: Mapping[str, Any], now: datetime) -> str:
    """The one thing worth knowing beside the state."""
    error, progress, run_at = document.get("error"), document.get("progress"), document.get("run_at")
    match document.get("state"):
        case JobState.WORKING if document.get("cancel"):
            return "asked to end"
        case JobState.WORKING if isinstance(progress, Mapping):
            return legible(f"{percent(progress.get('value'))} {progress.get('note') or ''}".strip(), 200)
        case JobState.QUEUED if isinstance(run_at, datetime) and run_at > now:
            return f"{'again ' if document.get('fails') else ''}{ago(run_at, now)}"
        case JobState.FAILED | JobState.QUEUED if isinstance(error, Mapping):
            return legible(f"{error.get('type', '')}: {error.get('message', '')}", 200)
    return ""


def percent(value: Any) -> str:
    """A progress value as any driver may have written it."""
    return f"{value:.0%}" if isinstance(value, int | float) else legible(value, 20)
