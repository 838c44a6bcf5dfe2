"""Options that every command has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..config import StoreConfig

Command = TypeVar("Command", bound=Callable[..., Any])


def store_options(command: Command) -> Command:
    """`--uri` and `--database`, given to the command as `store`."""

    @click.option("--uri", help="MongoDB to use. [env: TONTINE_URI; default: the embedded MongoDB]")
    @click.option("--database", help="Database to use. [env: TONTINE_DATABASE; default: tontine]")
    @functools.wraps(command)
    def with_store(*args: Any, uri: str | None, database: str | None, **options: Any) -> Any:
        return command(*args, store=StoreConfig.of(uri, database), **options)

    return with_store  # type: ignore[return-value]


json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output: JSON, one object a line.")
