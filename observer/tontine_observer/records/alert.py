"""Something that needs somebody, how badly, and what to do about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from tontine.rules.complaint import Complaint, Weight

from .pane import Pane, Target


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs somebody: its kind for programs, its text for people. One for each
    cause."""

    kind: str
    subject: str
    text: str
    weight: Weight = Weight.BAD
    target: Target = field(default_factory=lambda: Target(Pane.NODES))
    advice: str = ""
    """What to do."""
    nodes: tuple[str, ...] = ()
    """The ids of the nodes that it is about."""
    short: str = ""
    """The text where there is little room for it."""

    @classmethod
    def of(cls, complaint: Complaint, target: Target, nodes: tuple[str, ...] = ()) -> Alert:
        return cls(
            complaint.kind,
            complaint.subject,
            complaint.text,
            complaint.weight,
            target,
            complaint.advice,
            nodes,
            complaint.short,
        )
