"""What is known of one moment, now or in the past. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from tontine.records.states import JobState

from ..records.job import JobRow
from ..records.node import NodeFact
from ..records.snapshot import Waiting
from ..records.timeline import Epoch


@dataclass(frozen=True, slots=True)
class Moment:
    """The system at one moment, by the server's clock."""

    at: float
    facts: Mapping[str, NodeFact]
    roster: Epoch
    rows: tuple[JobRow, ...]
    """By seq; those without a number last, in the order of their arrival."""
    unfinished: tuple[JobRow, ...]
    """Those of the rows that have not ended."""
    working: tuple[JobRow, ...]
    """And those of them that a node holds."""
    counts: Mapping[str, int]
    is_complete: bool
    """Whether every unfinished job is among the rows."""
    known_from: int
    seq: int
    waiting: Mapping[int, Waiting] = field(default_factory=dict)
    """By rank, counted in the store, for when the rows are not complete."""
    unnumbered: int = 0
    unnumbered_for: float = 0.0
    unknown: Mapping[str, int] = field(default_factory=dict)
    still: frozenset[str] = frozenset()
    """Nodes that beat and whose claim loop stands still."""
    knows_jobs: bool = True
    """Whether the rows are those of that moment; else they are what is left of it."""
    has_cells: bool = True
    """Whether somebody looks at the single jobs of each share."""
    settled_at: Mapping[str, float] = field(default_factory=dict)
    """When each node's counters last grew, where the changes of its jobs are not followed."""

    @property
    def members(self) -> tuple[str, ...]:
        return self.roster.members

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks that live nodes have."""
        return frozenset(
            task for fact in self.facts.values() if not fact.is_dead for task in fact.tasks
        )

    def serving(self) -> Callable[[str], bool]:
        """Whether a live node has the task of a key; each key is looked up once."""
        living, tasks = [one for one in self.facts.values() if not one.is_dead], self.tasks
        known: dict[str, bool] = {}

        def is_served(key: str) -> bool:
            if key not in known:
                known[key] = key in tasks or any(fact.serves(key) for fact in living)
            return known[key]

        return is_served

    def name_of(self, id: str) -> str:
        fact = self.facts.get(id)
        return fact.name if fact else id


def sorted_rows(rows: Iterable[JobRow]) -> tuple[JobRow, ...]:
    """By seq; those without a number last, in the order of their arrival."""
    # They are nearly in order: with a key that costs nothing, sorting thousands for every frame
    # costs next to nothing.
    every = list(rows)
    numbered = [row for row in every if row.seq is not None]
    numbered.sort(key=_SEQ)
    if len(numbered) == len(every):
        return tuple(numbered)
    raw = [row for row in every if row.seq is None]
    return (*numbered, *sorted(raw, key=lambda row: (row.created_at or 0.0, row.id)))


def working_of(rows: Iterable[JobRow]) -> tuple[JobRow, ...]:
    """Those that a node holds."""
    return tuple(row for row in rows if row.state == _WORKING)


_WORKING = JobState.WORKING.value
_SEQ = itemgetter(JobRow._fields.index("seq"))
