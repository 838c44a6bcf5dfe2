"""What a node's record says of its modules and contexts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from tontine.clock import Clock, wall_time
from tontine.legible import legible
from tontine.records.loaded import REFUSED
from tontine.records.offer import ModuleOffer, Offer

from .changes import Changes
from .contexts import Contexts
from .dispatch import Dispatcher
from .offering import Serving

ERROR_KEPT = 500

Described = dict[str, Any]


def describe_contexts(contexts: Contexts, clock: Clock) -> list[Described]:
    """Each context with its state, and why it is not ready."""
    return [_context(dispatcher, clock.now()) for dispatcher in contexts]


def _context(dispatcher: Dispatcher, now: float) -> Described:
    pool = dispatcher.pool
    is_well = pool.ready > 0 or not dispatcher.is_needed
    state = "ready" if is_well else "failing" if pool.has_loaded else "initializing"
    described: Described = {
        "name": dispatcher.context.name,
        "state": state,
        "processes": pool.processes,
        "ready": pool.ready,
    }
    if tries := pool.tries.count(now):
        described["tries"] = tries
    if pool.tries.error:
        described["error"] = legible(pool.tries.error, ERROR_KEPT)
        if pool.tries.next_at > now:
            at = wall_time() + pool.tries.next_at - now
            described["next_at"] = datetime.fromtimestamp(at, UTC)
    return described


def describe_modules(contexts: Contexts, changes: Changes) -> list[Described]:
    """Every module that is here or is to be, in each version that workers still have."""
    found = [one for dispatcher in contexts for one in _modules(dispatcher, changes)]
    return [*found, *_absent(contexts, changes)]


def _modules(dispatcher: Dispatcher, changes: Changes) -> Iterator[Described]:
    shown = set()
    doubled = changes.doubled(dispatcher)
    for module in dispatcher.modules:
        shown.add(_identity(module))
        if (other := doubled.get(module["name"])) is not None:
            yield _module(dispatcher, module, REFUSED, f"the context {other} has it already")
        else:
            yield _module(dispatcher, module, *_state(dispatcher, module))
    for workload in dispatcher.workloads.values():
        hello = workload.child.hello
        for module in hello.modules if hello else ():
            if _identity(module) not in shown:
                shown.add(_identity(module))
                yield _module(dispatcher, module, "draining")


def _identity(module: Described) -> tuple[Any, ...]:
    return module["name"], module.get("version"), module.get("digest")


def _module(dispatcher: Dispatcher, module: Described, state: str, error: str = "") -> Described:
    tasks = module["tasks"]
    if state != "draining":
        tasks = [task for task in tasks if task in dispatcher.tasks]
    described = {**module, "tasks": tasks, "context": dispatcher.context.name, "state": state}
    return {**described, "error": legible(error, ERROR_KEPT)} if error else described


def _state(dispatcher: Dispatcher, module: Described) -> tuple[str, str]:
    if module["name"] in dispatcher.dropped:
        return "draining", ""
    if unknown := sorted(dispatcher.unknown.broken.intersection(module["tasks"])):
        return "broken", f"workers that have it do not know {', '.join(unknown)}"
    if (error := dispatcher.pool.refusal) and module.get("source") in _blamed(dispatcher):
        return "broken", error
    if dispatcher.pool.is_ready:
        return "serving", ""
    return "loading", dispatcher.pool.tries.error


def _blamed(dispatcher: Dispatcher) -> Sequence[str]:
    """The sources because of which workers cannot be started: the one that they fail at, else all
    that are new."""
    pool = dispatcher.pool
    if pool.refused_source in pool.context.modules:
        return [pool.refused_source]
    return _new_sources(dispatcher) or pool.context.modules


def _new_sources(dispatcher: Dispatcher) -> list[str]:
    """What workers are started with now, and none has loaded."""
    if dispatcher.pool.serving >= dispatcher.pool.generations.wanted:
        return []  # what is named twice was brought by the first of these names
    loaded = {module.get("source") for module in dispatcher.modules}
    return [source for source in dispatcher.pool.context.modules if source not in loaded]


def _absent(contexts: Contexts, changes: Changes) -> Iterator[Described]:
    for dispatcher in contexts:
        for source in _new_sources(dispatcher):
            pool = dispatcher.pool
            is_broken = bool(pool.refusal) and source in _blamed(dispatcher)
            state, error = ("broken", pool.refusal) if is_broken else ("loading", pool.tries.error)
            yield _unknown(source, dispatcher.context.name, state, error)
    for want, reason in changes.refused.items():
        yield _unknown(want.source, changes.context_of(want), REFUSED, reason)


def _unknown(source: str, context: str, state: str, error: str) -> Described:
    """Of a source that is not loaded nobody knows the modules: it stands for them."""
    told = {"name": source, "version": "", "tasks": [], "source": source, "context": context}
    return told | {"state": state} | ({"error": legible(error, ERROR_KEPT)} if error else {})


def serving(dispatcher: Dispatcher) -> Serving:
    """What a context has to offer now."""
    tasks = dispatcher.tasks
    modules: list[ModuleOffer] = []
    for module in Offer.announced(dispatcher.modules).modules:
        short = tuple(task for task in module.tasks if f"{module.name}.{task}" in tasks)
        if short:
            modules.append(ModuleOffer(module.name, module.version, short))
    name, pool = dispatcher.context.name, dispatcher.pool
    return Serving(name, pool.is_ready, tuple(modules), is_needed=dispatcher.is_needed)
