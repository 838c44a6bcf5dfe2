"""`tontine demo`: a database, a few nodes, a stream of jobs and a death, in one command."""

from __future__ import annotations

import signal
import time

import click

from ...config import StoreConfig, home, may_embed, refuse_misspelt, told
from ...store import schema
from ...store.call import Store
from ...store.connect import resolve
from ...testing.cluster import Cluster
from ...uri import shown
from ..interruptible import interruptible
from ..options import reached
from . import summary
from .crew import launch_next, log_directory, make_crew, refuse_company
from .screen import choose
from .story import Story
from .stream import JobStream

_TICK = 0.2


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(1, 86400),
    metavar="N",
    help="End after about N seconds. [default: Ctrl-C]",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 12),
    default=3,
    show_default=True,
    help="How many nodes to start.",
)
@click.option(
    "--uri", help="MongoDB to use, whatever TONTINE_URI says. [default: the embedded MongoDB]"
)
@click.option("--database", default="tontine_demo", show_default=True, help="Database to use.")
def demo(seconds: float | None, nodes: int, uri: str | None, database: str) -> None:
    """See it work: starts nodes, submits sample jobs, kills a node and shows how the others
    inherit.

    It needs nothing set up: without --uri it starts the embedded MongoDB, also where TONTINE_URI
    names another. On a terminal it opens the observer if that is installed, else a live table. The
    nodes' logs go to the directory demo under TONTINE_HOME.

    With --seconds it ends by itself and exits 0 if every job ended as it should.
    """
    refuse_misspelt()
    config = _config(uri, database)
    address = _address(config)
    which = "" if config.uri else f"the embedded one in {home()}, "
    click.echo(f"MongoDB: {which}{shown(address)}, database {config.database}")
    with (
        interruptible(signal.SIGTERM, signal.SIGHUP),
        reached(StoreConfig(address, config.database)) as store,
    ):
        store.run(schema.ensure())
        refuse_company(store, config.database)
        crew = make_crew(config, address, store, log_directory("demo"))
        try:
            raise click.exceptions.Exit(
                _perform(store, crew, StoreConfig(address, config.database), seconds, nodes)
            )
        finally:
            crew.stop()  # before a word is said: stdout may be closed
            rest = (
                ""
                if config.uri
                else "; the embedded MongoDB still runs (`tontine db stop` stops it)"
            )
            click.echo(f"all nodes have stopped{rest}")


def _config(uri: str | None, database: str) -> StoreConfig:
    """A database of the demo's own. A URI that was set for other work is not one for sample jobs
    and killed nodes."""
    if uri is not None:
        return StoreConfig.of(uri, database)
    where, name, _ = told(None, database)
    if where.value:
        click.echo(
            f"the MongoDB that {where.by} names is left alone: --uri asks for it, or another",
            err=True,
        )
    return StoreConfig(None, name.value, embedded=may_embed() is not False)


def _address(config: StoreConfig) -> str:
    if config.uri is not None or not config.embedded:
        return resolve(config)
    from ...embedded import server as embedded

    return (
        embedded.start().uri
    )  # without a word that none was given: one may have been, and is left alone


def _perform(
    store: Store, crew: Cluster, config: StoreConfig, seconds: float | None, nodes: int
) -> int:
    """The demo from the first node to the summary; the exit code."""
    for _ in range(nodes):
        launch_next(crew)
    click.echo(f"starting {', '.join(node.name for node in crew.nodes)} ...")
    crew.wait_until_ready()
    stream = JobStream(store)
    screen = choose(store, stream, config, config.uri or "")
    story = Story(store, crew, seconds, screen.say)
    stream.start()
    try:
        with screen:
            until = float("inf") if seconds is None else time.monotonic() + seconds
            while screen.refresh() and (time.monotonic() < until or not story.is_told):
                story.go_on()
                if screen.wire is not None:
                    for order in screen.wire.orders():
                        story.obey(order)
                    screen.wire.send(death_in=story.death_in)
                time.sleep(_TICK)
        stream.stop()
        if seconds is not None:
            click.echo("waiting for the last jobs ...")
            summary.drain(store, stream)
    finally:
        stream.stop()
        lines, is_fine = summary.sum_up(store, stream, story)
        click.echo("\n".join(lines))
    return 0 if is_fine or seconds is None else 1
