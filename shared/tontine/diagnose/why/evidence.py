"""What is known about a job and its surroundings, and what was concluded from it. Records only."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ...family import Children
from ...records.job import Job
from ...records.node import Sighting
from ...records.roster import Roster
from ...rules.health import is_beating, working_members


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason why a job is where it is, and what to do about it, if there is anything to do."""

    code: str
    sentence: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """What is left of a job that is not there: where its number stands among those that are."""

    seq: int | None
    counter: int
    lowest: int | None = None
    next_created_at: datetime | None = None
    """When the first job with a higher number was inserted: about when this one would have been."""
    removes: bool = False
    """Whether retention removes finished jobs."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that an answer is made from, read at about the same moment."""

    now: datetime
    job: Job | None = None
    trace: Trace | None = None
    roster: Roster = field(default_factory=Roster)
    nodes: tuple[Sighting, ...] = ()
    """The living, and the dead that the job or the roster names."""
    ahead: int = 0
    """How many jobs of the owner's share come before it, counted up to `ahead_limit` and one more.
    """
    ahead_ranked: int = 0
    """How many of those because of their priority."""
    ahead_limit: int = 10_000
    refusal: str | None = None
    """Why a job without a number cannot be one."""
    inserted_at: datetime | None = None
    key_holder: Job | None = None
    """The unfinished job that has its key, when that is another one."""
    parent: Job | None = None
    """The job whose task submitted it, if that is still there."""
    children: Children = field(default_factory=Children)
    plan: int | None = None
    """The plan whose job it is."""
    expire_at: Any = None
    odd_fields: tuple[str, ...] = ()
    """Sentences about fields that mean nothing, and look as if they should."""
    suspect_from: int = 2
    """Lost so often, it is claimed alone."""
    lost_limit: int = 4
    owner_ticks: bool | None = None
    """Whether the owner's claim loop moved between two looks; None when it was looked at once."""

    @property
    def task(self) -> str:
        return self.job.task if self.job else ""

    @property
    def live(self) -> list[Sighting]:
        """Nodes that are not declared dead, whether they beat or not."""
        return [node for node in self.nodes if not node.is_dead]

    @property
    def beating(self) -> list[Sighting]:
        return [node for node in self.nodes if is_beating(node)]

    @property
    def working(self) -> list[Sighting]:
        """Members that beat: those that can claim now."""
        return working_members(self.nodes, self.roster)

    @property
    def able(self) -> list[Sighting]:
        """Nodes that beat and have the task, members or not."""
        return [node for node in self.beating if node.serves(self.task)]

    @property
    def owner_id(self) -> str | None:
        """The member whose share the job's number is in."""
        if self.job is None or not self.job.is_numbered:
            return None
        return self.roster.owner_of(self.job.seq, self.job.task)

    @property
    def owner(self) -> Sighting | None:
        return self.node(self.owner_id)

    @property
    def helpers(self) -> list[Sighting]:
        """Other members that can claim it."""
        others = set(self.roster.members_of(self.task)) - {self.owner_id}
        return [node for node in self.able if node.id in others]

    def node(self, id: str | None) -> Sighting | None:
        return next((node for node in self.nodes if node.id == id), None)

    def name_of(self, id: str | None) -> str:
        node = self.node(id)
        return node.name if node else str(id)
