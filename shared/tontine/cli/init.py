"""`tontine init`: make the database ready, and say what was there and what is new."""

from __future__ import annotations

import click

from ..config import StoreConfig
from ..legible import count
from .options import json_option, opened, store_options
from .output import write_json


@click.command()
@json_option
@store_options
def init(as_json: bool, store: StoreConfig) -> None:
    """Create the collections, validators and indexes that are missing.

    Safe to repeat, also while nodes run. Nodes do it themselves when they start; run it by hand when their database
    user may not.
    """
    from ..store import schema
    from ..store.look import read_layout

    with opened(store) as opened_store:
        before = opened_store.run(read_layout())
        opened_store.run(schema.init())
        after = opened_store.run(read_layout())
    for name, parts in after.items():
        there = before.get(name, set())
        made = sorted(parts - there)
        if as_json:
            write_json(
                {"collection": name, "created": name not in before, "made": made, "there": sorted(parts & there)}
            )
        else:
            click.echo(_line(name, name not in before, made, len(parts & there)))


def _line(name: str, is_new: bool, made: list[str], there: int) -> str:
    if is_new:
        return f"{name}: created" + (f", with {', '.join(made)}" if made else "")
    if made:
        return f"{name}: made {', '.join(made)}; {count(there, 'part')} there already"
    return f"{name}: complete already"
