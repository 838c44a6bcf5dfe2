"""What one look at the store found, as it was; the board makes sense of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tontine.records.change import NEVER, Version
from tontine.records.roster import Roster


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Which server answered, and when by its own clock."""

    replica_set: str = ""
    primary: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One share's waiting jobs, as a count in the store found them."""

    number: int
    oldest_due: float | None = None
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class Truth:
    """What was counted in the store: the check on what was heard."""

    at: datetime
    version: Version
    counts: Mapping[str, int]
    """By state. States that were not counted this time are left out."""
    seq: int
    unnumbered: Sequence[Any] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[int, Waiting] = field(default_factory=dict)
    epoch: int = 0
    """The epoch whose ranks `waiting` means."""


@dataclass(frozen=True, slots=True)
class Window:
    """The jobs that were read: unfinished ones, and the newest."""

    documents: Sequence[Mapping[str, Any]] = ()
    is_complete: bool = True
    """Whether all unfinished jobs are among them."""
    known_from: int = 0
    """From this seq on, all jobs are among them."""
    is_known: bool = True
    """False when jobs were not read at all."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at everything."""

    at: datetime
    nodes: Sequence[Mapping[str, Any]]
    roster: Roster
    seq: int
    counts: Mapping[str, int]
    unnumbered: Sequence[Any] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()
    window: Window = Window(is_known=False, is_complete=False)
    version: Version = NEVER
    """Everything up to this is in it, and perhaps more."""
    server: ServerFacts = ServerFacts()

    def truth(self) -> Truth:
        return Truth(self.at, self.version, self.counts, self.seq, self.unnumbered, self.unknown)
