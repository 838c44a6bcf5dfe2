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

from ..picture.board import Board
from ..query.filters import Filter
from ..query.searching import condition
from ..records.picture import JobList, JobPage
from .feed import Feed
from .jobpage import read_page
from .polls import Looker
from .requests import Phase, Progress, Wish, ask

PAGE_WITHIN = 10.0
SEARCH_DEPTH, FOUND_AT_MOST = 200_000, 5_000


class LiveSource:
    """Everything a screen needs from a store."""

    def __init__(
        self, config: StoreConfig, board: Board, *, looker: Looker | None = None, streams: bool = True
    ) -> None:
        self.board = board
        self.feed = Feed(config, board, streams=streams, looker=looker)

    async def start(self) -> None:
        await self.feed.start()

    async def stop(self) -> None:
        await self.feed.stop()

    async def page(self, seq: int) -> JobPage | None:
        """One job whole, read now."""
        return await self._store.run(hurried(read_page(seq, self.board.clean), PAGE_WITHIN))

    async def search(self, wanted: Filter) -> JobList:
        """Jobs that a filter asks for and that are not in the window; they are added to it."""
        where = condition(wanted, {fact.name: node for node, fact in self.board.lives.facts().items()})
        if where is None:
            return self.board.jobs()
        hello = await self._store.run(hurried(window.greet(), PAGE_WITHIN))
        reading = window.search(where, self.board.seq, SEARCH_DEPTH, FOUND_AT_MOST)
        found = await self._store.run(hurried(reading, PAGE_WITHIN))
        self.board.add_jobs(found, hello.time)
        note = f"among the newest {SEARCH_DEPTH:,} numbers" if self.board.seq > SEARCH_DEPTH else ""
        return replace(self.board.jobs(), note=note)

    async def ask(self, wish: Wish) -> AsyncIterator[Progress]:
        """Pass a request on, and tell what becomes of it."""
        refused = self.board.link.read_only
        if refused:
            yield Progress(Phase.REFUSED, f"read-only: {refused}", failed=len(wish.targets))
            return
        leases = [fact.lease for fact in self.board.lives.facts().values() if not fact.is_dead]
        try:
            async for progress in ask(self._store, wish, self.board.lives.fact, max(leases, default=DEFAULT_LEASE)):
                if progress.phase is Phase.REFUSED:
                    self.board.link = replace(self.board.link, read_only=legible(progress.text, 160))
                yield progress
        except NotPermitted as refusal:
            yield Progress(Phase.REFUSED, legible(refusal, 160), failed=len(wish.targets))

    def hide(self, text: str) -> str:
        """A text without the secrets of the connection."""
        return self.board.clean.redacted(hide(text, self.feed.uri) if self.feed.uri else text)

    @property
    def _store(self) -> AsyncStore:
        if self.feed.store is None:
            raise StoreUnavailable("the store has not been opened yet")
        return self.feed.store
