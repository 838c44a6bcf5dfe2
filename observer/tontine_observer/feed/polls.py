"""Reads the store beside the stream: the whole at first, counts to check by, and what may be read
and asked.

Counting reads what it counts: the longer it takes, the less often it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tontine.clock import wall_time
from tontine.diagnose.doctor import read as checkup
from tontine.errors import NotPermitted, StoreError, StoreUnavailable
from tontine.legible import legible
from tontine.records.roster import Roster
from tontine.records.states import FINAL, OPEN, JobState
from tontine.store import events, read, window
from tontine.store.call import AsyncStore, Operation
from tontine.store.read import hurried

from ..model import intake
from ..model.known import Known
from ..records.link import Mode
from ..records.pane import Pane
from ..records.snapshot import Snapshot, Window
from .agenda import Agenda
from .link import LinkKeeper
from .past import BACKFILL_FOR, fill
from .reading import known_tasks, read_truth, read_window, server_of, version_of

T = TypeVar("T")

GREET_EVERY = 5.0
COUNT_EVERY, COUNT_ALL_EVERY = 5.0, 60.0
COUNT_EVERY_WHILE = {Mode.POLL: 2.0, Mode.SAMPLED: 30.0}
COUNT_IDLE_EVERY = 30.0
"""While nothing was heard of any job, what was counted last can hardly have changed."""
WINDOW_EVERY = 4.0
RIGHTS_EVERY = 60.0
COUNT_PART, WINDOW_PART = 100, 20
"""Counting, and reading the list of jobs, takes at most one part in so many of the time: the server
is as busy."""
ALL_COUNT_WITHIN = 60.0
EVENTS_OVERLAP = timedelta(seconds=10)
"""Events may become visible this much later than their time says: so much is read twice."""
EVENTS_AT_ONCE = 500
_PARTS = ("nodes", "cluster", "jobs")


class Polls:
    """Reads and counts what a stream does not tell, part by part, each as often as it is worth."""

    def __init__(
        self,
        known: Known,
        *,
        answer_within: float = 10.0,
        read_only: str = "",
        since: float = BACKFILL_FOR,
    ) -> None:
        self.known = known
        self.link = LinkKeeper(known)
        self.agenda = Agenda()
        self._within = answer_within
        self._forced = read_only
        self._since = since
        self._tasks: list[str] = []
        self._is_filled = False
        self._filled_until: datetime | None = None
        self._events_from: datetime | None = None
        self._events_seen: set[str] = set()
        self._counted = -1
        """The generation of jobs at the last count."""
        if read_only:
            self.link.show(read_only=read_only)

    async def greet(self, store: AsyncStore) -> window.Greeting:
        """Who answers, and how its clock differs from ours."""
        before = wall_time()
        hello = await self._run(store, window.greet())
        ahead = (before + wall_time()) / 2 - hello.at.timestamp()
        # The round trip blurs it: small differences are noise, and would make ages tremble.
        if not self.link.was_ever_heard or abs(ahead - self.known.link.ahead) > 0.05:
            self.link.show(ahead=ahead)
        self.known.server = server_of(hello)
        if self.agenda.is_due("rights", RIGHTS_EVERY):
            await self._check_rights(store)
        return hello

    async def _check_rights(self, store: AsyncStore) -> None:
        if self._forced:
            return
        try:
            may = await self._run(store, checkup.may_change(self.known.database, "nodes"))
        except StoreUnavailable:
            raise
        except StoreError:
            return  # it does not tell: the first refusal will
        self.link.show(read_only="" if may else "this database user may only read")

    async def read_all(
        self,
        store: AsyncStore,
        hello: window.Greeting,
        *,
        begin_again: bool = False,
        polled: bool = False,
    ) -> None:
        """Read everything, and take it in."""
        nodes = await self._part(store, "nodes", read.read_nodes(), [])
        roster, seq = await self._part(store, "cluster", read.read_cluster(), (Roster(), 0))
        self._tasks = known_tasks(nodes)
        # Who polls goes on from the last count by what nodes tell, and counts again when that is
        # due.
        counts = {} if polled else await self._part(store, "jobs", window.count_open(), {})
        jobs = Window(is_known=False, is_complete=False)
        is_all_refused = self.link.refused.keys() >= {"nodes", "cluster"}  # unless jobs may be read
        if not polled or is_all_refused or self.agenda.is_due("window", WINDOW_EVERY):
            reading = self._part(store, "jobs", read_window(self._tasks), jobs)
            jobs = await self.agenda.timed("window", reading, WINDOW_EVERY, WINDOW_PART)
        told = await self._news(store, hello) if polled else []
        if self.link.refused.keys() >= set(_PARTS):
            raise NotPermitted(next(iter(self.link.refused.values())))
        if begin_again:
            intake.begin_again(self.known)
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
        intake.load(self.known, snapshot, polled=polled)
        self._filled_until = self._filled_until or hello.at
        if polled:
            await self.check(store, hello)
        else:
            self.agenda.hurry("count")
            self.agenda.put_off("refill", COUNT_EVERY)

    async def sample(self, store: AsyncStore, hello: window.Greeting) -> None:
        """Look at what is small, and at a page of jobs; how many there are follows from what nodes
        count themselves."""
        # The roster first: a member whose record is not there yet would look like one that is
        # missing.
        roster, seq = await self._part(store, "cluster", read.read_cluster(), (Roster(), 0))
        nodes = await self._part(store, "nodes", read.read_nodes(), [])
        self._tasks = known_tasks(nodes)
        page = await self._part(store, "jobs", window.read_page(), [])
        if page and not any(one.get("state") in FINAL for one in page):
            # A long queue: what ended lately comes before as many as are unfinished.
            counts = self.known.tally.counts
            first = seq - counts[JobState.QUEUED] - counts[JobState.WORKING]
            passed = window.read_passed([first], window.SLIM)
            page = [*page, *await self._part(store, "jobs", passed, [])]
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
        intake.load(self.known, snapshot, polled=True)
        await self.check(store, hello)

    async def _news(self, store: AsyncStore, hello: window.Greeting) -> list[dict[str, Any]]:
        """The events since the last time: what nodes and rosters went through between two looks is
        among them."""
        first = (self._events_from or hello.at) - EVENTS_OVERLAP
        found = await self._part(store, "events", events.after(first, EVENTS_AT_ONCE), [])
        news = [one for one in found if repr(one["_id"]) not in self._events_seen]
        self._events_seen = {repr(one["_id"]) for one in found}
        # Of more than are read at once, the rest comes the next time.
        is_all = len(found) < EVENTS_AT_ONCE
        self._events_from = hello.at if is_all else found[-1]["at"] + EVENTS_OVERLAP
        return news

    async def _read_jobs(self, store: AsyncStore) -> None:
        """Read the window of jobs again."""
        hello = await self.greet(store)
        jobs = await self._part(store, "jobs", read_window(self._tasks), Window(is_known=False))
        if jobs.is_known:
            intake.read_window(self.known, jobs, version_of(hello))

    async def keep_checking(self, store: AsyncStore, ending: asyncio.Event) -> None:
        """Beside the stream: who is primary, and whether what was counted from changes is true."""
        hello = await self.greet(store)
        while not ending.is_set():
            await self.check(store, hello)
            await nap(ending, GREET_EVERY)
            hello = await self.greet(store)
            self._events_from = hello.at

    async def check(self, store: AsyncStore, hello: window.Greeting) -> None:
        """Count and read again what is due."""
        if self._filled_until is not None and not self._is_filled:
            self._is_filled = True
            await fill(self.known, store, self._filled_until, self._since)
        mode = self.known.link.mode
        every = COUNT_EVERY_WHILE.get(mode, COUNT_EVERY)
        if self._has_news(mode) and self.agenda.is_due("count", every):
            await self.agenda.timed("count", self._count(store, hello), every, COUNT_PART)
        # What is under load is neither read as a whole nor counted as a whole.
        if mode is not Mode.SAMPLED:
            await self._check_all(store, mode)
        if self.link.refused and self.agenda.is_due("refused", COUNT_EVERY):
            await self._regain(store)

    async def _check_all(self, store: AsyncStore, mode: Mode) -> None:
        lacks_jobs = mode is Mode.LIVE and not self.known.jobs.is_complete
        if self.agenda.is_due("all", COUNT_ALL_EVERY):
            await self.agenda.timed("all", self._count_all(store), COUNT_ALL_EVERY, COUNT_PART)
        elif lacks_jobs and self.agenda.is_due("refill", COUNT_EVERY):
            await self.agenda.timed("refill", self._read_jobs(store), COUNT_EVERY, COUNT_PART)

    def _has_news(self, mode: Mode) -> bool:
        """Whether a count could find anything but what the last one found."""
        is_quiet = mode is Mode.LIVE and self.known.generation(Pane.JOBS) == self._counted
        return not is_quiet or self.agenda.is_due("idle count", COUNT_IDLE_EVERY)

    async def _count(self, store: AsyncStore, hello: window.Greeting) -> None:
        self._counted = self.known.generation(Pane.JOBS)
        self.agenda.put_off("idle count", COUNT_IDLE_EVERY)
        is_followed = self.known.link.mode is not Mode.SAMPLED
        spread = is_followed and not self.known.jobs.is_complete
        reading = read_truth(self._tasks, version_of(hello), hello.at, spread=spread)
        found = await self._part(store, "jobs", reading, None)
        if found is not None:
            intake.count(self.known, found[0])
            intake.see_roster(self.known, found[1], hello.at.timestamp(), version_of(hello))
        living = [fact for fact in self.known.lives.facts().values() if not fact.is_dead]
        self._tasks = sorted({task for fact in living for task in fact.tasks})

    async def _count_all(self, store: AsyncStore) -> None:
        """Count finished jobs too, which reads them all; if that takes too long, they stay
        uncounted."""
        with self.known.tally.counting() as take:
            hello = await self.greet(store)
            try:
                counts = await self._count_states(store, hello)
            except StoreError:
                return  # a store that is away is noticed by those who wait for less
            ended = {state: number for state, number in counts.items() if state not in OPEN}
            take(ended, version_of(hello), hello.at.timestamp())

    async def _count_states(self, store: AsyncStore, hello: window.Greeting) -> dict[str, int]:
        """As of the greeting, if the server can look back."""
        if hello.time != (0, 0):
            try:
                return await store.run(hurried(read.count_states(hello.time), ALL_COUNT_WITHIN))
            except StoreUnavailable:
                raise
            except StoreError:
                pass  # it keeps no history
        return await store.run(hurried(read.count_states(), ALL_COUNT_WITHIN))

    async def _regain(self, store: AsyncStore) -> None:
        """What could not be read may be readable again."""
        refused = set(self.link.refused)
        if "nodes" in refused:
            await self._part(store, "nodes", read.read_nodes(dead=False), [])
        if "events" in refused:
            await self._part(store, "events", events.latest(1), [])
        if refused - set(self.link.refused):
            # Not from the beginning: changes that the stream has told meanwhile must not be
            # forgotten.
            await self.read_all(store, await self.greet(store))

    async def _run(self, store: AsyncStore, steps: Operation[T]) -> T:
        return await store.run(hurried(steps, self._within))

    async def _part(self, store: AsyncStore, name: str, steps: Operation[T], otherwise: T) -> T:
        """One part of a look; a part that may not be read is told, and the others go on."""
        try:
            answer = await self._run(store, steps)
        except StoreUnavailable:
            raise
        except NotPermitted as refusal:
            self.link.refused[name] = legible(refusal, 160)
            return otherwise
        except StoreError as error:
            if name in _PARTS:
                raise
            self.link.refused[name] = legible(error, 160)
            return otherwise
        self.link.refused.pop(name, None)
        self.link.heard()
        return answer


async def nap(ending: asyncio.Event, seconds: float) -> None:
    """Sleep, but not through an end."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ending.wait(), seconds)
