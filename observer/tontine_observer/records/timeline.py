"""Rosters and lives over time, in columns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tontine.records.kind import Kind
from tontine.records.roster import Roster, place_among

KEYS_KEPT = 1_000
"""How many task keys the ranks are remembered of; anybody may invent more."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """One roster, and when it came."""

    at: float
    epoch: int
    members: tuple[str, ...]
    is_exact: bool = True
    """False: it was there already when the observer came."""
    kinds: tuple[Kind, ...] = ()
    """Who offers what; none where all are old software, or where only the members are known."""
    _ranks: dict[str, Sequence[int]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def rank_of(self, seq: int, key: str) -> int | None:
        """The rank of the member that should claim a job (MS2); None while no member serves it.

        Asked for every job of every frame: who can run a task key is looked up once.
        """
        ranks = self._ranks.get(key)
        return place_among(self.ranks_of(key) if ranks is None else ranks, seq)

    def ranks_of(self, key: str) -> Sequence[int]:
        """The ranks of the members that divide the jobs of a task key (MS1)."""
        if key not in self._ranks:
            if len(self._ranks) >= KEYS_KEPT:
                self._ranks.clear()
            self._ranks[key] = Roster(self.epoch, self.members, self.kinds).ranks_of(key)
        return self._ranks[key]

    def owner_of(self, seq: int, key: str) -> str | None:
        """The member that should claim a job."""
        rank = self.rank_of(seq, key)
        return None if rank is None else self.members[rank]

    def lanes_of(self, keys: Iterable[str]) -> list[tuple[tuple[int, ...], list[str]]]:
        """Task keys by the ranks of those who divide their jobs, also those that are offered
        plainly; none where all members offer the same, and divide all."""
        roster = Roster(self.epoch, self.members, self.kinds)
        if roster.is_uniform:
            return []
        offered = {name for kind in self.kinds for name in kind.offer.names()}
        return list(roster.lanes_of(sorted(offered.union(keys))).items())

    def without(self, node: str) -> Epoch:
        """The roster that would follow if a member left."""
        left = Roster(self.epoch, self.members, self.kinds).without([node])
        return Epoch(self.at, left.epoch, left.members, kinds=left.kinds)

    @property
    def is_uniform(self) -> bool:
        """Whether all members offer the same, as far as they say."""
        return Roster(self.epoch, self.members, self.kinds).is_uniform


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
