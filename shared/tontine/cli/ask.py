"""`tontine pause`, `resume` and `stop`: ask nodes, and on wish wait until they have done it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ..config import StoreConfig, seconds
from ..errors import UnknownNode
from ..legible import legible
from ..records.states import Desired, NodeState
from ..store.call import Store
from .complete import complete_nodes
from .options import Command, json_option, opened, store_options
from .output import note, write_json

_REACHED = {
    Desired.PAUSED: {NodeState.PAUSED},
    Desired.RUNNING: {NodeState.WAITING, NodeState.WORKING},
    Desired.STOPPED: {NodeState.DEAD},
}
_VERBS = {Desired.PAUSED: "pause", Desired.RUNNING: "resume", Desired.STOPPED: "stop"}
_LOOK_EVERY = 0.1


def asking_options(command: Command) -> Command:
    """What every command has that asks nodes for something: who is asked, and how long to wait."""
    options: list[Callable[[Command], Command]] = [
        click.option("--all", "every", is_flag=True, help="Every live node."),
        click.option(
            "--wait", is_flag=True, help="Wait until they have done it; exit code 1 if they do not."
        ),
        click.option("--within", default="60s", show_default=True, help="How long --wait waits."),
        json_option,
        store_options,
    ]
    for option in reversed(options):
        command = option(command)
    return command


_nodes = click.argument("nodes", nargs=-1, metavar="NODE...", shell_complete=complete_nodes)


@click.command()
@_nodes
@asking_options
def pause(nodes: tuple[str, ...], **options: Any) -> None:
    """Ask nodes to pause: finish what runs, claim nothing more, own no share.

    NODE is a name or an id. `tontine resume` ends the pause.
    """
    _ask(Desired.PAUSED, nodes, **options)


@click.command()
@_nodes
@asking_options
def resume(nodes: tuple[str, ...], **options: Any) -> None:
    """Ask paused nodes to go on. NODE is a name or an id."""
    _ask(Desired.RUNNING, nodes, **options)


@click.command()
@_nodes
@asking_options
def stop(nodes: tuple[str, ...], **options: Any) -> None:
    """Ask nodes to stop: give back what has not started, finish what runs, exit.

    NODE is a name or an id. The others inherit their shares at once.
    """
    _ask(Desired.STOPPED, nodes, **options)


def _ask(
    desired: Desired,
    names: Sequence[str],
    *,
    every: bool,
    wait: bool,
    within: str,
    as_json: bool,
    store: StoreConfig,
) -> None:
    from ..store import control, read

    if every == bool(names):
        raise click.UsageError("name one or more nodes, or give --all")
    limit = seconds(within)
    with opened(store) as opened_store:
        live = opened_store.run(read.read_nodes(dead=False))
        chosen = {
            node["_id"]: node for node in (live if every else [_find(name, live) for name in names])
        }
        willing = [node for node in chosen.values() if _can_be_asked(node, desired)]
        for node in willing:
            opened_store.run(control.ask(node["_id"], desired))
        states = _wait(opened_store, willing, desired, limit) if wait else {}
    if every and not live:
        note("no node is alive")
    late = [node for node in willing if wait and states[node["_id"]] not in _REACHED[desired]]
    for node in willing:
        if as_json:
            state = states.get(node["_id"], node["state"])
            write_json(
                {"_id": node["_id"], "name": node.get("name"), "desired": desired, "state": state}
            )
        elif node in late:
            note(
                f"{_name(node)} is {legible(states[node['_id']], 40)}, and was asked to "
                f"{_VERBS[desired]} {within} ago"
            )
        else:
            click.echo(
                f"{_name(node)} is {states[node['_id']]}"
                if wait
                else f"asked {_name(node)} to {_VERBS[desired]}"
            )
    raise click.exceptions.Exit(int(len(willing) < len(chosen) or bool(late)))


def _find(name: str, live: Sequence[dict[str, Any]]) -> dict[str, Any]:
    for node in live:
        if name in (node["_id"], node.get("name")):
            return node
    raise UnknownNode(
        f"there is no live node named {legible(name, 100)!r}: `tontine nodes` lists them"
    )


def _can_be_asked(node: Mapping[str, Any], desired: Desired) -> bool:
    """A node that was asked to stop stops, whatever is asked of it after that."""
    if node.get("desired") == Desired.STOPPED and desired is not Desired.STOPPED:
        note(f"{_name(node)} is stopping: it cannot {_VERBS[desired]} any more")
        return False
    return True


def _name(node: Mapping[str, Any]) -> str:
    return legible(node.get("name", node["_id"]), 100)


def _wait(
    store: Store, nodes: Sequence[Mapping[str, Any]], desired: Desired, limit: float
) -> dict[Any, str]:
    """The states these nodes have reached, at the latest when the time is up; a record that is gone
    counts as dead."""
    from ..store import read

    until = time.monotonic() + limit
    while True:
        records = {node["_id"]: str(node["state"]) for node in store.run(read.read_nodes())}
        states = {node["_id"]: records.get(node["_id"], NodeState.DEAD.value) for node in nodes}
        settled = {*_REACHED[desired], NodeState.DEAD}  # the dead reach nothing else
        if time.monotonic() >= until or all(state in settled for state in states.values()):
            return states
        time.sleep(_LOOK_EVERY)
