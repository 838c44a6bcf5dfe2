"""What a board was told and what it made of it, for recordings and for those who want every change.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tontine.records.change import Delta, Version

from ..records.node import NodeFact
from ..records.snapshot import Snapshot, Truth, Window
from ..records.timeline import Epoch
from .jobs import JobMoved


@dataclass(frozen=True, slots=True)
class Loaded:
    """A look at everything."""

    snapshot: Snapshot
    polled: bool


@dataclass(frozen=True, slots=True)
class WindowRead:
    """Jobs that were read."""

    window: Window
    version: Version


@dataclass(frozen=True, slots=True)
class Deltas:
    """Changes."""

    deltas: tuple[Delta, ...]


@dataclass(frozen=True, slots=True)
class Remembered:
    """Stored events."""

    events: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """From here on nothing was heard."""

    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class NodeMoved:
    """A node's record changed."""

    at: float
    before: NodeFact | None
    after: NodeFact | None


@dataclass(frozen=True, slots=True)
class RosterMoved:
    """A new epoch."""

    new: Epoch
    old: Epoch | None


Heard = (
    Loaded | WindowRead | Deltas | Truth | Remembered | Lost | NodeMoved | RosterMoved | JobMoved
)
