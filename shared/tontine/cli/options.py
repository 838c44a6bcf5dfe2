"""Options that every command has, the settings file that stands behind them, and the store they
lead to."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..config import StoreConfig, megabytes, read_file, refuse_misspelt, seconds
from ..context_settings import contexts_of
from ..context_tables import DEFAULT, OF_DEFAULT
from ..errors import ConfigError
from ..settings import NODE_KEYS, SettingsFile
from .complete import complete_files

if TYPE_CHECKING:
    from ..store.call import Store

Command = TypeVar("Command", bound=Callable[..., Any])

ANSWER_WITHIN = 6.0
OF_ALL = frozenset({"uri", "database", "config_file", "embedded"})
"""Parameters of commands that are no command's own: what a file says of them it says outside of the
command's table."""


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3 only
    """A time like 20s, 5m or 1h30m, in seconds."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return seconds(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class Megabytes(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory: 500, 500MB or 2GB."""

    name = "mb"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return megabytes(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


def store_options(command: Command) -> Command:
    """`--uri`, `--database` and `--config`, given to the command as `store`."""

    @click.option("--uri", help="MongoDB to use. [env: TONTINE_URI; default: the embedded MongoDB]")
    @click.option(
        "--database",
        help="Database to use. [env: TONTINE_DATABASE; default: the URI's, else tontine]",
    )
    @click.option(
        "--config",
        "config_file",
        metavar="FILE",
        is_eager=True,
        callback=_take_settings,
        shell_complete=complete_files,
        help="File of settings. [env: TONTINE_CONFIG; default: tontine.toml here or above]",
    )
    @functools.wraps(command)
    def with_store(
        *args: Any, uri: str | None, database: str | None, config_file: str | None, **options: Any
    ) -> Any:
        return command(*args, store=StoreConfig.of(uri, database, file=config_file), **options)

    return with_store  # type: ignore[return-value]


def _take_settings(context: click.Context, _: click.Parameter, named: str | None) -> str | None:
    """Check what was set, and put the file's table for this command behind its flags and
    variables."""
    if context.resilient_parsing:
        return named
    values = check_settings(named)
    if context.command.name == "node":
        own = own_parameters(context.command)
        context.default_map = {own[key].name: value for key, value in values.items()}
    return named


def check_settings(named: str | None = None) -> Mapping[str, Any]:
    """Refuse a misspelt variable, and any mistake in the file, also in what this command does not
    need of it.

    What the file says of nodes comes back.
    """
    refuse_misspelt()
    file = read_file(named)
    contexts_of(file)
    says_of_nodes = file.values.get("node") or file.contexts().get(DEFAULT)
    node = node_command() if says_of_nodes else None
    return {} if node is None else written(file, node)


def node_command() -> click.Command | None:
    """`tontine node`, if it is installed and runs on this system."""
    points = () if sys.platform == "win32" else entry_points(group="tontine.commands", name="node")
    found = next(iter(points)).load() if points else None
    return found if isinstance(found, click.Command) else None


def own_parameters(command: click.Command) -> dict[str, click.Parameter]:
    """The settings of a command by their keys in a file, which are its flags: `max_held`,
    `json`."""
    named = {
        _key(one): one for one in command.params if one.name not in OF_ALL and not _is_hidden(one)
    }
    return {key: one for key, one in named.items() if key != "help"}


def _is_hidden(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and parameter.hidden


def _key(parameter: click.Parameter) -> str:
    flag = next((name for name in parameter.opts if name.startswith("--")), parameter.name or "")
    return flag.removeprefix("--").replace("-", "_")


def written(file: SettingsFile, command: click.Command) -> Mapping[str, Any]:
    """What a file says of `tontine node`, checked by its own parameters; with what it says of the
    default context, whose settings they are."""
    own = own_parameters(command)
    section = file.section("node", NODE_KEYS)
    for key, value in section.items():
        if complaint := _complaint(own[key], value):
            raise file.refusal(f"node.{key}", complaint)
    default = file.contexts().get(DEFAULT, {})
    return {**section, **{key: default[key] for key in OF_DEFAULT if key in default}}


def _complaint(parameter: click.Parameter, value: Any) -> str | None:
    """Why a value of a file is none for this parameter."""
    try:
        if not isinstance(value, list):
            parameter.type.convert(value, None, None)
    except click.BadParameter as error:
        return f"cannot be that: {error.message}"
    return None


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Machine-readable output: JSON, one object a line."
)


@contextmanager
def reached(config: StoreConfig, within: float = ANSWER_WITHIN) -> Iterator[Store]:
    """The store, after its server has answered once: a wrong URI is told in seconds, before
    anything is done."""
    from ..store.connect import check, open_store
    from ..store.read import hurried

    store = open_store(config)
    try:
        store.run(hurried(check(config), within))
        yield store
    finally:
        store.database.client.close()


@contextmanager
def opened(
    config: StoreConfig, within: float = ANSWER_WITHIN, *, is_adding: bool = False
) -> Iterator[Store]:
    """The store with its queue prepared; one that is not there at all is made only by who is about
    to add something."""
    from ..store.prepare import PreparedStore

    with reached(config, within) as store:
        yield PreparedStore(store.database, is_looking=not is_adding)
