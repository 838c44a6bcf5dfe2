"""`tontine db`: the embedded MongoDB, by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
import orjson

from .. import config
from ..uri import shown

if TYPE_CHECKING:
    from ..embedded.server import EmbeddedMongoDB

_as_json = click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")


@click.group(name="db")
def db() -> None:
    """The embedded MongoDB, which commands use and start when no --uri is given.

    It is a real mongod on 127.0.0.1 that outlives the command that started it. Its data is kept
    under TONTINE_HOME (default: the user data directory), and so is its key: nobody but the user
    who started it gets in. The mongod is TONTINE_MONGOD, else the one on PATH, else that of the
    extra tontine[embedded].
    """
    config.refuse_misspelt()


@db.command()
@_as_json
def start(as_json: bool) -> None:
    """Start it, unless it runs already."""
    from ..embedded import server as embedded

    _show(embedded.start(), as_json=as_json)


@db.command()
def stop() -> None:
    """Stop it cleanly; its data stays."""
    from ..embedded import server as embedded

    stopped = embedded.stop()
    click.echo(
        f"The embedded MongoDB in {config.home()} "
        f"{'has stopped' if stopped else 'was not running'}."
    )


@db.command()
@_as_json
def status(as_json: bool) -> None:
    """Show whether and where it runs; exit code 1 if it does not."""
    from ..embedded import server as embedded

    running = embedded.status()
    if running:
        _show(running, as_json=as_json)
        return
    if as_json:
        click.echo(orjson.dumps({"running": False, "home": str(config.home())}))
    else:
        click.echo(
            f"The embedded MongoDB in {config.home()} does not run: `tontine db start` starts it."
        )
    raise click.exceptions.Exit(1)


@db.command()
def uri() -> None:
    """Print its URI with its password, for scripts; start it if needed."""
    from ..embedded import server as embedded

    click.echo(embedded.ensure())


def _show(running: EmbeddedMongoDB, *, as_json: bool) -> None:
    facts = asdict(running) | {"uri": shown(running.uri)}
    if as_json:
        click.echo(orjson.dumps({"running": True, **facts}, default=str))
        return
    click.echo(f"The embedded MongoDB runs at {facts['uri']}")
    click.echo(f"  home     {running.home}")
    click.echo(f"  log      {running.log}")
    click.echo(f"  mongod   {running.mongod} (version {running.version}, pid {running.pid})")
    if not running.is_guarded:
        click.echo(
            "  open     to every user of this machine: an earlier version of Tontine started it, "
            "without access"
        )
        click.echo(
            "           control; `tontine db stop` and `tontine db start` close it, and the URI "
            "stays the same"
        )
