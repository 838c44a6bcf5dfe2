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
from ..records.roster import Roster
from ..records.share import Share
from ..records.states import Desired, NodeState
from ..rules.health import has_lease, is_beating
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

    SHARE 1/3 means: of three members it is number 1 (from 0) and owns every job whose seq divided
    by 3 leaves 1. BEAT is the age of its last heartbeat, TICK counts the rounds of its claim loop.
    Nodes that died more than a minute ago, or never lived because their modules cannot be loaded,
    are left out. What is wrong inside a node that beats stands below, as do modules that nodes have
    in different versions. Where not all nodes have the same modules, the last lines say who divides
    the jobs of which: each of those owns its part of their numbers. `--json` has all of its record.

    With --check NAME it looks at that node twice, about three seconds apart: is it alive, does its
    lease hold, does its claim loop move, is it in the roster, has it workers, does anything inside
    it keep failing.
    """
    from ..store import read

    if checked is not None:
        if every:
            raise click.UsageError("--check looks at one node: leave out --all")
        raise click.exceptions.Exit(_check(checked, as_json, store))
    with opened(store) as opened_store:
        found = [ListedNode(one) for one in opened_store.run(read.read_nodes())]
        roster, _ = opened_store.run(read.read_cluster())
    shown = [one for one in found if every or not one.is_past]
    if as_json:
        for one in shown:
            write_json(one.record)
        return
    if not shown:
        note("no node: `tontine node MODULE` starts one")
        return
    rows = [_row(one) for one in shown]
    write_table(_COLUMNS, rows, right=_RIGHT, cut=("NOTE", "MODULES", "NAME"))
    _write_troubles(shown)
    _write_differences(shown)
    _write_members(roster, found)
    hidden = (
        f"; {count(len(found) - len(shown), 'dead node')} not shown (--all)"
        if len(found) > len(shown)
        else ""
    )
    note(f"epoch {roster.epoch}, {count(len(roster.members), 'member')}{hidden}")


class ListedNode:
    """A node's record, and what it says."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.node = Sighting.from_document(record)
        self.now: datetime = record["now"]

    @property
    def is_past(self) -> bool:
        """Whether it died long ago, or never lived: one that cannot load its modules says why where
        it is started."""
        # A state that is none stands out and stays in the list, although nobody can rely on such a
        # node.
        if self.record.get("state") != NodeState.DEAD:
            return False
        if self.record.get("modules") == []:
            return True
        died_at = self.node.died_at
        return died_at is None or self.now - died_at > DEAD_SHOWN_FOR

    @property
    def inside(self) -> list[str]:
        """What fails inside a node that beats: of any other nobody knows."""
        if not is_beating(self.node):
            return []
        return [*(trouble.told(self.now) for trouble in self.node.troubles), *self.node.faults]


def _check(name: str, as_json: bool, store: StoreConfig) -> int:
    """Look twice at one node and say how it is; the exit code."""
    from ..diagnose.doctor import read

    with opened(store) as opened_store:
        looks = [opened_store.run(read.look_at(name))]
        if not looks[0].nodes:
            raise UnknownNode(
                f"there is no node named {legible(name, 100)!r}: `tontine nodes --all` lists them"
            )
        node = looks[0].nodes[0]
        if pause := probe.pause_between(node):
            time.sleep(pause)
            looks.append(opened_store.run(read.look_at(node.id)))
    health = probe.examine(looks, node.id)
    if as_json:
        facts = {"healthy": health.is_well, "why": health.why, "advice": health.advice}
        last = looks[-1].nodes
        state = last[0].state if last else None
        write_json({"_id": node.id, "name": node.name, "state": state, **facts})
    else:
        click.echo(legible(health.why + (f"; {health.advice}" if health.advice else "")))
    return int(not health.is_well)


def _write_differences(shown: Sequence[ListedNode]) -> None:
    live = [one.node for one in shown if not one.node.is_dead]
    for difference in differing_versions(live):
        console().print(Text(f"! versions differ: {legible(difference)}", style="yellow"))


def _write_members(roster: Roster, found: Sequence[ListedNode]) -> None:
    """Where not all have the same modules, who divides the jobs of which."""
    if roster.is_uniform:
        return
    names = {one.node.id: one.node.name for one in found}
    having: dict[str, set[str]] = {}
    for kind in roster.kinds:
        for module in kind.offer.modules:
            having.setdefault(module.name, set()).update(kind.of)
    for module_name, able in sorted(having.items()):
        those = ", ".join(names.get(one, one) for one in roster.members if one in able)
        note(f"the jobs of {legible(module_name, 100)} are divided among {legible(those, 400)}")


def _write_troubles(shown: Sequence[ListedNode]) -> None:
    out = console()
    for one in shown:
        for fact in one.inside:
            out.print(Text(f"! {legible(one.node.name, 100)} {legible(fact)}", style="yellow"))


def _row(shown: ListedNode) -> tuple[Any, ...]:
    node = shown.node
    has_beat = not node.is_dead and node.beat_age is not None
    return (
        node.name,
        node_state(shown.record.get("state")),
        share(node.share),
        "-" if node.is_dead else f"{node.running}/{node.slots}",
        node.done,
        node.failed,
        duration(node.beat_age or 0.0) if has_beat else "-",
        node.tick,
        ", ".join(" ".join(module) for module in node.modules) or "-",
        node.host or "-",
        "-" if node.pid is None else node.pid,
        node.version or "-",
        _remark(shown),
    )


def share(value: Share | None) -> str:
    """A share as rank/size and its epoch."""
    return "-" if value is None else f"{value.rank}/{value.size} e{value.epoch}"


def _remark(shown: ListedNode) -> str:
    node = shown.node
    if node.is_dead:
        when = (
            ""
            if node.died_at is None
            else f"{duration((shown.now - node.died_at).total_seconds())} ago"
        )
        return legible(f"{when}: {node.death}".strip(": "), 200)
    if node.desired is Desired.STOPPED:
        return "stopping"
    if node.desired is Desired.PAUSED and node.state is not NodeState.PAUSED:
        return "finishing, then pausing"
    if not has_lease(node):
        return "its lease ran out"
    return "in trouble: see below" if shown.inside else node.lacks_workers
