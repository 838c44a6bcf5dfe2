"""How findings say times, names and errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ...legible import ago, legible
from ...records.job import JobError
from ...records.node import Sighting

_NAMES_SHOWN = 5


def at(moment: Any, now: datetime) -> str:
    """A moment as a clock shows it and as seen from now: 03:15:02 (in 3 min)."""
    if not isinstance(moment, datetime):
        return legible(moment, 40)
    local = moment.astimezone()
    day = "" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d} "
    return f"{day}{local:%H:%M:%S} ({ago(moment, now)})"


def is_later(moment: Any, now: datetime) -> bool:
    """Whether a date lies ahead. BSON has dates that Python has not: those are numbers of
    milliseconds."""
    if isinstance(moment, datetime):
        return moment > now
    return moment is not None and int(moment) > 0


def about(seconds: float) -> str:
    """A rough time from now."""
    return f"about {max(1, round(seconds))} s"


def names(nodes: Iterable[Sighting]) -> str:
    """Nodes by name: a, b and c."""
    some = sorted(node.name for node in nodes)
    shown = some[:_NAMES_SHOWN] + (
        [f"{len(some) - _NAMES_SHOWN} more"] if len(some) > _NAMES_SHOWN else []
    )
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def these(nodes: Sequence[Sighting], one: str, many: str) -> str:
    """Nodes by name, and the verb that fits their number."""
    return f"{names(nodes)} {one if len(nodes) == 1 else many}"


def summary(error: JobError | None) -> str:
    """An error in one line."""
    if error is None:
        return "without an error on record"
    lines = error.message.strip().splitlines()
    return legible(f"{error.type}: {lines[0] if lines else ''}".rstrip(": "), 200)


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
