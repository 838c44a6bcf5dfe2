"""Everything one frame is drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Protocol

from ...draw.glyphs import Glyphs
from ...draw.style import Look
from ...records.change import Change
from ...records.job import JobList
from ...records.ledger import Ledger, TaskRow, VersionRow
from ...records.picture import Picture
from ...records.timeline import Timeline
from .view import View


class Demo(Protocol):
    """The demo behind a screen."""

    @property
    def death_in(self) -> float | None:
        """Seconds until it kills a node; None when it does not."""


@dataclass(slots=True)
class Scene:
    """A picture, the view of it, and how it looks."""

    picture: Picture
    jobs: JobList
    changes: tuple[Change, ...]
    timeline: Timeline | None
    view: View
    look: Look
    zone: tzinfo | None = None
    behind: int = 0
    """Changes since the picture was frozen."""
    fps: float = 10.0
    pending: int = 0
    """Requests that nobody has answered yet."""
    now: datetime | None = None
    """The board's own now, where the picture is older."""
    ledger: Ledger = field(default_factory=Ledger)
    tasks: tuple[TaskRow, ...] = ()
    modules: tuple[VersionRow, ...] = ()
    top_rate: float | None = None
    """The highest rate of any node, once it was asked for."""
    demo: Demo | None = None
    """What the demo does next, where this is its screen."""
    names: dict[str, str] = field(default_factory=dict)
    """Node ids to names."""

    def __post_init__(self) -> None:
        if not self.names:
            self.names = {node.id: node.name for node in self.picture.nodes}

    @property
    def unread(self) -> str:
        """Why there is nothing of what is read only while somebody looks at it."""
        if self.picture.is_past:
            return "what it was then is not kept: space returns to now"
        if self.view.is_frozen:
            return "nobody looked at it before the picture was frozen: space returns to now"
        return "reading ..."

    @property
    def glyphs(self) -> Glyphs:
        return self.look.glyphs

    @property
    def seconds(self) -> float:
        """The picture's moment in seconds since 1970."""
        return self.picture.at.timestamp()
