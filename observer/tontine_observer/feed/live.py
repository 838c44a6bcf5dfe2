"""The live source: a board that a feed keeps true, single jobs read on demand, and requests passed on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from tontine.config import StoreConfig
from tontine.errors import NotPermitted, StoreUnavailable
from tontine.legible import legible
from tontine.records.node import DEFAULT_LEASE
from tontine.store import window
from tontine.store.call import AsyncStore
from tontine.store.look import hurried
from tontine.uri import hide

from ..model import intake
from ..picture.board import Board
from ..query.filters import Filter
from ..query.searching import condition
from ..records.job import JobList, JobPage
from ..records.request import Phase, Progress, Request
from .feed import Feed
from .jobpage import read_page
from .polls import Polls
from .requests import ask

PAGE_WITHIN = 10.0
SEARCH_DEPTH, FOUND_AT_MOST = 200_000, 5_000


class LiveSource:
    """Everything a screen needs from a store."""

    def __init__(self, config: StoreConfig, board: Board, *, polls: Polls | None = None, streams: bool = True) -> None:
        self.board = board
        self.feed = Feed(config, board, streams=streams, polls=polls)

    async def start(self) -> None:
        await self.feed.start()

    async def stop(self) -> None:
        await self.feed.stop()

    async def page(self, seq: int) -> JobPage | None:
        """One job whole, read now."""
        return await self._store.run(hurried(read_page(seq, self.board.known.clean), PAGE_WITHIN))

    async def search(self, wanted: Filter) -> JobList:
        """Jobs that a filter asks for and that are not in the window; they are added to it."""
        where = condition(wanted, {fact.name: node for node, fact in self.board.known.lives.facts().items()})
        if where is None:
            return self.board.jobs()
        hello = await self._store.run(hurried(window.greet(), PAGE_WITHIN))
        reading = window.search(where, self.board.known.seq, SEARCH_DEPTH, FOUND_AT_MOST)
        found = await self._store.run(hurried(reading, PAGE_WITHIN))
        intake.add_jobs(self.board.known, found, hello.time)
        note = f"among the newest {SEARCH_DEPTH:,} numbers" if self.board.known.seq > SEARCH_DEPTH else ""
        return replace(self.board.jobs(), note=note)

    async def ask(self, request: Request) -> AsyncIterator[Progress]:
        """Pass a request on, and tell what becomes of it."""
        refused = self.board.link.read_only
        if refused:
            yield Progress(Phase.REFUSED, f"read-only: {refused}", failed=len(request.targets))
            return
        leases = [fact.lease for fact in self.board.known.lives.facts().values() if not fact.is_dead]
        try:
            async for progress in ask(
                self._store, request, self.board.known.lives.fact, max(leases, default=DEFAULT_LEASE)
            ):
                if progress.phase is Phase.REFUSED:
                    self.board.known.link = replace(self.board.link, read_only=legible(progress.text, 160))
                yield progress
        except NotPermitted as refusal:
            yield Progress(Phase.REFUSED, legible(refusal, 160), failed=len(request.targets))

    def hide(self, text: str) -> str:
        """A text without the secrets of the connection."""
        return self.board.known.clean.redacted(hide(text, self.feed.uri) if self.feed.uri else text)

    @property
    def _store(self) -> AsyncStore:
        if self.feed.store is None:
            raise StoreUnavailable("the store has not been opened yet")
        return self.feed.store
