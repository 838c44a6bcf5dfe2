"""What a node says of itself when it is ready: where it works, with how much room, and what it can
run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tontine.legible import count, legible
from tontine.uri import shown

from ..config import ContextConfig, NodeConfig

log = logging.getLogger(__name__)

TASKS_SHOWN, MODULES_SHOWN = 8, 12

Modules = Sequence[Mapping[str, Any]]


def announce(node: str, config: NodeConfig, modules: Modules, *, as_json: bool) -> None:
    """Log it: a few lines for people, one record for programs."""
    if as_json:
        log.info("ready", extra={"event": "ready", **facts(node, config, modules)})
        warn_of_empty(modules)
        return
    for line in lines(config, modules):
        log.info("%s", line, extra={"event": "ready"})
    warn_of_empty(modules)


def announce_later(context: str, modules: Modules) -> None:
    """Log that another context has become ready, after the node has said that it is."""
    told = "; ".join(f"{_named(module)}: {_tasks(module)}" for module in modules[:MODULES_SHOWN])
    facts = {"event": "context-ready", "context": context, "modules": _short(modules)}
    sentence = f"context {context} is ready, too: {told}"
    log.info("a context is ready", extra=facts | {"sentence": sentence})
    warn_of_empty(modules)


def warn_of_empty(modules: Modules) -> None:
    """A module without tasks is allowed, and seldom meant."""
    for name in (legible(module.get("name"), 60) for module in modules if not module.get("tasks")):
        sentence = (
            f"the module {name} has no tasks: this node runs no job of it; write "
            f"`@{name}.task` above a function"
        )
        log.warning(
            "a module has no tasks",
            extra={"event": "no-tasks", "module_name": name, "sentence": sentence},
        )


def facts(node: str, config: NodeConfig, modules: Modules) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "node": node,
        "uri": shown(config.store.uri or ""),
        "database": config.store.database,
        "processes": sum(one.processes for one in config.contexts),
        "slots": config.contexts[0].slots,
        "lease": config.timing.lease_for,
        "grace": config.grace,
        "contexts": [
            {"name": one.name, "processes": one.processes, "slots": one.slots}
            for one in config.contexts
        ],
        "modules": _short(modules),
    }


def _short(modules: Modules) -> list[dict[str, Any]]:
    return [{name: module.get(name) for name in ("name", "version", "tasks")} for module in modules]


def lines(config: NodeConfig, modules: Modules) -> Iterator[str]:
    """The same for people."""
    yield (
        f"{config.name} is ready: database {config.store.database} of "
        f"{shown(config.store.uri or '')}"
    )
    first, *others = config.contexts
    times = f"a lease of {config.timing.lease_for:g} s, {config.grace:g} s of grace"
    if others:
        yield f"  {times}"
        for context in config.contexts:
            yield f"  context {context.name}: {_room(context)}"
    else:
        yield f"  {_room(first)}, {times}"
    for module in modules[:MODULES_SHOWN]:
        yield f"  {_named(module)}: {_tasks(module)}"
    if len(modules) > MODULES_SHOWN:
        yield f"  and {count(len(modules) - MODULES_SHOWN, 'more module')}"


def _room(context: ContextConfig) -> str:
    each = " each" if context.processes > 1 else ""
    processes = count(context.processes, "process", "processes")
    return f"{processes} with {count(context.slots, 'slot')}{each}"


def _named(module: Mapping[str, Any]) -> str:
    version = module.get("version")
    return legible(f"{module.get('name')} {version}" if version else module.get("name"), 60)


def _tasks(module: Mapping[str, Any]) -> str:
    own = f"{module.get('name')}."
    tasks = [legible(str(task).removeprefix(own), 60) for task in module.get("tasks", ())]
    # One more takes no more room than saying so.
    shown = len(tasks) if len(tasks) == TASKS_SHOWN + 1 else TASKS_SHOWN
    more = len(tasks) - shown
    return ", ".join(tasks[:shown]) + (f" and {more} more" if more > 0 else "") or "no tasks"
