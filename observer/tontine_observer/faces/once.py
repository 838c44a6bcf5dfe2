"""One snapshot, as text or as one JSON document, and the exit code that tells a script how things
are."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from tontine.cli.options import reached
from tontine.cli.output import console, json_text, node_state, write_table
from tontine.config import StoreConfig
from tontine.errors import ConfigError, NotPermitted, StoreError, StoreUnavailable
from tontine.legible import count, duration
from tontine.records.states import OPEN
from tontine.store.read import hurried, read_nodes

from ..feed.reading import read_snapshot
from ..model import intake
from ..picture.board import Board
from ..records.link import Mode
from ..records.node import NodeRow
from ..records.picture import Picture

HEALTHY, DEGRADED, UNREACHABLE, NOT_PERMITTED = 0, 1, 3, 4
SCHEMA = 1
_LOOK_EVERY = 0.5
_COLUMNS = ("NODE", "STATE", "SHARE", "RUNNING", "DONE", "FAILED", "BEAT", "TICK", "HOST", "NOTE")
_RIGHT = ("RUNNING", "DONE", "FAILED", "BEAT", "TICK")


def observe_once(
    config: StoreConfig, board: Board, *, as_json: bool, timeout: float, watch: float
) -> int:
    """Look once and show it; the exit code."""
    try:
        _look(config, board, timeout, watch)
    except (ConfigError, StoreError) as error:
        code = exit_code(error)
        if code is None:
            raise
        click.echo(f"tontine: {' '.join(str(error).split())}", err=True)
        return code
    return show_once(board, as_json=as_json)


def show_once(board: Board, *, as_json: bool) -> int:
    """Show what a board knows; the exit code."""
    picture = board.picture()
    if as_json:
        click.echo(json_text(document(picture)))
    else:
        write(picture)
    return HEALTHY if picture.is_healthy else DEGRADED


def exit_code(error: ConfigError | StoreError) -> int | None:
    """The exit code of a store that cannot be read; None when the caller's wishes are at fault."""
    if isinstance(error, NotPermitted):
        return NOT_PERMITTED
    if isinstance(error, StoreError) or isinstance(error.__cause__, StoreUnavailable):
        return UNREACHABLE
    return None


def _look(config: StoreConfig, board: Board, timeout: float, watch: float) -> None:
    until = time.monotonic() + watch
    with reached(config, timeout) as store:
        while time.monotonic() < until:
            intake.see_beats(board.known, store.run(hurried(read_nodes(), timeout)))
            time.sleep(_LOOK_EVERY)
        intake.load(board.known, store.run(hurried(read_snapshot(), timeout)))


def counted(picture: Picture) -> Mapping[str, int]:
    """How many jobs are in each state; what nobody has counted yet is left out. In a recording
    these are those it has heard of."""
    if picture.link.mode is Mode.REPLAY:
        return picture.flow.counts
    return _counted(picture)


def _counted(picture: Picture) -> Mapping[str, int]:
    flow = picture.flow
    if flow.is_counted:
        return flow.counts
    return {state: number for state, number in flow.counts.items() if state in OPEN}


def document(picture: Picture) -> dict[str, Any]:
    """The picture for programs; keys are only ever added within one schema."""
    status, flow = picture.status, picture.flow
    return {
        "schema": SCHEMA,
        "at": picture.at,
        "database": status.database,
        "healthy": picture.is_healthy,
        "epoch": status.epoch,
        "members": picture.members,
        "seq": status.seq,
        "counts": counted(picture),
        "backlog": status.backlog,
        "unnumbered": flow.unnumbered,
        "nodes": [
            {"_id": node.id, **{key: value for key, value in asdict(node).items() if key != "id"}}
            for node in picture.nodes
        ],
        "alerts": [asdict(alert) for alert in picture.alerts],
        "replica_set": status.replica_set,
        "primary": status.primary,
        "shares": [asdict(share) for share in picture.shares],
        "flow": {
            name: getattr(flow, name)
            for name in (
                "started",
                "later",
                "wait_p50",
                "wait_p95",
                "run_p50",
                "run_p95",
                "oldest",
                "oldest_age",
            )
        },
    }


def write(picture: Picture) -> None:
    """The picture as text."""
    out, status = console(), picture.status
    states = (
        ", ".join(f"{number} {state}" for state, number in status.states.items() if number)
        or "no node"
    )
    out.print(
        f"{status.database}  epoch {status.epoch}, {count(status.members, 'member')}: {states}"
    )
    out.print(
        "jobs  " + ", ".join(f"{number:,} {state}" for state, number in _counted(picture).items())
    )
    if picture.nodes:
        out.print()
        sys.stdout.flush()
        write_table(
            _COLUMNS, [row(node) for node in picture.nodes], right=_RIGHT, cut=("NOTE", "NODE")
        )
    if picture.story:
        out.print(f"» {picture.story}")
    for alert in picture.alerts:
        out.print(Text(f"! {alert.text}", style="bold yellow"))
        if alert.advice:
            out.print(Text(f"  → {alert.advice}", style="dim"))


def row(node: NodeRow) -> tuple[Any, ...]:
    """One node's cells."""
    beat = "-" if node.beat_age is None else duration(node.beat_age)
    load = f"{node.running}/{node.slots}"
    share = f"{node.share.rank}/{node.share.size} e{node.share.epoch}" if node.share else "-"
    cells = (share, load, node.done, node.failed, beat, node.tick, node.host, node.note)
    return (node.name, node_state(node.seen), *cells)
