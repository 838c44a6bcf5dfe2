"""`tontine init`: make the database ready, and say what was there and what is new."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from ..config import StoreConfig, seconds
from ..legible import count, duration
from .options import json_option, opened, store_options
from .output import write_json

if TYPE_CHECKING:
    from ..store.call import Store
    from ..store.retention import Retention


@click.command()
@click.option(
    "--keep-done", metavar="TIME", help="Remove jobs so long after they are done, like 7d; `forever` keeps them."
)
@click.option("--keep-failed", metavar="TIME", help="The same for failed and cancelled jobs.")
@json_option
@store_options
def init(keep_done: str | None, keep_failed: str | None, as_json: bool, store: StoreConfig) -> None:
    """Create the collections, validators and indexes that are missing, and say how long finished jobs are kept.

    Safe to repeat, also while nodes run. Nodes do it themselves when they start; run it by hand when their database
    user may not. Finished jobs are kept for ever unless told otherwise here; nodes follow within seconds.

    \b
    Examples:
      tontine init
      tontine init --keep-done 7d --keep-failed 30d
      tontine init --keep-done forever
    """
    from ..store import schema
    from ..store.look import read_layout

    wanted = {"done": _time(keep_done), "failed": _time(keep_failed)}

    with opened(store) as opened_store:
        before = opened_store.run(read_layout())
        opened_store.run(schema.init())
        after = opened_store.run(read_layout())
        kept = _keep(opened_store, wanted)
    for name, parts in after.items():
        there = before.get(name, set())
        made = sorted(parts - there)
        if as_json:
            write_json(
                {"collection": name, "created": name not in before, "made": made, "there": sorted(parts & there)}
            )
        else:
            click.echo(_line(name, name not in before, made, len(parts & there)))
    if as_json:
        write_json({"keep_done": kept.done, "keep_failed": kept.failed})
    else:
        click.echo(_kept(kept))


def _line(name: str, is_new: bool, made: list[str], there: int) -> str:
    if is_new:
        return f"{name}: created" + (f", with {', '.join(made)}" if made else "")
    if made:
        return f"{name}: made {', '.join(made)}; {count(there, 'part')} there already"
    return f"{name}: complete already"


def _time(text: str | None) -> float | None:
    """Seconds; infinity for `forever`, None when nothing was said."""
    if text is None:
        return None
    return math.inf if text.strip().lower() == "forever" else seconds(text)


def _keep(store: Store, wanted: dict[str, float | None]) -> Retention:
    """Put what was said in force; what was not said stays as it is."""
    from ..store.retention import Retention, keep, read_retention

    now = store.run(read_retention())
    if all(value is None for value in wanted.values()):
        return now
    chosen = {name: getattr(now, name) if value is None else value for name, value in wanted.items()}
    retention = Retention(**{name: None if value == math.inf else value for name, value in chosen.items()})
    store.run(keep(retention))
    return retention


def _kept(retention: Retention) -> str:
    done, failed = ("for ever" if one is None else duration(one) for one in (retention.done, retention.failed))
    return f"finished jobs are kept: done {done}, failed and cancelled {failed}"
