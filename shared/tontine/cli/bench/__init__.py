"""`tontine bench`: measure this deployment, in a database of its own and with nodes of its own."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from typing import Any

import click

from ...config import StoreConfig
from ...errors import ConfigError, StoreError
from ...store import schema
from ...store.call import Store
from ...store.connect import resolve
from ...testing.cluster import Cluster
from ...uri import shown
from ..demo.crew import SETTINGS_ASIDE, log_directory, refuse_company
from ..interruptible import interruptible
from ..options import check_settings, json_option, reached
from ..output import note
from . import measure, scratch
from .findings import Findings, Setting

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Whichever comes, no node and no database is left behind."""


@click.command()
@click.option(
    "--jobs",
    type=click.IntRange(100, 1_000_000),
    default=20_000,
    show_default=True,
    help="Jobs per run.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Worker processes of each node.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 16),
    default=1,
    show_default=True,
    help="Nodes on this machine.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="How often to measure.",
)
@click.option(
    "--keep", is_flag=True, help="Keep the database, to look at it; the next bench empties it."
)
@json_option
@click.option("--uri", help="MongoDB to use. [env: TONTINE_URI; default: the embedded MongoDB]")
@click.option(
    "--database",
    default="tontine_bench",
    show_default=True,
    help="Database to use, and to drop at the end.",
)
def bench(
    jobs: int,
    processes: int,
    nodes: int,
    repeat: int,
    keep: bool,
    as_json: bool,
    uri: str | None,
    database: str,
) -> None:
    """Measure this deployment: its MongoDB, and nodes on this machine.

    It works in a database of its own, which it drops at the end, and refuses one that has anything
    else in it. Run it when nothing else is busy: other load makes every number worse.
    """
    check_settings()
    config = StoreConfig.of(uri, database)
    address = resolve(config)
    directory = log_directory("bench")
    note(f"MongoDB: {shown(address)}, database {config.database}")
    with interruptible(*_ENDINGS), reached(StoreConfig(address, config.database)) as store:
        findings = Findings(jobs, processes, nodes, repeat, Setting.look(store))
        hands = Cluster(
            address,
            config.database,
            directory=directory,
            options=("--processes", str(processes), "--grace", "5s"),
            environment=SETTINGS_ASIDE,
            store=store,
        )
        _prepare(store, config.database)
        try:
            store.run(schema.init())
            _measure(store, hands, findings)
        finally:
            _clean_up(store, hands, keep)
    findings.write(as_json=as_json)


def _prepare(store: Store, database: str) -> None:
    names = store.run(scratch.refuse_foreign(measure.TASKS))
    refuse_company(store, database)
    owner = scratch.Owner(socket.gethostname(), os.getpid())
    store.run(scratch.take_over(owner, names, _is_alive))


def _is_alive(owner: Mapping[str, Any]) -> bool:
    """Whether that bench still runs, as far as this machine can tell."""
    host, pid = owner.get("host"), owner.get("pid")
    if host != socket.gethostname() or not isinstance(pid, int) or pid in (0, os.getpid()):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, and alive
    return True


def _measure(store: Store, hands: Cluster, findings: Findings) -> None:
    for number in range(1, findings.repeat + 1):
        backlog = measure.submit(store, findings.jobs)
        bare = measure.run_bare(store, backlog)
        findings.submits.append(backlog.rate)
        findings.bares.append(bare)
        note(
            f"run {number} of {findings.repeat}: submit {backlog.rate:,.0f} jobs/s, bare loop "
            f"{bare:,.0f} jobs/s"
        )
    for _ in range(findings.nodes):
        hands.launch("tontine.bench_tasks")
    hands.wait_until_ready()
    for number in range(1, findings.repeat + 1):
        hands.pause()
        drained = measure.drain(store, hands, measure.submit(store, findings.jobs))
        findings.drains.append(drained)
        note(f"run {number} of {findings.repeat}: drain {drained.rate:,.0f} jobs/s")
    findings.latency = measure.latency(store, hands)


def _clean_up(store: Store, hands: Cluster, keep: bool) -> None:
    """Stop the nodes and drop the database, whoever is impatient."""
    for number in _ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    hands.stop()
    name = store.database.name
    try:
        if keep:
            store.run(scratch.leave())
            note(f"kept the database {name}")
        else:
            store.run(scratch.refuse_foreign(measure.TASKS))  # who knows what has come in since
            store.run(scratch.drop())
    except (StoreError, ConfigError) as error:
        note(f"could not drop the database {name}: {error}")
