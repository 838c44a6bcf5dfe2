"""What one member does for all: the first does it often, others stand in for it, the more rarely
the more they are."""

from __future__ import annotations

from dataclasses import dataclass

from tontine.records.share import Share, crowd


def is_first(share: Share | None) -> bool:
    return share is not None and share.rank == 0


@dataclass(frozen=True, slots=True)
class Duty:
    """How often a member sees to it, in seconds."""

    first_every: float
    others_every: float
    """Of each of a few."""

    def every(self, share: Share | None, members: int = 0) -> float:
        """For who has this share; `members` tells how many there are to who has none."""
        if is_first(share):
            return self.first_every
        return self.others_every * crowd(members if share is None else share.size)
