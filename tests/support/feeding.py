"""A feed on a real store, for the length of a test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tontine.config import StoreConfig
from tontine_observer.feed.feed import Feed
from tontine_observer.feed.polls import Polls
from tontine_observer.picture.board import Board
from tontine_observer.records.link import Mode


@asynccontextmanager
async def feeding(
    uri: str,
    database: str,
    *,
    streams: bool = True,
    mode: Mode | None = Mode.LIVE,
    answer_within: float = 10.0,
) -> AsyncIterator[Feed]:
    """A feed that has reached a mode."""
    board = Board(database)
    polls = Polls(board.known, answer_within=answer_within)
    feed = Feed(StoreConfig(uri, database), board, streams=streams, polls=polls)
    await feed.start()
    try:
        if mode is not None:
            await until(lambda: board.link.mode is mode, f"{mode}; it is {board.link}")
        yield feed
        feed.check()
    finally:
        await feed.stop()


async def until(check: Callable[[], Any], what: str = "", within: float = 60.0) -> Any:
    """The first true answer of `check`, asked in the loop that the feed runs in."""
    deadline = time.monotonic() + within
    while not (answer := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what or check}")
        await asyncio.sleep(0.02)
    return answer


def states(feed: Feed) -> dict[int | None, str]:
    """The states of the jobs on the board, by seq."""
    return {row.seq: row.state for row in feed.board.jobs().rows}
