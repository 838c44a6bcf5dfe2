"""The part of a node's page about its contexts and modules: states, versions, errors. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tontine.legible import count

from ...draw.line import Line, left, size, wrap
from ...draw.words import age
from ...records.loaded import ContextRow, ModuleRow
from ...records.node import NodeRow
from .scene import Scene
from .states import loaded_state

STATE = 14
"""Columns of the longest state and its glyph."""
NAME_AT_LEAST, NAME_AT_MOST = 11, 30
DIGEST_SHOWN = 12


def contexts(node: NodeRow, scene: Scene, width: int) -> list[Line]:
    """Each context with its state and workers, and why it is not ready."""
    name = _column(one.name for one in node.contexts)
    found = [line for one in node.contexts for line in _context(one, scene, name, width)]
    return [[("", "text")], [(" Contexts", "title")], *found] if found else []


def _context(one: ContextRow, scene: Scene, name: int, width: int) -> Iterator[Line]:
    state, role = loaded_state(one.state, scene.glyphs)
    facts = [f"{one.ready} of {count(one.processes, 'worker')} ready"]
    facts += [count(one.tries, "try", "tries")] if one.tries else []
    facts += _next(one, scene)
    yield [
        (f"  {left(one.name, name)} ", "text"),
        (left(state, STATE), role),
        (f" {', '.join(facts)}", "muted"),
    ]
    yield from _error(one.error, width)


def _next(one: ContextRow, scene: Scene) -> list[str]:
    if one.next_at is None:
        return []
    wait = one.next_at - scene.seconds
    return [f"next in {age(wait)}" if wait > 0 else "trying now"]


def modules(node: NodeRow, scene: Scene, width: int) -> list[Line]:
    """Each version of a module with its state, where it came from, its tasks, and what is wrong
    with it."""
    name = _column(_told(one) for one in node.modules)
    found = [line for one in node.modules for line in _module(one, scene, name, width)]
    return [[("", "text")], [(" Modules", "title")], *found] if found else []


def _module(one: ModuleRow, scene: Scene, name: int, width: int) -> Iterator[Line]:
    state, role = loaded_state(one.state, scene.glyphs)
    source = one.source if one.source != one.name else ""
    facts = (f"in {one.context}" if one.context else "", source, one.digest[:DIGEST_SHOWN])
    yield [
        (f"  {left(_told(one), name)} ", "text"),
        (left(state, STATE), role),
        ("".join(f" {fact} " for fact in facts if fact).rstrip(), "muted"),
    ]
    yield from _error(one.error, width)
    for text in wrap(", ".join(one.tasks), width - 6) if one.tasks else []:
        yield [("    " + text, "muted")]


def _told(one: ModuleRow) -> str:
    return f"{one.name} {one.version}".rstrip()


def _error(error: str, width: int) -> Iterator[Line]:
    for text in wrap(error, width - 6) if error else []:
        yield [("    " + text, "warn")]


def _column(names: Iterator[str]) -> int:
    """As wide as the longest name, within reason."""
    return min(NAME_AT_MOST, max(NAME_AT_LEAST, *map(size, names), 0))
