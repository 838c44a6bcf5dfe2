"""What a call on many jobs did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

REASONS_KEPT = 100


@dataclass(frozen=True, slots=True)
class Changed:
    """How many jobs are now as was asked, and which could not be."""

    count: int = 0
    """How many are as was asked."""
    running: int = 0
    """Of these, the running ones that were asked to end and have not yet."""
    refused: int = 0
    """Jobs that could not be put back."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why, by number, of the first hundred of them."""

    def plus(
        self, count: int, *, running: int = 0, reasons: Mapping[int, str] | None = None
    ) -> Changed:
        """This and what one more batch did."""
        more = reasons or {}
        room = REASONS_KEPT - len(self.reasons)
        kept = (
            {**self.reasons, **dict(list(more.items())[:room])}
            if more and room > 0
            else self.reasons
        )
        return Changed(self.count + count, self.running + running, self.refused + len(more), kept)
