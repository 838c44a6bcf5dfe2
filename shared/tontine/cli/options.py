"""Options that every command has, and the store they lead to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..config import StoreConfig

if TYPE_CHECKING:
    from ..store.call import Store

Command = TypeVar("Command", bound=Callable[..., Any])

ANSWER_WITHIN = 6.0


def store_options(command: Command) -> Command:
    """`--uri` and `--database`, given to the command as `store`."""

    @click.option("--uri", help="MongoDB to use. [env: TONTINE_URI; default: the embedded MongoDB]")
    @click.option("--database", help="Database to use. [env: TONTINE_DATABASE; default: tontine]")
    @functools.wraps(command)
    def with_store(*args: Any, uri: str | None, database: str | None, **options: Any) -> Any:
        return command(*args, store=StoreConfig.of(uri, database), **options)

    return with_store  # type: ignore[return-value]


json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output: JSON, one object a line.")

seq_argument = click.argument("seqs", nargs=-1, required=True, type=click.IntRange(0, 2**63 - 1), metavar="SEQ...")


@contextmanager
def opened(config: StoreConfig, within: float = ANSWER_WITHIN) -> Iterator[Store]:
    """The store, after its server has answered once: a wrong URI is told in seconds, before anything is done."""
    from ..store.connect import check, open_store
    from ..store.look import hurried

    store = open_store(config)
    try:
        store.run(hurried(check(config), within))
        yield store
    finally:
        store.database.client.close()
