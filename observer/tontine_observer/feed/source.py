"""What the screen asks of whatever feeds it: a live store or a recording."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from tontine.records.plan_status import StepStatus

from ..picture.shown import Shown
from ..query.filters import RowFilter
from ..records.job import JobPage, LogLine
from ..records.ledger import Ledger
from ..records.pane import Pane
from ..records.plan import PlanPage
from ..records.request import Request, RequestProgress
from ..records.search import SearchProgress


class Source(Protocol):
    """Fills a board for as long as it runs, reads single jobs, and passes on what is asked of nodes
    and jobs."""

    @property
    def board(self) -> Shown: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def page(self, seq: int) -> JobPage | None: ...
    async def plan(self, seq: int | None, id: Any = None) -> PlanPage | None:
        """One plan by its number, or by its `_id` where it has none yet."""
        ...

    async def step_job(self, plan: int, step: StepStatus) -> int | None:
        """The number of the job of a step that one wants to see."""
        ...

    def search(self, wanted: RowFilter, names: Mapping[str, str]) -> AsyncIterator[SearchProgress]:
        """Look for what is too old for the board, and tell how far that has come."""
        ...

    def forget_found(self) -> None: ...
    async def ledger(self, pane: Pane) -> Ledger:
        """What a pane shows that is read only while somebody looks at it."""
        ...

    async def log(self, seq: int) -> tuple[LogLine, ...]:
        """What the task of a job has printed so far."""
        ...

    def ask(self, request: Request) -> AsyncIterator[RequestProgress]: ...
    def hide(self, text: str) -> str:
        """The text without secrets of the connection."""
        ...
