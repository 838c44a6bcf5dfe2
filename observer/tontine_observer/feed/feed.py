"""(6) The feed: keeps a board true. One change stream, counts to check it by, and an answer to
every way it can fail.

It never gives up and never writes. Losing the stream costs it detail; losing the store, freshness.
Where more happens than anybody can follow it takes samples, so that looking on does not slow down
what it looks at.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from tontine.config import StoreConfig
from tontine.errors import ConfigError, NoStreams, NotPermitted, StoreError, StreamLost
from tontine.legible import legible
from tontine.records.change import Delta
from tontine.store.call import AsyncStore
from tontine.store.connect import is_electing, open_async_store, resolve
from tontine.store.stream import BATCH, Stream

from ..model import intake
from ..picture.board import Board
from ..records.link import ELECTION, Mode
from .link import WATCH_EVERY
from .polls import Polls, nap
from .pressure import Pressure, Thresholds

RETRY_FROM, RETRY_TO = 0.5, 15.0
TAKE_EVERY = 0.05
"""Changes that come meanwhile come together: asking costs more than reading one."""
POLL_EVERY = 2.0
STREAM_AGAIN = 30.0
ENDED_WITHIN = 5.0


class _TooMuch(Exception):
    """More changes than one should follow: they are sampled from here on."""


class Feed:
    """Runs in the loop that started it, until it is stopped; started again, it goes on from where
    it was."""

    def __init__(
        self,
        config: StoreConfig,
        board: Board,
        *,
        streams: bool = True,
        polls: Polls | None = None,
        limits: Thresholds | None = None,
    ) -> None:
        self.board = board
        self.store: AsyncStore | None = None
        self.trouble: Exception | None = None
        """What went wrong last; None when it is all right."""
        self._config = config
        self.uri = config.uri or ""
        """The one in use, with its password; empty until the embedded MongoDB has told its own."""
        self._polls = polls or Polls(board.known)
        self._link = self._polls.link
        self._streams = streams
        self._pressure = Pressure(limits)
        self._token: Any = None
        self._ending = asyncio.Event()
        """The feed ends."""
        self._breaking = asyncio.Event()
        """One of its loops has ended, or the feed ends, so the others do."""
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._ending.clear()
        self._task = asyncio.create_task(self._run(), name="feed")
        self._watching = asyncio.create_task(self._watch(), name="feed watch")

    async def stop(self) -> None:
        """End, after at most the moment that the stream may be quiet."""
        if self._task is not None and self._watching is not None:
            self._ending.set()
            self._breaking.set()
            try:
                await ended(self._task, self._watching)
            finally:
                # Not in the task: cancelled while it closes them, it would leave connections open.
                if self.store is not None:
                    await self.store.database.client.close()
                self._task = self._watching = self.store = None

    def check(self) -> None:
        """Raise what ended the feed, if anything did: it should not end by itself."""
        for task in (self._task, self._watching):
            if task is not None and task.done():
                task.result()

    async def _run(self) -> None:
        pause = RETRY_FROM
        while not self._ending.is_set():
            try:
                store = self.store or await self._open()
                await self._follow(store)
                pause = RETRY_FROM
            except (StoreError, ConfigError) as error:
                # A store that was heard since the last trouble is asked again at once.
                self.trouble = error
                pause = RETRY_FROM if self._link.has_answered() else min(pause * 2, RETRY_TO)
                await self._rest(error, pause)

    async def _watch(self) -> None:
        while not self._ending.is_set():
            await nap(self._ending, WATCH_EVERY)
            self._link.watch(is_electing=self._is_electing())

    def _is_electing(self) -> bool:
        return self.store is not None and is_electing(self.store)

    async def _open(self) -> AsyncStore:
        self.uri = await asyncio.to_thread(resolve, self._config)  # may start the embedded MongoDB
        self.store = open_async_store(replace(self._config, uri=self.uri))
        return self.store

    async def _rest(self, error: Exception, pause: float) -> None:
        pause *= random.uniform(0.8, 1.2)  # noqa: S311
        until = time.monotonic() + pause
        reason = ELECTION if self._is_electing() else legible(error, 160)
        while (left := until - time.monotonic()) > 0 and not self._ending.is_set():
            self._link.show(mode=Mode.STALE, reason=reason, retry_in=left, lag=None)
            await nap(self._ending, min(left, 0.5))
        self._link.show(retry_in=0.0)

    async def _follow(self, store: AsyncStore) -> None:
        """Follow the stream, or look again and again, for as long as that works."""
        if not self._streams:
            await self._poll(store, "started without streams", None)
        try:
            await self._stream(store)
        except StreamLost as lost:
            # The token leads nowhere any more: it must not be tried again.
            self._token = None
            intake.lose(self.board.known, str(lost))
            await nap(self._ending, RETRY_FROM * random.uniform(0.1, 1.0))  # noqa: S311
        except (NoStreams, NotPermitted) as refusal:
            self._token = None
            await self._poll(store, legible(refusal, 160), STREAM_AGAIN)
        except _TooMuch:
            # The stream begins anew after it: going on from here would mean to read all that was
            # left out.
            self._token = None
            await self._sample(store)

    async def _stream(self, store: AsyncStore) -> None:
        hello = await self._polls.greet(store)
        is_new = self._token is None
        # What is at that time is in every reading made after it.
        since = (hello.time[0], hello.time[1] + 1)
        async with Stream(store, since=since, token=self._token) as stream:
            if is_new:
                await self._polls.read_all(store, hello, begin_again=True)
            self.trouble = None
            self._link.heard(mode=Mode.LIVE, reason="", retry_in=None)
            await self._together(
                self._pump(stream), self._polls.keep_checking(store, self._breaking)
            )

    async def _together(self, *loops: Coroutine[Any, Any, None]) -> None:
        """Run loops until one of them ends, or all shall; then end as that one did."""
        if not self._ending.is_set():
            self._breaking.clear()
        tasks = [asyncio.create_task(one) for one in loops]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._breaking.set()
            await ended(*tasks)
        for task in done:
            task.result()

    async def _pump(self, stream: Stream) -> None:
        """Changes from the stream onto the board; while it is busy, the server keeps them."""
        while not self._breaking.is_set():
            deltas = await stream.next()
            self._token = stream.token
            if deltas:
                self._take(deltas)
            else:
                self._link.heard()
            if len(deltas) < BATCH:
                await nap(self._breaking, TAKE_EVERY)
            else:
                await asyncio.sleep(0)  # let the screen have its turn

    def _take(self, deltas: list[Delta]) -> None:
        intake.take(self.board.known, deltas)
        lag = max(0.0, self._link.server_now() - deltas[-1].at)
        self._link.heard(lag=lag)
        if self._pressure.note(len(deltas), deltas[-1].at, lag):
            raise _TooMuch

    async def _sample(self, store: AsyncStore) -> None:
        """Look every two seconds at what is small, and at a page of jobs, until it is calm enough
        to follow all.

        Without a stream: even one of nodes alone makes the server go through every change of every
        job.
        """
        self._pressure.let_go()
        self._show_sampled()  # at once: what is checked by counting follows from it
        is_calm = False
        while not is_calm and not self._ending.is_set():
            hello = await self._polls.greet(store)
            await self._polls.sample(store, hello)
            is_calm = self._pressure.is_calm(hello.at.timestamp(), self.board.known.flowed())
            self._show_sampled()
            await nap(self._ending, POLL_EVERY * random.uniform(0.9, 1.1))  # noqa: S311

    def _show_sampled(self) -> None:
        rate = self._pressure.rate
        reason = (
            f"more than {self._pressure.limits.rate:,.0f} changes a second: jobs are "
            "counted, and some shown"
        )
        self._link.show(mode=Mode.SAMPLED, reason=reason, retry_in=None, lag=None, rate=rate)

    async def _poll(self, store: AsyncStore, reason: str, again: float | None) -> None:
        """Look every two seconds; after `again` seconds the stream is tried once more."""
        until = time.monotonic() + again if again is not None else float("inf")
        while time.monotonic() < until and not self._ending.is_set():
            hello = await self._polls.greet(store)
            await self._polls.read_all(store, hello, polled=True)
            self._link.show(mode=Mode.POLL, reason=reason, retry_in=None, lag=None)
            await nap(self._ending, POLL_EVERY * random.uniform(0.9, 1.1))  # noqa: S311


async def ended(*tasks: asyncio.Task[None]) -> None:
    """Wait for loops that were told to end; one that does not hear of it is cancelled, again and
    again.

    Cancelling at once would leave connections open, and the driver swallows a cancellation at a bad
    moment. Whoever is cancelled while waiting here still sees them end: what they use is closed
    after that.
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
