"""The live source: a board that a feed keeps true, single jobs read on demand, and requests passed
on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from tontine.config import StoreConfig
from tontine.errors import NotPermitted, StoreUnavailable
from tontine.legible import legible
from tontine.records.node import DEFAULT_LEASE
from tontine.records.plan_status import StepStatus
from tontine.store import seek, window
from tontine.store.call import AsyncStore
from tontine.store.plans.status import find_job
from tontine.store.read import hurried
from tontine.uri import hide

from ..model import intake
from ..picture.board import Board
from ..query.filters import RowFilter
from ..query.searching import Around, sought
from ..records.job import JobPage, LogLine
from ..records.ledger import Ledger
from ..records.pane import Pane
from ..records.plan import PlanPage
from ..records.request import Phase, Request, RequestProgress
from ..records.search import SearchProgress
from .feed import Feed
from .jobpage import read_log, read_page
from .ledgers import read_ledger
from .plans import PlanRows, read_plan_page
from .polls import Polls
from .requests import ask

PAGE_WITHIN = 10.0
PIECE_WITHIN = 30.0
FOUND_AT_MOST = 1_000
"""Found jobs that come onto the board: as many as can be asked something at once."""


class LiveSource:
    """Everything a screen needs from a store."""

    def __init__(
        self, config: StoreConfig, board: Board, *, polls: Polls | None = None, streams: bool = True
    ) -> None:
        self.board = board
        self.feed = Feed(config, board, streams=streams, polls=polls)
        self._plans = PlanRows(board.known.clean)

    async def start(self) -> None:
        await self.feed.start()

    async def stop(self) -> None:
        await self.feed.stop()

    async def page(self, seq: int) -> JobPage | None:
        """One job whole, read now."""
        return await self._store.run(hurried(read_page(seq, self.board.known.clean), PAGE_WITHIN))

    async def plan(self, seq: int | None, id: Any = None) -> PlanPage | None:
        """One plan whole, its jobs counted now."""
        where = {"_id": id} if seq is None else {"seq": seq}
        clean = self.board.known.clean
        return await self._store.run(hurried(read_plan_page(where, clean), PAGE_WITHIN))

    async def step_job(self, plan: int, step: StepStatus) -> int | None:
        return await self._store.run(hurried(find_job(plan, step), PAGE_WITHIN))

    async def search(
        self, wanted: RowFilter, names: Mapping[str, str]
    ) -> AsyncIterator[SearchProgress]:
        """Look for what a filter asks for, a piece at a time, however many jobs there are; the
        newest of them come onto the board."""
        known = self.board.known
        hello = await self._store.run(hurried(window.greet(), PIECE_WITHIN))
        tasks = {row.task for row in self.board.jobs().rows}
        around = Around(hello.at, names, len(known.roster.members), known.roster.lanes_of(tasks))
        asked = sought(wanted, around)
        begun = seek.begin(asked.where, asked.meant, asked.numbers)
        going = await self._store.run(hurried(begun, PIECE_WITHIN))
        listed = 0
        while not going.is_over:
            room = FOUND_AT_MOST - listed if listed == going.found else 0
            some = await self._store.run(hurried(seek.go_on(going, room), PIECE_WITHIN))
            listed += len(some)
            intake.add_found(known, some, hello.time)
            yield SearchProgress(
                wanted.text,
                hello.at,
                going.looked,
                going.total,
                going.found,
                listed,
                going.is_over,
            )

    async def ledger(self, pane: Pane) -> Ledger:
        if pane is Pane.PLANS:
            return await self._plans.read(self._store)
        return await read_ledger(self._store, self.board, pane)

    async def log(self, seq: int) -> tuple[LogLine, ...]:
        return await self._store.run(hurried(read_log(seq, self.board.known.clean), PAGE_WITHIN))

    def forget_found(self) -> None:
        intake.forget_found(self.board.known)

    async def ask(self, request: Request) -> AsyncIterator[RequestProgress]:
        """Pass a request on, and tell what becomes of it."""
        known = self.board.known
        if known.link.read_only:
            yield RequestProgress(
                Phase.REFUSED, f"read-only: {known.link.read_only}", failed=len(request.targets)
            )
            return
        leases = [fact.lease for fact in known.lives.facts().values() if not fact.is_dead]
        lease = max(leases, default=DEFAULT_LEASE)
        try:
            async for progress in ask(self._store, request, known.lives.fact, lease):
                if progress.phase is Phase.REFUSED:
                    known.link = replace(known.link, read_only=legible(progress.text, 160))
                yield progress
        except NotPermitted as refusal:
            yield RequestProgress(Phase.REFUSED, legible(refusal, 160), failed=len(request.targets))

    def hide(self, text: str) -> str:
        """A text without the secrets of the connection."""
        return self.board.known.clean.redacted(hide(text, self.feed.uri) if self.feed.uri else text)

    @property
    def _store(self) -> AsyncStore:
        if self.feed.store is None:
            raise StoreUnavailable("the store has not been opened yet")
        return self.feed.store
