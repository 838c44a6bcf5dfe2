"""The keys that a user wants instead of the usual ones; what cannot be granted is refused with a
reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from tontine.errors import ConfigError

from ..draw.keys import named, written
from ..stage.commands import COMMANDS, Command


def read_keys(path: Path, *, is_needed: bool = False) -> tuple[Command, ...]:
    """The commands with the keys of a file's `[keys]` table; without the file they are as they
    come."""
    try:
        wanted = tomllib.loads(path.read_text("utf-8")).get("keys", {})
    except FileNotFoundError as error:
        if is_needed:
            raise ConfigError(f"there is no file {path}") from error
        return COMMANDS
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read the keys in {path}: {error}") from error
    if not isinstance(wanted, dict):
        raise ConfigError(f"`keys` in {path} must be a table of commands and their keys")
    try:
        return remapped(COMMANDS, wanted)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def remapped(commands: tuple[Command, ...], wanted: Mapping[str, object]) -> tuple[Command, ...]:
    """The commands with the keys that are wanted for some of them."""
    known = {command.name: command for command in commands}
    for name, value in wanted.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise ConfigError(
                f"there is no command {name!r}" + (f": did you mean {near[0]!r}?" if near else "")
            )
        known[name] = replace(known[name], keys=_keys(name, value))
    for name in sorted(wanted):
        _refuse_doubles(known[name], known.values())
    return tuple(known.values())


def _keys(name: str, value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    keys = [key for key in given if isinstance(key, str) and key]
    if not keys or len(keys) < len(given):
        raise ConfigError(f"the keys of {name!r} must be a text like 'ctrl+q', or a list of them")
    return tuple(map(named, keys))


def _refuse_doubles(command: Command, others: Iterable[Command]) -> None:
    for other in others:
        shared = set(command.keys) & set(other.keys)
        if other.name != command.name and shared and _overlap(command, other):
            key = written(min(shared))
            raise ConfigError(
                f"{key!r} cannot be both {command.name!r} and {other.name!r}: give the other one "
                "another key"
            )


def _overlap(one: Command, two: Command) -> bool:
    return not one.panes or not two.panes or bool(set(one.panes) & set(two.panes))
