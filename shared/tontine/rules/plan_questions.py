"""What a rule about plans may ask of their jobs: the store answers a node, memory a test. Pure."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from ..records.plan import JobKind, PlanPlace, Source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AboutJob:
    """The job at a place, or None."""

    place: PlanPlace


@dataclass(frozen=True, slots=True)
class UnendedItem:
    """Some item of a mapped step that has not ended well, or None (PL7)."""

    step: str


@dataclass(frozen=True, slots=True)
class EndedItems:
    """All items of a mapped step that have ended well."""

    step: str


@dataclass(frozen=True, slots=True)
class PresentItems:
    """All items of a mapped step that have a job."""

    step: str


@dataclass(frozen=True, slots=True)
class DoneItems:
    """All items of a mapped step that are done."""

    step: str


@dataclass(frozen=True, slots=True)
class UndoJobs:
    """The undo jobs of a step by item; of one that is not mapped, by None."""

    step: str


@dataclass(frozen=True, slots=True)
class ItemToUndo:
    """Some item of a mapped step that is done and whose undo has yet to end, or None."""

    step: str


@dataclass(frozen=True, slots=True)
class Unsuccessful:
    """All jobs of a kind that failed or were cancelled."""

    kind: JobKind


@dataclass(frozen=True, slots=True)
class OpenStepJob:
    """Some job of a step that is not final, or None (PL11)."""


@dataclass(frozen=True, slots=True)
class WithMore:
    """The steps whose job has steps to add that are not in the plan yet (PL13)."""


@dataclass(frozen=True, slots=True)
class Length:
    """How many elements a result has; a text says why it has none."""

    source: Source


Question = (
    AboutJob
    | UnendedItem
    | EndedItems
    | PresentItems
    | DoneItems
    | UndoJobs
    | ItemToUndo
    | Unsuccessful
    | OpenStepJob
    | WithMore
    | Length
)
Inquiry = Generator[Question, Any, T]
