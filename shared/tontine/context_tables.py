"""The tables `[contexts.NAME]` of a settings file: mistakes that no single value shows. Pure."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

DEFAULT = "default"
"""The context that `tontine node MODULE...` makes."""
OF_DEFAULT = ("modules", "processes", "slots", "max_jobs", "max_memory")
"""Keys of the table `node` that are the default context's."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_PROFILE = re.compile(r"\S+:[A-Za-z_]\w*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Table = Mapping[str, Any]
Complaint = tuple[str, str]
"""A key, and what is wrong with it."""


def complaints(contexts: Mapping[str, Table], node: Table) -> Iterator[Complaint]:
    """What cannot work in these contexts, beside the table `node`."""
    for name, table in contexts.items():
        yield from _of_one(name, table)
    for key in contexts.get(DEFAULT, {}):
        if key in node:
            yield (
                f"contexts.{DEFAULT}.{key}",
                f"and `node.{key}` say the same of the default context: keep one of them",
            )
    yield from _of_modules({**_node_modules(node), **_modules(contexts)})


def _of_one(name: str, table: Table) -> Iterator[Complaint]:
    place = f"contexts.{name}"
    if not _NAME.fullmatch(name):
        yield place, "cannot name a context: a letter, then letters, digits, - and _, 40 at most"
    if name != DEFAULT and not table.get("modules"):
        yield place, 'loads nothing: say what, like modules = ["mail.tasks"]'
    profile = table.get("profile")
    if profile is not None and not _PROFILE.fullmatch(profile):
        yield (
            f"{place}.profile",
            f'cannot be {profile!r}: name the file and the Context in it, like "mail.context:mail"',
        )
    for variable in table.get("env", {}):
        if not _VARIABLE.fullmatch(variable):
            yield f"{place}.env", f"has {variable!r}, which cannot name a variable"


def _node_modules(node: Table) -> dict[str, Sequence[str]]:
    return {"node.modules": node["modules"]} if "modules" in node else {}


def _modules(contexts: Mapping[str, Table]) -> dict[str, Sequence[str]]:
    return {
        f"contexts.{name}.modules": table.get("modules", ()) for name, table in contexts.items()
    }


def _of_modules(places: Mapping[str, Sequence[str]]) -> Iterator[Complaint]:
    """One module belongs to one context of a node (MC2)."""
    seen: list[tuple[str, str]] = []
    for place, sources in places.items():
        for source in sources:
            for other, one in seen:
                if other != place and is_same(source, one):
                    twice = f"has {source!r}, and `{other}` has {one!r}"
                    yield place, f"{twice}: a module belongs to one context"
            seen.append((place, source))


def is_same(one: str, other: str) -> bool:
    """Whether both name the same modules, or one of them names a module among those of the
    other."""
    path, _, attribute = one.partition(":")
    other_path, _, other_attribute = other.partition(":")
    if _normal(path) != _normal(other_path):
        return False
    return not attribute or not other_attribute or attribute == other_attribute


def _normal(path: str) -> str:
    return os.path.normpath(path) if path.endswith(".py") else path
