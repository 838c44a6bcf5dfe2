"""How far the store has looked for what a filter asks for, in words. Pure."""

from __future__ import annotations

from ...records.search import SearchProgress
from ..layout import JOBS
from .scene import Scene


def progress(scene: Scene) -> SearchProgress | None:
    """The search by the filter of the jobs, if there is one."""
    found, chosen = scene.view.search, scene.view.lists[JOBS].chosen
    return found if found is not None and chosen and found.text == chosen.text else None


def told(search: SearchProgress, listed: int) -> str:
    """How many there are, how far it looked, and how many of them are shown."""
    if search.problem:
        return f"{listed:,} here; {search.problem}"
    if not search.total:
        return f"{listed:,} here, asking the store ..."
    if not search.is_over:
        where = f"looked through {search.looked:,} of {search.total:,} ..."
        return f"{search.found:,} found, {where}"
    shown = f", {listed:,} listed" if listed < search.found else ""
    return f"{search.found:,} found in all {search.total:,}{shown}"


def told_short(search: SearchProgress, listed: int) -> str:
    """The same where there is little room."""
    if search.problem or not search.total:
        return f"{listed:,} here ..."
    if not search.is_over:
        return f"{search.found:,} in {search.looked:,} of {search.total:,} ..."
    return f"{search.found:,} of all {search.total:,}"


def none(search: SearchProgress) -> str:
    """Why the list is empty."""
    if search.problem:
        return f"no job here matches the filter; {search.problem}"
    if not search.total:
        return "asking the store ..."
    if not search.is_over:
        return f"looked through {search.looked:,} of {search.total:,} jobs ..."
    return f"none of all {search.total:,} jobs matches the filter (esc clears it)"
