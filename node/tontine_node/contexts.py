"""Which contexts a node has: those of the settings file, or the one that a command line makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
from click.core import ParameterSource

from tontine.config import read_file
from tontine.context_settings import contexts_of
from tontine.context_tables import DEFAULT
from tontine.errors import ConfigError

from .config import ContextConfig

OF_FILE_ONLY = ("profile", "env", "start_within")
"""What only a file can say of the default context."""


def of_command(
    context: click.Context, modules: tuple[str, ...], limits: Mapping[str, Any]
) -> tuple[ContextConfig, ...]:
    """The contexts that a command line, variables and the file make; none if none has a module.

    Modules that were named make the context `default`, and there is no other. `limits` are what
    flags, variables and the file say of its workers.
    """
    written = contexts_of(read_file(context.params["config_file"]))
    rest = written.pop(DEFAULT, {})
    told = {key: rest[key] for key in OF_FILE_ONLY if key in rest}
    default = (ContextConfig(DEFAULT, modules, **limits, **told),) if modules else ()
    if not written or _is_named(context, "modules"):
        return default
    if not default:
        _refuse_lost(context, limits, list(written))
    return *default, *(ContextConfig(name, **values) for name, values in written.items())


def _is_named(context: click.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _refuse_lost(context: click.Context, limits: Mapping[str, Any], there: list[str]) -> None:
    """Flags for the default context of a node that has none: what they say would be lost without a
    word."""
    for name in _said(context, limits):
        raise ConfigError(
            f"{name} is for the context `{DEFAULT}`, and this node has only {', '.join(there)}: "
            f"say it in [contexts.{there[0]}]"
        )


def _said(context: click.Context, names: Mapping[str, Any]) -> Iterator[str]:
    """Those of these settings that were said, as they were."""
    for name in names:
        match context.get_parameter_source(name):
            case ParameterSource.COMMANDLINE:
                yield f"--{name.replace('_', '-')}"
            case ParameterSource.ENVIRONMENT:
                yield f"TONTINE_{name.upper()}"
            case ParameterSource.DEFAULT_MAP:
                yield f"`node.{name}`"
