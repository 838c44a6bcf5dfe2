"""`tontine jobs`: the newest jobs, one line each, or how many there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ..config import StoreConfig
from ..filter import Filter
from ..legible import ago, count, duration, legible
from ..records.states import JobState
from .many import filter_of, filter_options
from .options import json_option, opened, store_options
from .output import job_state, note, write_json, write_table

if TYPE_CHECKING:
    from ..store.call import Store

_COLUMNS = ("SEQ", "STATE", "TASK", "ATTEMPT", "AGE", "RAN", "NODE", "NOTE")
_UNNUMBERED_SHOWN = 1000


@click.command()
@filter_options(JobState)
@click.option("--count", "is_counted", is_flag=True, help="Only say how many there are.")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, 2**31 - 1),
    default=20,
    show_default=True,
    help="How many at most.",
)
@json_option
@store_options
def jobs(
    *, is_counted: bool, limit: int, as_json: bool, store: StoreConfig, **filters: Any
) -> None:
    """List jobs, newest first.

    All filters must hold; in texts `*` stands for any text. --since and --until are about the time
    of submission, or, where --state names finished states only, the time when a job ended.

    \b
    Examples:
      tontine jobs                            the 20 newest
      tontine jobs --state failed -n 100      what failed lately
      tontine jobs --state failed --since 2h --error ConnectionError --count
      tontine jobs --key 'welcome-*'
      tontine jobs --task shop.resize --json  documents for a program, without results
    """
    meant = filter_of(filters)
    with opened(store) as opened_store:
        if is_counted:
            _write_count(opened_store, meant, as_json)
            return
        found = _found(opened_store, meant, limit)
        if as_json:
            for document in found:
                write_json(document)
            return
        _write_table(opened_store, list(found), meant)


def _write_count(store: Store, meant: Filter, as_json: bool) -> None:
    from ..store import find

    number = store.run(find.count(meant))
    if as_json:
        write_json({"count": number})
    else:
        click.echo(number)


def _found(store: Store, meant: Filter, limit: int) -> Iterator[dict[str, Any]]:
    """Documents, newest first. Those of a long list are read as they are written."""
    from ..store import find

    begun = store.run(find.search(meant))
    while limit and not begun.is_over:
        page = store.run(begun.page(min(limit, find.PAGE), find.SLIM))
        limit -= len(page)
        yield from page


def _write_table(store: Store, found: Sequence[Mapping[str, Any]], meant: Filter) -> None:
    from ..store import read

    now = store.run(read.now())
    unnumbered = store.run(read.find_unnumbered(_UNNUMBERED_SHOWN))
    if found:
        names = store.run(read.read_names({str(document.get("node")) for document in found}))
        rows = [_row(document, now, names) for document in found]
        write_table(_COLUMNS, rows, right=("SEQ", "ATTEMPT"), cut=("NOTE", "TASK"))
    elif not unnumbered:
        note("no job yet: `tontine submit TASK` adds one" if meant.says_nothing else "no such job")
    if unnumbered:
        more = "or more " if len(unnumbered) == _UNNUMBERED_SHOWN else ""
        note(
            f"{count(len(unnumbered), 'job')} {more}without a number yet: nodes number them when "
            "they run"
        )


def _row(document: Mapping[str, Any], now: datetime, names: Mapping[str, str]) -> tuple[Any, ...]:
    return (
        document.get("seq"),
        job_state(document.get("state")),
        document.get("task", "-"),
        document.get("attempt", 0),
        ago(document.get("created_at"), now),
        _ran(document, now),
        names.get(str(node := document.get("node") or "-"), node),
        _remark(document, now),
    )


def _ran(document: Mapping[str, Any], now: datetime) -> str:
    started = document.get("started_at")
    ended = document.get("finished_at") or (
        now if document.get("state") == JobState.WORKING else None
    )
    if isinstance(started, datetime) and isinstance(ended, datetime):
        return duration((ended - started).total_seconds())
    return "-"


def _remark(document: Mapping[str, Any], now: datetime) -> str:
    """The one thing worth knowing beside the state."""
    error, progress, run_at = (
        document.get("error"),
        document.get("progress"),
        document.get("run_at"),
    )
    match document.get("state"):
        case JobState.WORKING if document.get("cancel"):
            return "asked to end"
        case JobState.WORKING if isinstance(progress, Mapping):
            return legible(
                f"{percent(progress.get('value'))} {progress.get('note') or ''}".strip(), 200
            )
        case JobState.QUEUED if isinstance(run_at, datetime) and run_at > now:
            return f"{'again ' if document.get('fails') else ''}{ago(run_at, now)}"
        case JobState.FAILED | JobState.QUEUED if isinstance(error, Mapping):
            return legible(f"{error.get('type', '')}: {error.get('message', '')}", 200)
    return ""


def percent(value: Any) -> str:
    """A progress value as any driver may have written it."""
    return f"{value:.0%}" if isinstance(value, int | float) else legible(value, 20)
