"""What a rule about plans may call for: each is one write, or the insert of some jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..records.plan import JobKind, PlanError
from ..records.states import PlanState


@dataclass(frozen=True, slots=True)
class Stop:
    """PL9."""

    error: PlanError


@dataclass(frozen=True, slots=True)
class Halt:
    """PL10."""


@dataclass(frozen=True, slots=True)
class PutBack:
    """The second half of PL15."""

    kind: JobKind


@dataclass(frozen=True, slots=True)
class SetWidth:
    """How many jobs a mapped step has (PL4)."""

    step: str
    width: int


@dataclass(frozen=True, slots=True)
class Release:
    """Insert the job of a step, undo or `finally`; of a mapped step those of some items, in their
    order."""

    kind: JobKind
    step: str
    items: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class AddSteps:
    """Merge the steps that a step's task has added (PL13)."""

    step: str


@dataclass(frozen=True, slots=True)
class BeginUndo:
    """PL11."""

    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class End:
    """PL14: to the outcome, by way of `closing` where there is a `finally`."""

    outcome: PlanState


PlanDeed = Stop | Halt | PutBack | SetWidth | Release | AddSteps | BeginUndo | End
