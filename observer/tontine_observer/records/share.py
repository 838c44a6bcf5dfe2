"""One share of the work, as people see it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

CELLS: dict[str, str] = {
    "q": "queued and due",
    "l": "queued for later",
    "c": "working: claimed, its start not known",
    "r": "working: started",
    "d": "done",
    "f": "failed",
    "x": "cancelled",
    "?": "in a state this version does not know, or held by a dead node",
    "h": "hole: the number was taken, and there is no such job",
    " ": "not known here",
}
"""One character per seq; a screen chooses its own glyphs for them."""


@dataclass(frozen=True, slots=True)
class ShareRow:
    """One rank of the roster: the jobs it should claim, and how they fare."""

    rank: int
    size: int
    owner: str
    """The owner's node id."""
    name: str
    state: str
    """The owner's state; `missing` when there is no record of it."""
    oldest_age: float | None
    """Seconds that its oldest due job has waited; None when none waits."""
    oldest: int | None
    waiting: int
    first: int
    """The seq of the first cell. Where all members offer the same, cell i is seq `first + i *
    size`; else the cells are the jobs of this member, by their numbers."""
    cells: str
    note: str = ""
    """`owner dead`, `owner gone`, `#4893 claimed by ada`, `3 holes` ..., separated by commas."""
    foreign: tuple[tuple[int, str], ...] = ()
    """Seqs that others than the owner hold, and the holders' names: help, usually."""
    is_stalled: bool = False
    is_partial: bool = False
    """There are more waiting than were counted: `waiting` is a lower bound."""
