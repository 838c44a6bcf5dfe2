"""What every part is given: the servers, the contenders, how much to do, and where to write it
down."""

from __future__ import annotations

from dataclasses import dataclass, field

from .ours import Bare, Tontine
from .plan import Plan
from .record import Record
from .rivals import Rival


@dataclass(slots=True)
class Scene:
    """One run of the benchmark."""

    uri: str
    plan: Plan
    record: Record
    rivals: list[Rival] = field(default_factory=list)

    @property
    def tontine(self) -> Tontine:
        return Tontine(self.uri)

    @property
    def bare(self) -> Bare:
        return Bare(self.uri)
