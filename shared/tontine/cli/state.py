"""`tontine state`: values that an operator sets and tasks read."""

from __future__ import annotations

import getpass
import socket
import sys
from pathlib import Path
from typing import Any

import bson
import click
import orjson

from ..config import StoreConfig
from ..errors import ConfigError
from ..legible import ago, amount, legible
from ..storable import unstorable
from .complete import complete_files, complete_states
from .options import json_option, opened, store_options
from .output import json_text, note, write_json, write_table

_COLUMNS = ("NAME", "VERSION", "SIZE", "SET", "BY", "SHA256")


@click.group()
def state() -> None:
    """Named states: values that an operator sets, like prices, and tasks read.

    They are not for secrets: whoever can read the database can read them.
    """


@state.command(name="set")
@click.argument("key", metavar="MODULE/NAME", shell_complete=complete_states)
@click.argument("file", metavar="FILE", shell_complete=complete_files)
@click.option(
    "--if-version",
    type=click.IntRange(0),
    metavar="N",
    help="Only if this is its version now; 0 if there must be none.",
)
@click.option("--bytes", "as_bytes", is_flag=True, help="Keep the bytes as they are, also of JSON.")
@json_option
@store_options
def set_(
    key: str,
    file: str,
    if_version: int | None,
    as_bytes: bool,
    as_json: bool,
    store: StoreConfig,
) -> None:
    """Set a state to what a file has, or standard input for `-`: a new version of it.

    JSON becomes a value, anything else bytes; 4 MB at most. Nodes have it within seconds, and jobs
    that begin then see it; what runs goes on with the version that it began with.

    \b
    Examples:
      tontine state set shop/prices prices.json
      tontine state set shop/prices prices.json --if-version 7
      tontine state set shop/model model.bin
    """
    from ..store import states

    given = _read(file)
    value = given if as_bytes else _value(given)
    with opened(store, is_adding=True) as opened_store:
        made = opened_store.run(
            states.set_state(key, given, value, by=_who(), if_version=if_version)
        )
    if as_json:
        write_json(made.to_document())
    else:
        click.echo(f"{legible(key)}: version {made.version}, {amount(len(given))}")


@state.command(name="get")
@click.argument("key", metavar="MODULE/NAME", shell_complete=complete_states)
@json_option
@store_options
def get(key: str, as_json: bool, store: StoreConfig) -> None:
    """Write the value of a state: JSON as JSON, bytes as they are. --json has its version, too."""
    from ..store import states

    with opened(store) as opened_store:
        found = opened_store.run(states.read_state(key))
    if found is None:
        raise _unknown(key)
    if as_json:
        write_json({**found.to_document(), "data": found.data})
    elif isinstance(found.data, bytes):
        sys.stdout.buffer.write(found.data)
    else:
        click.echo(json_text(found.data, indent=True))


@state.command(name="ls")
@json_option
@store_options
def ls(as_json: bool, store: StoreConfig) -> None:
    """List the states, their versions, and who set them when."""
    from ..store import read, states

    with opened(store) as opened_store:
        found = [one for one in opened_store.run(states.list_states()) if not one.is_removed]
        now = opened_store.run(read.now())
    if as_json:
        for one in found:
            write_json(one.to_document())
    elif found:
        rows = [
            (one.key, one.version, amount(one.bytes), ago(one.at, now), one.by, one.sha256[:12])
            for one in found
        ]
        write_table(_COLUMNS, rows, right=("VERSION", "SIZE"), cut=("BY", "NAME"))
    else:
        note("no state yet: `tontine state set MODULE/NAME FILE` sets one")


@state.command(name="rm")
@click.argument("key", metavar="MODULE/NAME", shell_complete=complete_states)
@json_option
@store_options
def rm(key: str, as_json: bool, store: StoreConfig) -> None:
    """Remove a state. Tasks that ask for it get `NoState`, or their default; its next version has
    the next number."""
    from ..store import states

    with opened(store) as opened_store:
        if not opened_store.run(states.remove_state(key)):
            raise _unknown(key)
    if as_json:
        write_json({"_id": key, "removed": True})
    else:
        click.echo(f"{legible(key)}: removed")


def _unknown(key: str) -> ConfigError:
    return ConfigError(f"there is no state {key[:80]!r}: `tontine state ls` lists them")


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from None


def _value(given: bytes) -> Any:
    """JSON as the value that it is, anything else as bytes."""
    try:
        value = orjson.loads(given)
    except orjson.JSONDecodeError:
        return given
    try:
        bson.encode({"r": value})
    except Exception as error:
        reason = unstorable(value, "value") or str(error)
        raise ConfigError(
            f"this JSON cannot be stored ({reason}): --bytes keeps it as it is"
        ) from (error)
    return value


def _who() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()
