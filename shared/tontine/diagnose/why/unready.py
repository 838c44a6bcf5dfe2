"""Why those who have a job's task, or are about to load it, cannot run it yet: a context that is
not ready, or a source that does not load (MC3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...legible import count, legible
from ...records.loaded import BROKEN, LOADING, ContextState, Loaded
from ...records.node import Sighting
from ...records.task_key import fits, module_of, name_of
from .evidence import Evidence, Finding
from .words import at, is_later

_TOLD = 3
_ADVICE = (
    "it is tried again by itself: put right what the error names; `tontine nodes` shows the context"
)


@dataclass(frozen=True, slots=True)
class _Unready:
    """A module on a node that would serve the job, if its context were ready."""

    node: Sighting
    module: Loaded
    context: ContextState | None

    @property
    def error(self) -> str:
        return (self.context.error if self.context else "") or self.module.error


def not_ready(e: Evidence) -> Finding | None:
    """Nodes have the task of a job, or may have it, in contexts that are not ready."""
    if having := [one for one in _unready(e) if _has(one.module, e.task)]:
        verb = "has it"
    elif having := _loading(e):
        verb = "may get it"
    else:
        return None
    told = "; ".join(_tell(one, verb, e) for one in having[:_TOLD])
    more = f"; and {len(having) - _TOLD} more" if len(having) > _TOLD else ""
    advice = _ADVICE if any(one.error for one in having) else ""
    return Finding("not-ready", f"No node can run {e.task} yet: {told}{more}.", advice)


def _loading(e: Evidence) -> list[_Unready]:
    """Sources that nobody has loaded, so that nobody knows their tasks. Where the job's module is
    known, they are not the ones it waits for."""
    module = module_of(e.task)
    if any(name == module for node in e.live for name, _ in node.modules):
        return []
    return [one for one in _unready(e) if not one.module.tasks]


def _unready(e: Evidence) -> Iterator[_Unready]:
    for node in e.beating:
        contexts = {one.name: one for one in node.contexts if not one.is_ready}
        for module in node.loaded:
            context = contexts.get(module.context)
            is_unloaded = not module.tasks and module.state in (LOADING, BROKEN)
            if is_unloaded or (context is not None and module.state in (LOADING, BROKEN)):
                yield _Unready(node, module, context)


def _has(module: Loaded, key: str) -> bool:
    return name_of(key) in module.tasks and fits(key, module.version)


def _tell(one: _Unready, verb: str, e: Evidence) -> str:
    what = "" if one.module.tasks else f" with {legible(one.module.name, 100)}"
    told = f"node {one.node.name} {verb}{what} in the context {legible(one.module.context, 60)}"
    if one.context is None:
        return f"{told}, where it is {legible(one.module.state, 20)}{_why(one.module.error)}"
    tries = f" after {count(one.context.tries, 'try', 'tries')}" if one.context.tries else ""
    told = f"{told}, which is {legible(one.context.state, 20)}{tries}{_why(one.error)}"
    if is_later(one.context.next_at, e.now):
        return f"{told}; it tries again {at(one.context.next_at, e.now)}"
    return told


def _why(error: str) -> str:
    return f": {legible(error, 200)}" if error else ""
