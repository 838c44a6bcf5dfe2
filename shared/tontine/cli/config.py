"""`tontine config`: every setting as it is in force here, and who said so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ..config import (
    DEFAULT,
    GIVEN,
    Said,
    file_named_by,
    first_set,
    places,
    read_file,
    refuse_misspelt,
    told,
)
from ..context_settings import contexts_of
from ..context_tables import DEFAULT as DEFAULT_CONTEXT
from ..context_tables import OF_DEFAULT
from ..errors import ConfigError
from ..settings import SettingsFile
from ..uri import shown
from .options import json_option, node_command, own_parameters, written
from .output import write_json, write_table

_NOWHERE = "the embedded MongoDB"


@click.command()
@click.option("--uri", help="As for any command.")
@click.option("--database", help="As for any command.")
@click.option("--config", "config_file", metavar="FILE", help="As for any command.")
@json_option
def config(uri: str | None, database: str | None, config_file: str | None, as_json: bool) -> None:
    """Show every setting as it is here: its value, and whether a flag, a variable or a file said
    so.

    Flags win over variables, these over the file, and the file over the defaults: docs/settings.md
    lists them all. Passwords are hidden. Nothing is connected to, and nothing is started.
    """
    refuse_misspelt()
    file = read_file(config_file)
    rows = [*_of_all(uri, database, config_file, file), *_of_node(file), *_of_contexts(file)]
    if as_json:
        for name, said in rows:
            write_json({"setting": name, "value": said.value, "from": said.by})
        return
    write_table(
        ("SETTING", "VALUE", "FROM"),
        [(name, _cell(said.value), said.by) for name, said in rows],
        cut=("VALUE",),
    )


def _of_all(
    uri: str | None, database: str | None, named: str | None, file: SettingsFile
) -> Iterator[tuple[str, Said]]:
    where, name, embedded = told(uri, database, file=named)
    yield (
        "file",
        Said(None if file.path is None else str(file.path), GIVEN if named else file_named_by()),
    )
    yield "uri", Said(shown(where.value) if where.value else _NOWHERE, where.by)
    yield "database", name
    yield "embedded", embedded
    yield from places().items()


def _of_node(file: SettingsFile) -> Iterator[tuple[str, Said]]:
    """The flags of `tontine node`, as it would take them without any on its command line."""
    node = node_command()
    if node is None:
        return
    context = click.Context(
        node, info_name="node", auto_envvar_prefix=node.context_settings.get("auto_envvar_prefix")
    )
    said = written(file, node)
    for key, parameter in own_parameters(node).items():
        yield f"node.{key}", _said(parameter, context, key, said, file)


def _of_contexts(file: SettingsFile) -> Iterator[tuple[str, Said]]:
    """What the file says of contexts, in its own words; but of the default one only what no flag
    can say. Variables may hold passwords: only their names are shown."""
    contexts_of(file)
    for name, table in file.contexts().items():
        for key, value in table.items():
            if name != DEFAULT_CONTEXT or key not in OF_DEFAULT:
                shown_value = sorted(value) if key == "env" else value
                yield f"contexts.{name}.{key}", Said(shown_value, str(file.path))


def _said(
    parameter: click.Parameter, context: click.Context, key: str, said: Any, file: SettingsFile
) -> Said:
    if (variable := parameter.resolve_envvar_value(context)) is not None:
        names = parameter.envvar or f"TONTINE_{(parameter.name or '').upper()}"
        name = names if isinstance(names, str) else first_set(names)
        _check(parameter, context, name)
        return Said(variable, name)
    if key in said:
        return Said(said[key], str(file.path))
    default = parameter.get_default(context)
    return Said(default if isinstance(default, str | int) and default != "" else None, DEFAULT)


def _check(parameter: click.Parameter, context: click.Context, name: str) -> None:
    """Refuse a variable's value that a node would refuse."""
    try:
        parameter.type_cast_value(context, parameter.value_from_envvar(context))
    except click.BadParameter as error:
        raise ConfigError(f"{name} cannot be that: {error.message}") from error


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
