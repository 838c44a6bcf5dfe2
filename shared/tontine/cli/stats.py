"""`tontine stats`: what tasks have counted and observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..config import StoreConfig
from ..errors import UnknownNode
from ..filter import matches
from ..legible import count, legible
from ..records.counted import Observed, Stat, stats_in, summed
from .complete import complete_nodes, complete_tasks
from .options import json_option, opened, store_options
from .output import note, write_json, write_table

_COLUMNS = ("TASK", "NAME", "SUM", "N", "MEAN", "MIN", "MAX")


@click.command()
@click.option(
    "--task",
    metavar="TASK",
    shell_complete=complete_tasks,
    help="Only of this task; shop.* is all of a module.",
)
@click.option(
    "--node",
    "node",
    metavar="NODE",
    shell_complete=complete_nodes,
    help="Only what this node has settled, by name or id.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Add up what the jobs themselves say: slower, and only what was counted.",
)
@json_option
@store_options
def stats(
    task: str | None, node: str | None, exact: bool, as_json: bool, store: StoreConfig
) -> None:
    """Show what tasks have counted and observed with `current_job().count()` and `.observe()`.

    The sums are those that nodes tell with their heartbeats, over all nodes, also dead ones as long
    as their records are kept (a day): of jobs that got done since each node's start. --exact reads
    every job that is kept instead, and tells what these have counted, whoever ran them; nothing
    that was observed is stored with a job.

    \b
    Examples:
      tontine stats
      tontine stats --task 'shop.*' --json
      tontine stats --node web-1
      tontine stats --exact
    """
    from ..store import read
    from ..store.stats import sum_counts

    with opened(store) as opened_store:
        records = opened_store.run(read.read_nodes() if node is None else read.read_namesakes(node))
        if node is not None and not records:
            raise UnknownNode(
                f"there is no node named {legible(node, 100)!r}: `tontine nodes --all` lists them"
            )
        if exact:
            ids = None if node is None else [str(one["_id"]) for one in records]
            found = opened_store.run(sum_counts(task, ids))
        else:
            told = (stat for record in records for stat in stats_in(record))
            found = summed(stat for stat in told if task is None or matches(task, stat.task))
    if as_json:
        for stat in found:
            write_json(_document(stat))
    elif found:
        write_table(_COLUMNS, list(map(_row, found)), right=_COLUMNS[2:], cut=("TASK",))
    else:
        note("nothing counted yet: a task counts with `current_job().count('rows', 5)`")
    if not exact and (dropped := _dropped(records)):
        note(
            f"{count(dropped, 'value')} had no place: a job may have 20 names, and a node 200 in "
            "all"
        )


def _document(stat: Stat) -> dict[str, Any]:
    document = stat.to_document()
    return document | ({"mean": stat.value.mean} if isinstance(stat.value, Observed) else {})


def _row(stat: Stat) -> tuple[str, ...]:
    if not isinstance(stat.value, Observed):
        return stat.task, stat.name, _number(stat.value), "-", "-", "-", "-"
    one = stat.value
    numbers = (one.sum, one.n, one.mean, one.min, one.max)
    return stat.task, stat.name, *map(_number, numbers)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _dropped(records: Sequence[Mapping[str, Any]]) -> int:
    metrics = [record.get("metrics") for record in records]
    told = [one.get("stats_dropped") for one in metrics if isinstance(one, Mapping)]
    return sum(one for one in told if isinstance(one, int))
