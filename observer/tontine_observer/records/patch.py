"""A document after a change, as a change stream tells it: by dotted paths. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def with_change(
    document: Mapping[str, Any], change: Mapping[str, Any], removed: Iterable[str]
) -> dict[str, Any]:
    """A whole document after a change, by the dotted paths that a change stream names; the old one
    is left alone."""
    new = dict(document)
    for path in removed:
        parent, name = _parent(new, path)
        if isinstance(parent, list):
            del parent[_place(name, parent) :]  # an array that was cut short
        else:
            parent.pop(name, None)
    for path, value in change.items():
        parent, name = _parent(new, path)
        if isinstance(parent, list):
            place = _place(name, parent)
            parent[place : place + 1] = [value]
        else:
            parent[name] = value
    return new


def _parent(document: dict[str, Any], path: str) -> tuple[dict[str, Any] | list[Any], str]:
    """The mapping or array that a dotted path leads to, copied on the way, and the name or place in
    it."""
    *steps, name = path.split(".")
    parent: dict[str, Any] | list[Any] = document
    for step in steps:
        inner: Any
        if isinstance(parent, list):
            place = _place(step, parent)
            inner = _copy(parent[place] if place < len(parent) else None)
            parent[place : place + 1] = [inner]
        else:
            inner = parent[step] = _copy(parent.get(step))
        parent = inner
    return parent, name


def _copy(value: Any) -> dict[str, Any] | list[Any]:
    if isinstance(value, list):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else {}


def _place(name: str, array: list[Any]) -> int:
    """A place in an array, or its end when there is no such place."""
    return (
        min(int(name), len(array))
        if name.isascii() and name.isdecimal() and len(name) < 9
        else len(array)
    )
