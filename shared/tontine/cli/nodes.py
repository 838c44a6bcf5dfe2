"""`tontine nodes`: who is there, in which state, and what each owns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from rich.text import Text

from ..config import StoreConfig
from ..diagnose.doctor import probe
from ..errors import UnknownNode
from ..legible import count, duration, legible
from ..records.node import Sighting, differing_versions
from ..records.states import Desired, NodeState
from .complete import complete_nodes
from .options import json_option, opened, store_options
from .output import console, node_state, note, write_json, write_table

DEAD_SHOWN_FOR = timedelta(minutes=1)
_COLUMNS = (
    *("NAME", "STATE", "SHARE", "RUNNING", "DONE", "FAILED", "BEAT", "TICK"),
    *("MODULES", "HOST", "PID", "VERSION", "NOTE"),
)
_RIGHT = ("RUNNING", "DONE", "FAILED", "BEAT", "TICK", "PID")


@click.command()
@click.option(
    "--all",
    "-a",
    "every",
    is_flag=True,
    help="Also nodes that died more than a minute ago, or could not load their modules.",
)
@click.option(
    "--check",
    "checked",
    metavar="NAME",
    shell_complete=complete_nodes,
    help="Look at one node only, by name or id: exit code 0 if it is well, 1 if not, and why.",
)
@json_option
@store_options
def nodes(every: bool, checked: str | None, as_json: bool, store: StoreConfig) -> None:
    """List the nodes, their states and shares.

    SHARE 1/3 means: of three members it is number 1 (from 0) and owns every job whose seq divided by 3 leaves 1.
    BEAT is the age of its last heartbeat, TICK counts the rounds of its claim loop. Nodes that died more than a
    minute ago, or never lived because their modules cannot be loaded, are left out. What is wrong inside a node that
    beats stands below, as do modules that nodes have in different versions; `--json` has all of its record.

    With --check NAME it looks at that node twice, about three seconds apart: is it alive, does its lease hold, does its
    claim loop move, is it in the roster, has it workers, does anything inside it keep failing.
    """
    from ..store import read

    if checked is not None:
        if every:
            raise click.UsageError("--check looks at one node: leave out --all")
        raise click.exceptions.Exit(_check(checked, as_json, store))
    with opened(store) as opened_store:
        found = opened_store.run(read.read_nodes())
        roster, _ = opened_store.run(read.read_cluster())
    shown = [node for node in found if every or not _is_past(node)]
    if as_json:
        for node in shown:
            write_json(node)
        return
    if not shown:
        note("no node: `tontine node MODULE` starts one")
        return
    write_table(_COLUMNS, [_row(node) for node in shown], right=_RIGHT, cut=("NOTE", "MODULES", "NAME"))
    _write_troubles(shown)
    _write_differences(shown)
    hidden = f"; {count(len(found) - len(shown), 'dead node')} not shown (--all)" if len(found) > len(shown) else ""
    note(f"epoch {roster.epoch}, {count(len(roster.members), 'member')}{hidden}")


def _check(name: str, as_json: bool, store: StoreConfig) -> int:
    """Look twice at one node and say how it is; the exit code."""
    from ..diagnose.doctor import read

    with opened(store) as opened_store:
        looks = [opened_store.run(read.look_at(name))]
        if not looks[0].nodes:
            raise UnknownNode(f"there is no node named {legible(name, 100)!r}: `tontine nodes --all` lists them")
        node = looks[0].nodes[0]
        if pause := probe.pause_between(node):
            time.sleep(pause)
            looks.append(opened_store.run(read.look_at(node.id)))
    health = probe.examine(looks, node.id)
    if as_json:
        facts = {"healthy": health.is_well, "why": health.why, "advice": health.advice}
        write_json(
            {"_id": node.id, "name": node.name, "state": looks[-1].nodes[0].state if looks[-1].nodes else None, **facts}
        )
    else:
        click.echo(legible(health.why + (f"; {health.advice}" if health.advice else "")))
    return int(not health.is_well)


def _write_differences(nodes: Sequence[Mapping[str, Any]]) -> None:
    live = [seen for node in nodes if not (seen := Sighting.from_document(node)).is_dead]
    for difference in differing_versions(live):
        console().print(Text(f"! versions differ: {legible(difference)}", style="yellow"))


def _write_troubles(nodes: Sequence[Mapping[str, Any]]) -> None:
    out = console()
    for node in nodes:
        for fact in _inside(node):
            out.print(Text(f"! {legible(node.get('name', node['_id']), 100)} {legible(fact)}", style="yellow"))


def _inside(node: Mapping[str, Any]) -> list[str]:
    """What fails inside a node that beats: of any other nobody knows."""
    seen = Sighting.from_document(node)
    return [trouble.told(node["now"]) for trouble in seen.troubles] if seen.is_beating else []


def _is_past(node: Mapping[str, Any]) -> bool:
    """Whether it died long ago, or never lived: one that cannot load its modules says why where it is started."""
    if node.get("state") != NodeState.DEAD:
        return False
    if node.get("modules") == []:
        return True
    died_at = node.get("died_at")
    return not isinstance(died_at, datetime) or node["now"] - died_at > DEAD_SHOWN_FOR


def _row(node: Mapping[str, Any]) -> tuple[Any, ...]:
    metrics = node.get("metrics")
    numbers = metrics if isinstance(metrics, Mapping) else {}
    return (
        node.get("name", node["_id"]),
        node_state(node.get("state")),
        share(node.get("share")),
        "-" if node.get("state") == NodeState.DEAD else f"{node.get('running', 0)}/{node.get('slots', 0)}",
        numbers.get("done", 0),
        numbers.get("failed", 0),
        "-" if (age := beat_age(node)) is None else duration(age),
        node.get("tick", "-"),
        ", ".join(" ".join(module) for module in Sighting.from_document(node).modules) or "-",
        node.get("host", "-"),
        node.get("pid", "-"),
        node.get("version", "-"),
        _remark(node),
    )


def share(value: Any) -> str:
    """A share as rank/size and its epoch."""
    if not isinstance(value, Mapping):
        return "-"
    return legible(f"{value.get('rank')}/{value.get('size')} e{value.get('epoch')}", 40)


def beat_age(node: Mapping[str, Any]) -> float | None:
    """Seconds since the last heartbeat, by the server's clock; None for the dead and for records that do not tell."""
    until, lease = node.get("lease_until"), node.get("lease")
    if node.get("state") == NodeState.DEAD or not isinstance(until, datetime) or not isinstance(lease, int | float):
        return None
    return max(0.0, float(lease - (until - node["now"]).total_seconds()))


def _remark(node: Mapping[str, Any]) -> str:
    state, desired = node.get("state"), node.get("desired")
    if state == NodeState.DEAD:
        died_at = node.get("died_at")
        when = f"{duration((node['now'] - died_at).total_seconds())} ago" if isinstance(died_at, datetime) else ""
        return legible(f"{when}: {node.get('death', '')}".strip(": "), 200)
    if desired == Desired.STOPPED:
        return "stopping"
    if desired == Desired.PAUSED and state != NodeState.PAUSED:
        return "finishing, then pausing"
    if isinstance(until := node.get("lease_until"), datetime) and until < node["now"]:
        return "its lease ran out"
    return "in trouble: see below" if _inside(node) else Sighting.from_document(node).lacks_workers
