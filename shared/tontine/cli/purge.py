"""`tontine purge`: remove finished jobs and what they printed."""

from __future__ import annotations

from typing import Any

import click

from ..config import StoreConfig
from ..records.states import FINAL
from .many import BulkCommand, change_many, changing_options, filter_of, filter_options
from .options import json_option, store_options


@click.command()
@filter_options(FINAL)
@click.option(
    "--older-than",
    metavar="TIME",
    help="Only jobs that ended longer ago, like 7d; the same as --until.",
)
@changing_options
@json_option
@store_options
def purge(
    *,
    older_than: str | None,
    every: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    store: StoreConfig,
    **filters: Any,
) -> None:
    """Remove finished jobs that filters find, with what their tasks printed and logged. They cannot
    be brought back.

    They are counted first and asked about. Jobs that are not finished are never removed, nor those
    that ended in the last minute. `tontine init --keep-done 7d` removes them by itself.

    \b
    Examples:
      tontine purge --older-than 7d --dry-run
      tontine purge --state done --task 'shop.*' --older-than 30d --yes
      tontine purge --all
    """
    from ..store import many

    if older_than is not None and filters["until"] is not None:
        raise click.UsageError("give --older-than or --until, not both: they mean the same")
    meant = filter_of(filters if older_than is None else {**filters, "until": older_than})
    if meant.says_nothing and not every:
        raise click.UsageError(
            "say which jobs with filters like --older-than 7d or --state done, or --all"
        )
    caution = "they cannot be brought back; "
    deed = BulkCommand(
        "purge",
        "remove {}",
        "removed",
        meant.meaning(FINAL, FINAL, "removed"),
        many.lasting,
        many.purge,
        caution,
    )
    change_many(store, deed, dry_run=dry_run, yes=yes, as_json=as_json)
