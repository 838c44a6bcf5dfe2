"""Looks at the store beside the stream: the whole at first, counts to check by, and what may be read and asked.

Counting reads what it counts: the longer it takes, the less often it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tontine.clock import wall_time
from tontine.diagnose.doctor import read as checkup
from tontine.errors import NotPermitted, StoreError, StoreUnavailable
from tontine.legible import legible
from tontine.records.roster import Roster
from tontine.records.states import OPEN
from tontine.store import events, look, window
from tontine.store.call import AsyncStore, Steps
from tontine.store.look import hurried

from ..picture.board import Board
from ..records.picture import ELECTION, Link, Mode, Pane
from ..records.snapshot import Snapshot, Window
from .past import BACKFILL_FOR, fill
from .reading import known_tasks, read_truth, read_window, server_of, version_of

T = TypeVar("T")

GREET_EVERY = 5.0
COUNT_EVERY, COUNT_POLLED_EVERY, COUNT_SAMPLED_EVERY, COUNT_ALL_EVERY = 5.0, 2.0, 30.0, 60.0
COUNT_IDLE_EVERY = 30.0
"""While nothing was heard of any job, what was counted last can hardly have changed."""
WINDOW_EVERY = 4.0
RIGHTS_EVERY = 60.0
COUNT_SHARE, WINDOW_SHARE = 100, 20
"""Counting, and reading the list of jobs, takes at most one part in so many of the time: the server is as busy."""
ALL_COUNT_WITHIN = 60.0
EVENTS_OVERLAP = timedelta(seconds=10)
"""Events may become visible this much later than their time says: so much is read twice."""
EVENTS_AT_ONCE = 500
WATCH_EVERY = 0.5
ELECTION_AFTER, SILENT_AFTER, SILENT_POLLED_AFTER = 1.0, 3.0, 6.0
"""How long nothing may be heard until that is said. A stream says something twice a second; who polls pauses."""
_PARTS = ("nodes", "cluster", "jobs")


class Looker:
    """What the feed sees with its own eyes, and what it says about how well it sees."""

    def __init__(
        self, board: Board, *, answer_within: float = 10.0, read_only: str = "", since: float = BACKFILL_FOR
    ) -> None:
        self.board = board
        self._within = answer_within
        self._forced = read_only
        self._since = since
        self._heard = 0.0
        self._shown_heard = False
        self._silent_rounds = 0
        self._doubted: Link | None = None
        """What the link said before nothing was heard for too long."""
        self._due: dict[str, float] = {}
        self._tasks: list[str] = []
        self._refused: dict[str, str] = {}
        self._is_filled = False
        self._filled_until: datetime | None = None
        self._events_from: datetime | None = None
        self._events_seen: set[str] = set()
        self._counted = -1
        """The generation of jobs at the last count."""
        if read_only:
            self.show(read_only=read_only)

    # What is said about it

    def show(self, **facts: Any) -> None:
        """Change what the board's link says."""
        if "mode" in facts:
            self._doubted = None
        age = time.monotonic() - self._heard if self._heard else 0.0
        self.board.link = replace(self.board.link, age=age, refused=dict(self._refused), **facts)

    def heard(self, **facts: Any) -> None:
        """The store answered just now, and with more than a greeting: that also who may not read gets."""
        self._heard = time.monotonic()
        self._shown_heard = True
        self._silent_rounds = 0
        self.board.hear(self.server_now())
        if self._doubted is not None:
            facts = {"mode": self._doubted.mode, "reason": self._doubted.reason} | facts
        self.show(**facts)

    def watch(self, *, is_electing: bool) -> None:
        """Say when nothing was heard for too long, although no call has failed yet; called every `WATCH_EVERY`.

        Counted in rounds: a machine that slept has not heard anything either, and its store is in order.
        """
        self._silent_rounds += 1
        silent, link = self._silent_rounds * WATCH_EVERY, self.board.link
        limit = SILENT_AFTER if link.mode is Mode.LIVE else SILENT_POLLED_AFTER
        if link.is_fresh and silent >= (ELECTION_AFTER if is_electing else limit):
            self.show(mode=Mode.STALE, reason=ELECTION if is_electing else "", retry_in=None, lag=None)
            self._doubted = link
        elif link.mode is Mode.STALE:
            self.show()

    def was_heard(self) -> bool:
        """Whether the store has answered since this was asked last."""
        was, self._shown_heard = self._shown_heard, False
        return was

    def server_now(self) -> float:
        return wall_time() - self.board.link.ahead

    # What is asked

    async def greet(self, store: AsyncStore) -> window.Hello:
        """Who answers, and how its clock differs from ours."""
        before = wall_time()
        hello = await self._run(store, window.greet())
        ahead = (before + wall_time()) / 2 - hello.at.timestamp()
        is_first = not self._heard
        # The round trip blurs it: small differences are noise, and would make ages tremble.
        if is_first or abs(ahead - self.board.link.ahead) > 0.05:
            self.show(ahead=ahead)
        self.board.server = server_of(hello)
        if self._is_due("rights", RIGHTS_EVERY):
            await self._check_rights(store)
        return hello

    async def _check_rights(self, store: AsyncStore) -> None:
        if self._forced:
            return
        try:
            may = await self._run(store, checkup.may_change(self.board.database, "nodes"))
        except StoreUnavailable:
            raise
        except StoreError:
            return  # it does not tell: the first refusal will
        self.show(read_only="" if may else "this database user may only read")

    async def look(
        self, store: AsyncStore, hello: window.Hello, *, begin_again: bool = False, polled: bool = False
    ) -> None:
        """Look at everything, and take it onto the board."""
        nodes = await self._part(store, "nodes", look.read_nodes(), [])
        roster, seq = await self._part(store, "cluster", look.read_cluster(), (Roster(), 0))
        self._tasks = known_tasks(nodes)
        # Who polls goes on from the last count by what nodes tell, and counts again when that is due.
        counts = {} if polled else await self._part(store, "jobs", window.count_open(), {})
        jobs = Window(is_known=False, is_complete=False)
        is_all_refused = self._refused.keys() >= {"nodes", "cluster"}  # unless jobs may be read
        if not polled or is_all_refused or self._is_due("window", WINDOW_EVERY):
            reading = self._part(store, "jobs", read_window(self._tasks), jobs)
            jobs = await self._timed("window", reading, WINDOW_EVERY, WINDOW_SHARE)
        told = await self._news(store, hello) if polled else []
        if self._refused.keys() >= set(_PARTS):
            raise NotPermitted(next(iter(self._refused.values())))
        if begin_again:
            self.board.begin_again()
        snapshot = Snapshot(
            at=hello.at,
            nodes=nodes,
            roster=roster,
            seq=seq,
            counts=counts,
            events=told,
            window=jobs,
            version=version_of(hello),
            server=server_of(hello),
        )
        self.board.load(snapshot, polled=polled)
        self._filled_until = self._filled_until or hello.at
        if polled:
            await self._check(store, hello)
        else:
            self._due.pop("count", None)
            self._due["refill"] = time.monotonic() + COUNT_EVERY

    async def sample(self, store: AsyncStore, hello: window.Hello) -> None:
        """Look at what is small, and at a page of jobs; how many there are follows from what nodes count themselves."""
        # The roster first: a member whose record is not there yet would look like one that is missing.
        roster, seq = await self._part(store, "cluster", look.read_cluster(), (Roster(), 0))
        nodes = await self._part(store, "nodes", look.read_nodes(), [])
        self._tasks = known_tasks(nodes)
        page = await self._part(store, "jobs", window.read_page(), [])
        # Who numbers jobs on its own does not tell the counter.
        seq = max(seq, *(number for one in page if isinstance(number := one.get("seq"), int)), 0)
        snapshot = Snapshot(
            at=hello.at,
            nodes=nodes,
            roster=roster,
            seq=seq,
            counts={},
            events=await self._news(store, hello),
            window=Window(page, is_complete=False, known_from=seq + 1),
            version=version_of(hello),
            server=server_of(hello),
        )
        self.board.load(snapshot, polled=True)
        await self._check(store, hello)

    async def _news(self, store: AsyncStore, hello: window.Hello) -> list[dict[str, Any]]:
        """The events since the last time: what nodes and rosters went through between two looks is among them."""
        first = (self._events_from or hello.at) - EVENTS_OVERLAP
        found = await self._part(store, "events", events.after(first, EVENTS_AT_ONCE), [])
        news = [one for one in found if repr(one["_id"]) not in self._events_seen]
        self._events_seen = {repr(one["_id"]) for one in found}
        # Of more than are read at once, the rest comes the next time.
        is_all = len(found) < EVENTS_AT_ONCE
        self._events_from = hello.at if is_all else found[-1]["at"] + EVENTS_OVERLAP
        return news

    async def read_jobs(self, store: AsyncStore) -> None:
        """Read the window of jobs again."""
        hello = await self.greet(store)
        jobs = await self._part(store, "jobs", read_window(self._tasks), Window(is_known=False))
        if jobs.is_known:
            self.board.read_window(jobs, version_of(hello))

    async def keep_looking(self, store: AsyncStore, ending: asyncio.Event) -> None:
        """Beside the stream: who is primary, and whether what was counted from changes is true."""
        hello = await self.greet(store)
        while not ending.is_set():
            await self._check(store, hello)
            await nap(ending, GREET_EVERY)
            hello = await self.greet(store)
            self._events_from = hello.at

    async def _check(self, store: AsyncStore, hello: window.Hello) -> None:
        if self._filled_until is not None and not self._is_filled:
            self._is_filled = True
            await fill(self.board, store, self._filled_until, self._since)
        mode = self.board.link.mode
        every = {Mode.SAMPLED: COUNT_SAMPLED_EVERY, Mode.POLL: COUNT_POLLED_EVERY}.get(mode, COUNT_EVERY)
        if self._has_news(mode) and self._is_due("count", every):
            await self._timed("count", self._count(store, hello), every)
        if mode is Mode.SAMPLED:
            pass  # what is under load is neither read as a whole nor counted as a whole
        elif self._is_due("all", COUNT_ALL_EVERY):
            await self._timed("all", self._count_all(store), COUNT_ALL_EVERY)
        elif mode is Mode.LIVE and not self.board.jobs_table.is_complete and self._is_due("refill", COUNT_EVERY):
            await self._timed("refill", self.read_jobs(store), COUNT_EVERY)
        if self._refused and self._is_due("refused", COUNT_EVERY):
            await self._regain(store)

    def _has_news(self, mode: Mode) -> bool:
        """Whether a count could find anything but what the last one found."""
        is_quiet = mode is Mode.LIVE and self.board.generation(Pane.JOBS) == self._counted
        return not is_quiet or self._is_due("idle count", COUNT_IDLE_EVERY)

    async def _count(self, store: AsyncStore, hello: window.Hello) -> None:
        self._counted = self.board.generation(Pane.JOBS)
        self._due["idle count"] = time.monotonic() + COUNT_IDLE_EVERY
        is_followed = self.board.link.mode is not Mode.SAMPLED
        spread = is_followed and not self.board.jobs_table.is_complete
        reading = read_truth(self._tasks, version_of(hello), hello.at, spread=spread)
        found = await self._part(store, "jobs", reading, None)
        if found is not None:
            self.board.count(found[0])
            self.board.see_roster(found[1], hello.at.timestamp(), version_of(hello))
        self._tasks = sorted(
            {task for fact in self.board.lives.facts().values() if not fact.is_dead for task in fact.tasks}
        )

    async def _count_all(self, store: AsyncStore) -> None:
        """Count finished jobs too, which reads them all; if that takes too long, they stay uncounted."""
        with self.board.tally.counting() as take:
            hello = await self.greet(store)
            try:
                counts = await self._count_states(store, hello)
            except StoreError:
                return  # a store that is away is noticed by those who wait for less
            ended = {state: number for state, number in counts.items() if state not in OPEN}
            take(ended, version_of(hello), hello.at.timestamp())

    async def _count_states(self, store: AsyncStore, hello: window.Hello) -> dict[str, int]:
        """As of the greeting, if the server can look back."""
        if hello.time != (0, 0):
            try:
                return await store.run(hurried(look.count_states(hello.time), ALL_COUNT_WITHIN))
            except StoreUnavailable:
                raise
            except StoreError:
                pass  # it keeps no history
        return await store.run(hurried(look.count_states(), ALL_COUNT_WITHIN))

    async def _regain(self, store: AsyncStore) -> None:
        """What could not be read may be readable again."""
        refused = set(self._refused)
        if "nodes" in refused:
            await self._part(store, "nodes", look.read_nodes(dead=False), [])
        if "events" in refused:
            await self._part(store, "events", events.latest(1), [])
        if refused - set(self._refused):
            # Not from the beginning: changes that the stream has told meanwhile must not be forgotten.
            await self.look(store, await self.greet(store))

    # How it is asked

    async def _run(self, store: AsyncStore, steps: Steps[T]) -> T:
        return await store.run(hurried(steps, self._within))

    async def _part(self, store: AsyncStore, name: str, steps: Steps[T], otherwise: T) -> T:
        """One part of a look; a part that may not be read is told, and the others go on."""
        try:
            answer = await self._run(store, steps)
        except StoreUnavailable:
            raise
        except NotPermitted as refusal:
            self._refused[name] = legible(refusal, 160)
            return otherwise
        except StoreError as error:
            if name in _PARTS:
                raise
            self._refused[name] = legible(error, 160)
            return otherwise
        self._refused.pop(name, None)
        self.heard()
        return answer

    def _is_due(self, what: str, every: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True

    async def _timed(self, what: str, work: Any, every: float, share: float = COUNT_SHARE) -> Any:
        began = time.monotonic()
        answer = await work
        took = time.monotonic() - began
        self._due[what] = time.monotonic() + max(every, share * took)
        return answer


async def nap(ending: asyncio.Event, seconds: float) -> None:
    """Sleep, but not through an end."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ending.wait(), seconds)
