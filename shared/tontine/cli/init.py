"""`tontine init`: make the database ready, and say what was there and what is new."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from ..config import StoreConfig, seconds
from ..legible import count, duration
from ..store import grant, names
from .options import json_option, reached, store_options
from .output import note, write_json

if TYPE_CHECKING:
    from ..store.call import Store
    from ..store.retention import Retention


@click.command()
@click.option(
    "--keep-done",
    metavar="TIME",
    help="Remove jobs so long after they are done, like 7d; `forever` keeps them.",
)
@click.option("--keep-failed", metavar="TIME", help="The same for failed and cancelled jobs.")
@click.option(
    "--inbox",
    "with_inbox",
    is_flag=True,
    help="Also make the inbox, for producers that are not trusted with `jobs`.",
)
@click.option(
    "--roles",
    "with_roles",
    is_flag=True,
    help="Also make the inbox, and a role for each kind of user.",
)
@click.option(
    "--all",
    "with_all",
    is_flag=True,
    help=(
        "Also make the indexes that only jobs with max_age or unique_for need; otherwise the "
        "first such job does."
    ),
)
@json_option
@store_options
def init(
    keep_done: str | None,
    keep_failed: str | None,
    with_inbox: bool,
    with_roles: bool,
    with_all: bool,
    as_json: bool,
    store: StoreConfig,
) -> None:
    """Create the collections, validators and indexes that are missing, and say how long finished
    jobs are kept.

    Safe to repeat, also while nodes run. Nodes do it themselves when they start; run it by hand
    when their database user may not. Finished jobs are kept for ever unless told otherwise here;
    nodes follow within seconds.

    The inbox is a collection into which a producer can be allowed to insert and nothing else: nodes
    make jobs of what they find there. --roles makes the roles tontineNode, tontineProducer,
    tontineIntake, tontineObserver and tontineOperator in this database, to be granted to users; it
    needs a user who may create roles, like a dbOwner.

    \b
    Examples:
      tontine init
      tontine init --keep-done 7d --keep-failed 30d
      tontine init --keep-done forever
      tontine init --roles
      tontine init --all
    """
    from ..store import inbox

    wanted = {"done": _time(keep_done), "failed": _time(keep_failed)}

    with reached(store) as opened_store:
        before = _layout(opened_store)
        lacking = _make(opened_store, with_all)
        dropped = _retire(opened_store)
        if with_inbox or with_roles:
            opened_store.run(inbox.make())
        after = _layout(opened_store)
        kept = _keep(opened_store, wanted)
        made = opened_store.run(grant.make(opened_store.database.name)) if with_roles else {}
    for name, parts in after.items():
        there = before.get(name, set())
        new = sorted(parts - there)
        if as_json:
            write_json(
                {
                    "collection": name,
                    "created": name not in before,
                    "made": new,
                    "there": sorted(parts & there),
                }
            )
        else:
            click.echo(_line(name, name not in before, new, len(parts & there)))
    for name, what in made.items():
        if as_json:
            write_json({"role": name, "made": what})
        else:
            click.echo(f"role {name}: {'complete already' if what == 'there' else what}")
    _tell_dropped(dropped, as_json)
    for what, why in lacking.items():
        if as_json:
            write_json({"lacking": what, "why": why})
        else:
            note(f"without {what}, which nodes can do without: {why}")
    if as_json:
        write_json({"keep_done": kept.done, "keep_failed": kept.failed})
    else:
        click.echo(_kept(kept))


def _make(store: Store, with_all: bool) -> dict[str, str]:
    """Make what is missing; what this user may not make, and nodes can do without, and why."""
    from ..errors import NotPermitted
    from ..store import on_demand, schema

    if with_all:
        store.run(on_demand.want_all())
    mended = store.run(schema.mend())
    others = [error for error in mended.lacking.values() if not isinstance(error, NotPermitted)]
    for error in (*mended.failed.values(), *others):
        raise error
    return {what: str(error) for what, error in mended.lacking.items()}


def _retire(store: Store) -> list[str]:
    """Drop what earlier releases ask for and this one does not, unless a node of one is at work;
    what was dropped."""
    from ..errors import NotPermitted
    from ..store import members, schema

    if store.run(members.read_roster()).old_members():
        return []
    try:
        return store.run(schema.retire())
    except NotPermitted:
        return []  # it is only in the way


def _tell_dropped(dropped: list[str], as_json: bool) -> None:
    for what in dropped:
        if as_json:
            write_json({"dropped": what})
        else:
            click.echo(f"{what}: dropped, only earlier releases ask for it")


def _layout(store: Store) -> dict[str, set[str]]:
    """The collections that are there, each with its parts."""
    from ..store import inbox
    from ..store.read import read_layout

    layout = store.run(read_layout())
    if (options := store.run(inbox.read_options())) is not None:
        layout[names.INBOX] = {"the validator"} if inbox.is_strict(options) else set()
    return layout


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
    chosen = {
        name: getattr(now, name) if value is None else value for name, value in wanted.items()
    }
    retention = Retention(
        **{name: None if value == math.inf else value for name, value in chosen.items()}
    )
    store.run(keep(retention))
    return retention


def _kept(retention: Retention) -> str:
    done, failed = (
        "for ever" if one is None else duration(one) for one in (retention.done, retention.failed)
    )
    return f"finished jobs are kept: done {done}, failed and cancelled {failed}"
