"""Task keys: what a job's `task` holds. The name of a task, perhaps with the versions of its module
that may run it, like `shop.resize@<2,>=1.2`. Pure."""

from __future__ import annotations

from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

MARK = "@"
"""Stands between a task's name and its range; no name has one."""
LONGEST_RANGE = 200


def name_of(key: str) -> str:
    """The task that a key names, whatever its range."""
    return key.partition(MARK)[0]


def range_of(key: str) -> str | None:
    """The range of a key, as it is written there; None where any version will do."""
    _, mark, wanted = key.partition(MARK)
    return wanted if mark else None


def has_range(key: str) -> bool:
    return MARK in key


def module_of(key: str) -> str:
    """The name of the module that has the task."""
    return key.partition(".")[0]


def with_range(name: str, wanted: str) -> str:
    """The one form in which clients write a key: its parts sorted, no blanks. `ValueError` says
    what is wrong with the range."""
    if reason := misread(wanted):
        raise ValueError(reason)
    return f"{name}{MARK}{SpecifierSet(wanted)}"


def canonical(key: str) -> str:
    """A key as clients write it; `ValueError` when its range cannot be read."""
    wanted = range_of(key)
    return key if wanted is None else with_range(name_of(key), wanted)


def misread(wanted: str) -> str | None:
    """Why a text is no range; None when it is one."""
    if _read(wanted) is not None:
        return None
    shown = wanted if len(wanted) <= LONGEST_RANGE else f"{wanted[:LONGEST_RANGE]}..."
    return f"{shown!r} is not a version range: write it like >=1.2,<2 or ==1.2.*"


def unreadable(key: str) -> str | None:
    """Why no version can be inside a key's range: it is none. None when it has none, or a sound
    one."""
    wanted = range_of(key)
    return None if wanted is None else misread(wanted)


def fits(key: str, version: str) -> bool:
    """Whether a version is inside a key's range; every version is, where there is none.
    Pre-releases count; what is no version satisfies no range."""
    wanted = range_of(key)
    return wanted is None or _is_inside(wanted, version)


@lru_cache(maxsize=4096)
def _is_inside(wanted: str, version: str) -> bool:
    specifiers = _read(wanted)
    if specifiers is None:
        return False
    try:
        return specifiers.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def _read(wanted: str) -> SpecifierSet | None:
    """None for an empty one, too: it says nothing, and would be another key than the plain one."""
    if len(wanted) > LONGEST_RANGE:
        return None
    try:
        specifiers = SpecifierSet(wanted)
    except InvalidSpecifier:
        return None
    return specifiers if len(specifiers) else None
