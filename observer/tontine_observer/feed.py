"""(6) The feed: keeps a board true. One change stream, counts to check it by, and an answer to every way it can fail.

It never gives up and never writes. Losing the stream costs it detail; losing the store, freshness.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from tontine.config import StoreConfig
from tontine.delta import Delta
from tontine.errors import ConfigError, NoStreams, NotPermitted, StoreError, StreamLost
from tontine.legible import legible
from tontine.store.call import AsyncStore
from tontine.store.connect import open_async_store
from tontine.store.stream import Stream

from .board import Board
from .looker import Looker, nap
from .picture import Mode

RETRY_FROM, RETRY_TO = 0.5, 15.0
TAKE_EVERY = 0.05
POLL_EVERY = 2.0
STREAM_AGAIN = 30.0
QUEUE_KEPT = 20_000
ENDED_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How late changes may be, in seconds, before something is done about it."""

    behind: float = 5.0
    """From here on jobs are only counted."""
    far_behind: float = 15.0
    """From here on they are not even read."""
    caught_up: float = 1.0
    again: float = 30.0
    """After so long, if it has caught up, it is tried again."""


class _Overrun(Exception):
    """Even counting is too slow: the stream is opened again without jobs, or with them."""


class Feed:
    """Runs in the loop that started it, until it is stopped; started again, it goes on from where it was."""

    def __init__(
        self,
        config: StoreConfig,
        board: Board,
        *,
        streams: bool = True,
        looker: Looker | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.board = board
        self.store: AsyncStore | None = None
        self.trouble: Exception | None = None
        """What went wrong last; None when it is all right."""
        self._config = config
        self._looker = looker or Looker(board)
        self._streams = streams
        self._patience = patience or Patience()
        self._token: Any = None
        self._with_jobs = True
        self._queue: deque[Delta] = deque()
        self._has_room = asyncio.Event()
        self._ending = asyncio.Event()
        """The feed ends."""
        self._breaking = asyncio.Event()
        """One of its loops has ended, so the others do."""
        self._task: asyncio.Task[None] | None = None
        self._behind_since: float | None = None
        self._sampled_at = 0.0

    async def start(self) -> None:
        self._ending.clear()
        self._task = asyncio.create_task(self._run(), name="feed")

    async def stop(self) -> None:
        """End, after at most the moment that the stream may be quiet."""
        if self._task is not None:
            self._ending.set()
            await ended(self._task)
            self._task = None

    def check(self) -> None:
        """Raise what ended the feed, if anything did: it should not end by itself."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def _run(self) -> None:
        pause = RETRY_FROM
        try:
            while not self._ending.is_set():
                try:
                    store = self.store or await self._open()
                    await self._follow(store)
                    pause = RETRY_FROM
                except (StoreError, ConfigError) as error:
                    # A store that was heard since the last trouble is asked again at once.
                    self.trouble = error
                    pause = RETRY_FROM if self._looker.was_heard() else min(pause * 2, RETRY_TO)
                    await self._rest(error, pause)
        finally:
            if self.store is not None:
                await self.store.database.client.close()
                self.store = None

    async def _open(self) -> AsyncStore:
        self.store = await asyncio.to_thread(open_async_store, self._config)
        return self.store

    async def _rest(self, error: Exception, pause: float) -> None:
        pause *= random.uniform(0.8, 1.2)  # noqa: S311
        until = time.monotonic() + pause
        reason = legible(error, 160)
        while (left := until - time.monotonic()) > 0 and not self._ending.is_set():
            self._looker.show(mode=Mode.STALE, reason=reason, retry_in=left, lag=None)
            await nap(self._ending, min(left, 0.5))
        self._looker.show(retry_in=0.0)

    async def _follow(self, store: AsyncStore) -> None:
        """Follow the stream, or poll, for as long as that works."""
        if not self._streams:
            await self._poll(store, "started without streams", None)
        try:
            await self._stream(store)
        except StreamLost as lost:
            # The token leads nowhere any more: it must not be tried again.
            self._token = None
            self.board.lose(str(lost))
            self._queue.clear()
            await nap(self._ending, RETRY_FROM * random.uniform(0.1, 1.0))  # noqa: S311
        except (NoStreams, NotPermitted) as refusal:
            self._token = None
            await self._poll(store, legible(refusal, 160), STREAM_AGAIN)
        except _Overrun:
            self._with_jobs = not self._with_jobs

    async def _stream(self, store: AsyncStore) -> None:
        hello = await self._looker.greet(store)
        is_new = self._token is None
        # What is at that time is in every reading made after it.
        since = (hello.time[0], hello.time[1] + 1)
        async with Stream(store, since=since, token=self._token, jobs=self._with_jobs) as stream:
            if is_new or not self._with_jobs:
                await self._looker.look(store, hello, begin_again=is_new)
            self._show_live()
            await self._together(
                self._pump(stream), self._drain(store), self._looker.keep_looking(store, self._breaking)
            )

    async def _together(self, *loops: Coroutine[Any, Any, None]) -> None:
        """Run loops until one of them ends, or all shall; then end as that one did."""
        self._breaking.clear()
        tasks = [asyncio.create_task(one) for one in loops]
        tasks.append(asyncio.create_task(self._end_with_feed()))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._breaking.set()
            await ended(*tasks)
        for task in done:
            task.result()

    async def _end_with_feed(self) -> None:
        await self._ending.wait()

    def _show_live(self) -> None:
        self.trouble = None
        if self._with_jobs:
            self._looker.show(mode=Mode.LIVE, reason="", retry_in=None)
        else:
            self._sampled_at = time.monotonic()
            self._looker.show(mode=Mode.SAMPLED, reason="more changes than can be read: jobs are only counted")

    async def _pump(self, stream: Stream) -> None:
        """Changes from the stream into the queue; a full queue makes the server wait."""
        while not self._breaking.is_set():
            delta = await stream.next()
            self._token = stream.token
            if delta is not None:
                self._queue.append(delta)
            else:
                self._looker.heard()
            if len(self._queue) > QUEUE_KEPT:
                self._has_room.clear()
                await nap(self._has_room, 1.0)

    async def _drain(self, store: AsyncStore) -> None:
        """The queue onto the board, a burst at a time."""
        while not self._breaking.is_set():
            await nap(self._breaking, TAKE_EVERY)
            if self._queue:
                self._take([self._queue.popleft() for _ in range(len(self._queue))])
                self._has_room.set()
            await self._keep_pace(store)

    def _take(self, deltas: list[Delta]) -> None:
        self._looker.heard()
        is_sampled = self.board.link.mode is Mode.SAMPLED
        self.board.take(deltas, folded=is_sampled)
        lag = max(0.0, self._looker.server_now() - deltas[-1].at)
        folded = self.board.link.folded + len(deltas) if is_sampled else 0
        self._looker.show(lag=lag, behind=len(self._queue), folded=folded)

    async def _keep_pace(self, store: AsyncStore) -> None:
        """Fold when behind for long, leave jobs out when that is not enough, and take them in again when it is calm."""
        lag, now = self.board.link.lag or 0.0, time.monotonic()
        if self.board.link.mode is Mode.LIVE:
            self._behind_since = None if lag <= self._patience.behind else self._behind_since or now
            if self._behind_since is not None and now - self._behind_since > 1.0:
                self._sampled_at = now
                self._looker.show(mode=Mode.SAMPLED, reason="more changes than can be taken in: jobs are only counted")
        elif self.board.link.mode is Mode.SAMPLED:
            if self._with_jobs and lag > self._patience.far_behind and now - self._sampled_at > 5.0:
                raise _Overrun
            if now - self._sampled_at > self._patience.again and lag < self._patience.caught_up:
                if not self._with_jobs:
                    raise _Overrun
                self._behind_since = None
                await self._looker.read_jobs(store)
                self._show_live()

    async def _poll(self, store: AsyncStore, reason: str, again: float | None) -> None:
        """Look every two seconds; after `again` seconds the stream is tried once more."""
        until = time.monotonic() + again if again is not None else float("inf")
        while time.monotonic() < until and not self._ending.is_set():
            hello = await self._looker.greet(store)
            await self._looker.look(store, hello, polled=True)
            self._looker.show(mode=Mode.POLL, reason=reason, retry_in=None, lag=None)
            await nap(self._ending, POLL_EVERY * random.uniform(0.9, 1.1))  # noqa: S311


async def ended(*tasks: asyncio.Task[None]) -> None:
    """Wait for loops that were told to end; one that does not hear of it is cancelled, again and again.

    Cancelling at once would leave connections open, and the driver swallows a cancellation at a bad moment. Whoever is
    cancelled while waiting here still sees them end: what they use is closed after that.
    """
    pending, patience = set(tasks), ENDED_WITHIN
    cancelled: asyncio.CancelledError | None = None
    while pending:
        try:
            _, pending = await asyncio.wait(pending, timeout=patience)
        except asyncio.CancelledError as error:
            cancelled = error
        patience = 0.5
        for task in pending:
            task.cancel()
    for task in tasks:
        if not task.cancelled():
            task.exception()  # heard of, or else asyncio complains
    if cancelled is not None:
        raise cancelled
