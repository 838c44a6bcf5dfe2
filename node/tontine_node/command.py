"""`tontine node`: flags -> one NodeConfig -> incarnations until one ends by itself."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tontine.cli.complete import complete_modules
from tontine.cli.options import Duration, Megabytes, store_options
from tontine.clock import SystemClock
from tontine.config import StoreConfig, Timing
from tontine.errors import ConfigError, StoreError, StoreUnavailable
from tontine.store import schema
from tontine.store.call import AsyncStore
from tontine.store.connect import SELDOM_MONITORED, check, open_async_store, open_store, resolve
from tontine.store.counter import raise_counter

from . import contexts
from .config import NodeConfig
from .kept import Kept
from .last_resort import LastResort
from .log_style import LogStyle
from .loop import cancel
from .membership.registration import wait_for_store
from .memory import give_large_blocks_back
from .node import Node
from .running import orphans
from .telling.announce import announce
from .telling.logs import set_up


@click.command(name="node", context_settings={"auto_envvar_prefix": "TONTINE"})
@click.argument(
    "modules",
    nargs=-1,
    metavar="[MODULE]...",
    envvar="TONTINE_MODULES",
    shell_complete=complete_modules,
)
@click.option(
    "--name", default="", help="The node's name, unique among live nodes. [default: host-pid]"
)
@click.option("--processes", "-p", default=1, show_default=True, help="Worker processes.")
@click.option(
    "--slots", "-s", default=1, show_default=True, help="Jobs that each worker may run at once."
)
@click.option(
    "--lease",
    type=Duration(),
    default="20s",
    show_default=True,
    help="How long this node counts as alive without a heartbeat.",
)
@click.option(
    "--grace",
    type=Duration(),
    default="30s",
    show_default=True,
    help="How long a stopping node lets running jobs finish.",
)
@click.option("--max-jobs", type=int, help="Replace a worker after so many jobs.")
@click.option(
    "--max-memory",
    type=Megabytes(),
    metavar="MB",
    help="Replace a worker, between jobs, that takes more memory.",
)
@click.option(
    "--max-held",
    type=Megabytes(),
    metavar="MB",
    help=(
        "Claim no more while jobs and results in memory take this much. [default: a 16th of the "
        "memory, 16 to 128]"
    ),
)
@click.option(
    "--listen/--no-listen",
    default=True,
    envvar=["TONTINE_LISTEN", "TONTINE_STREAMS"],
    help="Listen for new jobs to start them sooner, or only poll.",
)
@click.option("--streams/--no-streams", default=None, hidden=True, allow_from_autoenv=False)
@click.option(
    "--share-uri",
    is_flag=True,
    help=(
        "Give tasks this node's URI and database as TONTINE_URI and TONTINE_DATABASE, and with "
        "them its rights."
    ),
)
@click.option(
    "--live-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help=(
        "Touch this file every 5 s while the node is well; removed without a lease and at the "
        "end. For probes."
    ),
)
@click.option(
    "--embedded/--no-embedded",
    default=None,
    help="Start the embedded MongoDB if no URI is given, or do not. [default: only on a terminal]",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    envvar="TONTINE_JSON",
    help="Log as JSON lines, also what tasks print.",
)
@click.option(
    "--verbose", "-v", is_flag=True, help="Log details, and the begin and end of each job."
)
@click.option(
    "--available",
    multiple=True,
    metavar="MODULE",
    help="What this node may be asked to load while it runs, beside its own modules. Repeatable.",
)
@store_options
def node(
    modules: tuple[str, ...],
    name: str,
    processes: int,
    slots: int,
    lease: float,
    grace: float,
    max_jobs: int | None,
    max_memory: int | None,
    max_held: int | None,
    listen: bool,
    streams: bool | None,
    share_uri: bool,
    live_file: Path | None,
    embedded: bool | None,
    as_json: bool,
    verbose: bool,
    available: tuple[str, ...],
    store: StoreConfig,
) -> None:
    """Run one node in the foreground.

    MODULE is what Python can import (shop.tasks), one of its modules (shop.tasks:shop) or a file
    (tasks.py). Without any, the node has the contexts of the file tontine.toml, each with workers
    of its own. Start as many nodes as you like, on as many machines: they share the queue evenly,
    and when one dies the others inherit its share.

    Stop it with SIGTERM or Ctrl-C: it leaves, gives back what it has not started and finishes what
    it runs. A second one ends the running jobs as well and gives them back, a third ends the node
    at once.

    Every option can also be set by a variable, TONTINE_PROCESSES for --processes, and in the table
    [node] of the file tontine.toml; `tontine config` shows what is in force.
    """
    megabyte = 1024 * 1024
    limits: dict[str, Any] = {
        "processes": processes,
        "slots": slots,
        "max_jobs": max_jobs,
        "max_memory": None if max_memory is None else max_memory * megabyte,
    }
    config = NodeConfig(
        modules=modules,
        contexts=contexts.of_command(click.get_current_context(), modules, limits),
        available=available,
        **limits,
        name=name,
        timing=Timing.of_lease(lease),
        grace=grace,
        listens=listen if streams is None else streams,  # its former name
        max_held=(max_held or 0) * megabyte,
        share_uri=share_uri,
        log=LogStyle(as_json, verbose),
        live_file=live_file,
        store=store if embedded is None else replace(store, embedded=embedded),
    )
    set_up(config.log)
    # What is loaded stays, and hundreds of jobs at a time come and go: looking through them costs,
    # and finds nothing.
    gc.freeze()
    gc.set_threshold(20_000)
    give_large_blocks_back()
    process = NodeRun(config, as_json=as_json)
    try:
        asyncio.run(process.serve())
    finally:
        process.last_resort.disarm()


class NodeRun:
    """The process that `tontine node` is: what signals tell it, and the incarnations of its node,
    one after another."""

    def __init__(self, config: NodeConfig, *, as_json: bool = False) -> None:
        self.last_resort = LastResort(self._kill_workers)
        self._config = config
        self._as_json = as_json
        self._node: Node | None = None
        self._stops_asked = 0

    async def serve(self) -> None:
        """Run incarnations of a node until one stops by itself."""
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._take_signals()
        # Workers that share it get the embedded MongoDB's, too, and it is started once.
        uri = await asyncio.to_thread(resolve, self._config.store, starts=sys.stderr.isatty())
        self._config = replace(self._config, store=replace(self._config.store, uri=uri))
        beat_store = await asyncio.to_thread(open_store, self._config.store, **SELDOM_MONITORED)
        store = open_async_store(self._config.store, **SELDOM_MONITORED)
        self._adopt_orphans()
        try:
            await _first(_prepare(store, self._config.store), self._stopping.wait())
            kept = Kept.of(self._config)
            while not self._stopping.is_set():
                try:
                    self._node = Node(self._config, store, beat_store, SystemClock(), kept)
                    self._node.is_ready = self._announce
                    if not await self._node.run():
                        return
                    kept.is_first = False
                except (StoreError, OSError) as error:
                    if kept.is_first:
                        raise
                    await wait_for_store(
                        error
                    )  # it has worked before: whatever is wrong now may pass
        finally:
            # What is left to do are endings, and none may keep a node that is over.
            self.last_resort.arm()
            await store.database.client.close()
            beat_store.database.client.close()

    def _announce(self, node: Node) -> None:
        announce(node.id, self._config, node.contexts.modules, as_json=self._as_json)

    def _take_signals(self) -> None:
        """Before anything else: asyncio's own answer to Ctrl-C is a cancellation, which a driver
        may swallow."""
        for number in (signal.SIGTERM, signal.SIGINT):
            # The loop's handler only wakes it: ours is called also while something blocks the loop.
            self._loop.add_signal_handler(number, lambda: None)
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        """Once: drain. Twice: now, and within a limit. Three times: at once."""
        self._stops_asked += 1
        if self._stops_asked == 2:
            self.last_resort.arm()
        elif self._stops_asked > 2:
            self.last_resort.end_now()
        self._loop.call_soon_threadsafe(self._ask_to_stop)

    def _ask_to_stop(self) -> None:
        self._stopping.set()
        if self._node is not None:
            self._node.ask_to_stop()

    def _kill_workers(self) -> None:
        if self._node is not None:
            self._node.contexts.kill_now("the node ends")

    def _adopt_orphans(self) -> None:
        orphans.adopt()
        if orphans.is_adopting():
            self._loop.add_signal_handler(signal.SIGCHLD, self._reap_orphans)

    def _reap_orphans(self) -> None:
        if not orphans.reap(self._node.contexts.pids if self._node is not None else ()):
            self._loop.call_later(1.0, self._reap_orphans)


async def _prepare(store: AsyncStore, config: StoreConfig) -> None:
    """Wait for MongoDB as long as it takes: a node may well start during an outage. Refuse what
    waiting cannot cure."""
    while True:
        try:
            await store.run(check(config))
            await store.run(schema.ensure())
            await store.run(
                raise_counter()
            )  # a restored one may be behind, and nobody is left who would know
        except StoreUnavailable as error:
            await wait_for_store(error)
        except ConfigError as error:
            if not isinstance(error.__cause__, StoreUnavailable):
                raise
            await wait_for_store(error)
        else:
            return


async def _first(*works: Coroutine[Any, Any, Any]) -> None:
    """Until one of these is done; its error is ours."""
    tasks = [asyncio.create_task(work) for work in works]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await cancel(lambda: list(others))
    for task in done:
        await task
