"""Something that needs somebody, and how badly. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from .pane import Pane, Target


class Weight(StrEnum):
    """How bad an alert is; a notice alone leaves the system healthy."""

    BAD = "bad"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs somebody: its kind for programs, its text for people."""

    kind: str
    subject: str
    text: str
    weight: Weight = Weight.BAD
    target: Target = field(default_factory=lambda: Target(Pane.NODES))
