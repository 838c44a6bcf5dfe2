"""One snapshot, as text or as one JSON document, and the exit code that tells a script how things are."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from tontine.cli.options import opened
from tontine.cli.output import console, json_text, node_state, write_table
from tontine.config import StoreConfig
from tontine.errors import ConfigError, NotPermitted, StoreError, StoreUnavailable
from tontine.legible import count, duration
from tontine.store.look import hurried, read_nodes

from .board import Board, NodeRow, Pulse, draw
from .feed import read_snapshot

HEALTHY, DEGRADED, UNREACHABLE, NOT_PERMITTED = 0, 1, 3, 4
SCHEMA = 1
_LOOK_EVERY = 0.5
_COLUMNS = ("NODE", "STATE", "SHARE", "RUNNING", "DONE", "FAILED", "BEAT", "TICK", "HOST", "NOTE")
_RIGHT = ("RUNNING", "DONE", "FAILED", "BEAT", "TICK")


def observe_once(config: StoreConfig, *, as_json: bool, timeout: float, watch: float) -> int:
    """Show one snapshot; the exit code."""
    try:
        board = _look(config, timeout, watch)
    except (ConfigError, StoreError) as error:
        code = _code(error)
        if code is None:
            raise
        click.echo(f"tontine: {' '.join(str(error).split())}", err=True)
        return code
    if as_json:
        click.echo(json_text(document(board, config.database)))
    else:
        write(board, config.database)
    return HEALTHY if board.is_healthy else DEGRADED


def _code(error: ConfigError | StoreError) -> int | None:
    """The exit code of a store that cannot be read; None when the caller's wishes are at fault."""
    if isinstance(error, NotPermitted):
        return NOT_PERMITTED
    if isinstance(error, StoreError) or isinstance(error.__cause__, StoreUnavailable):
        return UNREACHABLE
    return None


def _look(config: StoreConfig, timeout: float, watch: float) -> Board:
    pulse, until = Pulse(), time.monotonic() + watch
    with opened(config, timeout) as store:
        while time.monotonic() < until:
            pulse.note(store.run(hurried(read_nodes(), timeout)))
            time.sleep(_LOOK_EVERY)
        snapshot = store.run(hurried(read_snapshot(), timeout))
    return draw(snapshot, pulse.note(snapshot.nodes))


def document(board: Board, database: str) -> dict[str, Any]:
    """The board for programs; keys are only ever added within one schema."""
    return {
        "schema": SCHEMA,
        "at": board.at,
        "database": database,
        "healthy": board.is_healthy,
        "epoch": board.epoch,
        "members": board.members,
        "seq": board.seq,
        "counts": board.counts,
        "backlog": board.backlog,
        "unnumbered": board.unnumbered,
        "nodes": [
            {"_id": node.id, **{key: value for key, value in asdict(node).items() if key != "id"}}
            for node in board.nodes
        ],
        "alerts": [asdict(alert) for alert in board.alerts],
    }


def write(board: Board, database: str) -> None:
    """The board as text."""
    out = console()
    states = ", ".join(f"{number} {state}" for state, number in board.states().items() if number) or "no node"
    out.print(f"{database}  epoch {board.epoch}, {count(len(board.members), 'member')}: {states}")
    out.print("jobs  " + ", ".join(f"{number:,} {state}" for state, number in board.counts.items()))
    if board.nodes:
        out.print()
        sys.stdout.flush()
        write_table(_COLUMNS, [row(node) for node in board.nodes], right=_RIGHT, cut=("NOTE", "NODE"))
    for alert in board.alerts:
        out.print(Text(f"! {alert.text}", style="bold yellow"))


def row(node: NodeRow) -> tuple[Any, ...]:
    """One node's cells, for the text and the screen alike."""
    beat = "-" if node.beat_age is None else duration(node.beat_age)
    load = f"{node.running}/{node.slots}"
    share = f"{node.share.rank}/{node.share.size} e{node.share.epoch}" if node.share else "-"
    cells = (share, load, node.done, node.failed, beat, node.tick, node.host, node.note)
    return (node.name, node_state(node.state), *cells)
