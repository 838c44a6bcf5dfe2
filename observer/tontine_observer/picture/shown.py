"""What a screen asks of a board. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from ..records.change import Change, ChangeKind
from ..records.job import JobList
from ..records.link import Link
from ..records.pane import Pane
from ..records.picture import Picture
from ..records.timeline import Timeline


class Shown(Protocol):
    """A board, or what stands in its place."""

    has_cells: bool

    @property
    def link(self) -> Link: ...
    def picture(self, at: datetime | None = None) -> Picture: ...
    def jobs(self, at: datetime | None = None) -> JobList: ...
    def changes(
        self,
        kinds: Collection[ChangeKind] | None = None,
        limit: int = 500,
        until: datetime | None = None,
    ) -> tuple[Change, ...]: ...
    def timeline(self, start: datetime, step: float, columns: int) -> Timeline: ...
    def next_change(
        self, after: datetime, back: bool = False, epochs: bool = False
    ) -> datetime | None: ...
    def differences(self, first: datetime, second: datetime) -> tuple[str, ...]: ...
    def oldest(self) -> datetime: ...
    def now(self) -> datetime: ...
    def generation(self, pane: Pane) -> int: ...
