"""Rosters and lives over time, in columns. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Epoch:
    """One roster, and when it came."""

    at: float
    epoch: int
    members: tuple[str, ...]
    is_exact: bool = True
    """False: it was there already when the observer came."""


@dataclass(frozen=True, slots=True)
class Track:
    """One node's life over the columns of a timeline: one character per column."""

    id: str
    name: str
    states: str
    """`w` working, `-` waiting, `p` paused, `i` initializing, `s` silent, `g` gone, `x` dead,
    `?` unknown, space: not there."""
    is_gone: bool = False
    """Its record is gone, or it stopped: it left."""


@dataclass(frozen=True, slots=True)
class EpochMark:
    """Where an epoch begins."""

    column: int
    epoch: int
    at: datetime
    members: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The time pane: `columns` columns of `step` seconds from `start`."""

    start: datetime
    step: float
    columns: int
    oldest: datetime
    """The oldest moment of which anything is known."""
    epochs: tuple[EpochMark, ...]
    members: tuple[int | None, ...]
    waiting: tuple[float | None, ...]
    recorded: tuple[bool, ...]
    """False where nothing was recorded: to be hatched, never drawn as idle."""
    lanes: tuple[Track, ...]
