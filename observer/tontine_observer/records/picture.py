"""The picture: everything that any face draws of one moment. Its texts are clean, its moments the
server's. Pure.

Ages are seconds at the picture's own moment, so a past picture is as true as a live one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tontine.rules.complaint import Weight

from .alert import Alert
from .flow import Flow
from .link import Link
from .node import NodeRow
from .share import ShareRow
from .timeline import Epoch


@dataclass(frozen=True, slots=True)
class StatusLine:
    """The first line."""

    database: str
    replica_set: str = ""
    primary: str = ""
    epoch: int = 0
    since: datetime | None = None
    """When this epoch began, if that was seen or recorded."""
    members: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    """Nodes by state; the known states first, unknown ones as they are."""
    backlog: int | None = 0
    """None where nobody counted."""
    rate: float = 0.0
    """Jobs settled per second, over the last ten seconds."""
    seq: int = 0
    """The last number given."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything there is to show at one moment, but for the jobs, which `Board.jobs` lists."""

    at: datetime
    """The moment shown, by the server's clock."""
    is_past: bool
    status: StatusLine
    link: Link
    alerts: tuple[Alert, ...]
    nodes: tuple[NodeRow, ...]
    shares: tuple[ShareRow, ...]
    flow: Flow
    roster: Epoch = field(default_factory=lambda: Epoch(0.0, 0, ()))
    story: str = ""
    """What has just happened, as one tells it."""
    heirloom: tuple[tuple[str, str], ...] = ()
    """The members before this epoch, by id and name, if somebody left then."""
    inherited_for: float | None = None
    """Seconds since they left."""
    survived: tuple[int, int, int] = (0, 0, 0)
    """Deaths that others survived, jobs that they rescued, jobs that were lost."""
    note: str = ""
    """What of this moment is not known: `jobs are kept from 12:01:40 on`."""

    @property
    def members(self) -> tuple[str, ...]:
        return self.roster.members

    @property
    def is_healthy(self) -> bool:
        return all(alert.weight is Weight.NOTICE for alert in self.alerts)
