"""One plan as people see it: its row in a list, and its page. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tontine.records.plan_status import StepStatus
from tontine.rules.plan_shown import Piece


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One plan. Moments are the server's, in seconds since 1970."""

    id: Any
    """Its `_id` as it is: to read it by, and never shown."""
    seq: int | None
    name: str
    state: str
    """As its document has it; `new` until a node has accepted it."""
    tries: int = 0
    key: str = ""
    created_at: float | None = None
    finished_at: float | None = None
    error: str = ""
    steps: int | None = None
    """How many it has, and how many of them are done; None before it was counted."""
    done: int = 0
    progress: float = 0.0

    @property
    def title(self) -> str:
        return "new" if self.seq is None else f"#{self.seq}"


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step as it is drawn, on rails; and how it stands, to find its jobs by."""

    step: StepStatus
    lines: tuple[tuple[Piece, ...], ...]


@dataclass(frozen=True, slots=True)
class PlanPage:
    """One plan whole, read when it was asked for."""

    at: datetime
    row: PlanRow
    steps: tuple[StepRow, ...]
    why: tuple[tuple[str, str], ...]
    """Sentences, and the advice to each."""
    document: str
    """Redacted; hidden until it is asked for."""
