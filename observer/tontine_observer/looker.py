"""Looks at the store beside the stream: the whole at first, counts to check by, and what may be read and asked.

Counting reads what it counts: the longer it takes, the less often it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from tontine.clock import wall_time
from tontine.errors import NotPermitted, StoreError, StoreUnavailable
from tontine.legible import legible
from tontine.roster import Roster
from tontine.states import OPEN
from tontine.store import checkup, events, look, window
from tontine.store.call import AsyncStore, Steps
from tontine.store.look import hurried

from .board import Board
from .past import BACKFILL_FOR, fill
from .picture import Mode
from .reading import known_tasks, read_truth, read_window, server_of, version_of
from .snapshot import Snapshot, Window

T = TypeVar("T")

GREET_EVERY = 2.0
COUNT_EVERY, COUNT_SAMPLED_EVERY, COUNT_ALL_EVERY = 5.0, 2.0, 30.0
RIGHTS_EVERY = 60.0
COUNT_SHARE = 20
"""Counting takes at most one part in this many of the time."""
ALL_COUNT_WITHIN = 60.0
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
        self._due: dict[str, float] = {}
        self._tasks: list[str] = []
        self._refused: dict[str, str] = {}
        self._is_filled = False
        self._filled_until: datetime | None = None
        if read_only:
            self.show(read_only=read_only)

    # What is said about it

    def show(self, **facts: Any) -> None:
        """Change what the board's link says."""
        age = time.monotonic() - self._heard if self._heard else 0.0
        self.board.link = replace(self.board.link, age=age, refused=dict(self._refused), **facts)

    def heard(self) -> None:
        """The store answered just now."""
        self._heard = time.monotonic()
        self._shown_heard = True
        self.board.hear(self.server_now())
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
        self.heard()
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
        counts = await self._part(store, "jobs", window.count_open(), {})
        jobs = Window(is_known=False, is_complete=False)
        if not polled or self._is_due("window", 2 * COUNT_SAMPLED_EVERY):
            jobs = await self._timed(
                "window", self._part(store, "jobs", read_window(self._tasks), jobs), 2 * COUNT_SAMPLED_EVERY
            )
        if self._refused.keys() >= set(_PARTS):
            raise NotPermitted(next(iter(self._refused.values())))
        if begin_again:
            self.board.begin_again()
        self._load(hello, nodes, roster, seq, counts, jobs, polled=polled)
        await self._after_loading(store, hello, begin_again=begin_again, polled=polled)

    def _load(
        self,
        hello: window.Hello,
        nodes: list[dict[str, Any]],
        roster: Roster,
        seq: int,
        counts: dict[str, int],
        jobs: Window,
        *,
        polled: bool,
    ) -> None:
        snapshot = Snapshot(
            at=hello.at,
            nodes=nodes,
            roster=roster,
            seq=seq,
            counts=counts,
            window=jobs,
            version=version_of(hello),
            server=server_of(hello),
        )
        self.board.load(snapshot, polled=polled)

    async def _after_loading(self, store: AsyncStore, hello: window.Hello, *, begin_again: bool, polled: bool) -> None:
        self._filled_until = self._filled_until or hello.at
        if polled:
            await self._check(store)
        elif begin_again:
            self._due.pop("count", None)
            self._due.pop("all", None)

    async def read_jobs(self, store: AsyncStore) -> None:
        """Read the window of jobs again."""
        hello = await self.greet(store)
        jobs = await self._part(store, "jobs", read_window(self._tasks), Window(is_known=False))
        if jobs.is_known:
            self.board.read_window(jobs, version_of(hello))

    async def keep_looking(self, store: AsyncStore, ending: asyncio.Event) -> None:
        """Beside the stream: who is primary, and whether what was counted from changes is true."""
        while not ending.is_set():
            await self._check(store)
            await nap(ending, GREET_EVERY)
            hello = await self.greet(store)
            self.show(reason="" if hello.has_primary or self.board.link.reason else "election: no primary")

    async def _check(self, store: AsyncStore) -> None:
        if self._filled_until is not None and not self._is_filled:
            self._is_filled = True
            await fill(self.board, store, self._filled_until, self._since)
        is_sampled = self.board.link.mode in (Mode.SAMPLED, Mode.POLL)
        every = COUNT_SAMPLED_EVERY if is_sampled else COUNT_EVERY
        if self._is_due("count", every):
            await self._timed("count", self._count(store), every)
        if self._is_due("all", COUNT_ALL_EVERY):
            await self._timed("all", self._count_all(store), COUNT_ALL_EVERY)
        if not self.board.jobs_table.is_complete and self._is_due("refill", COUNT_EVERY):
            await self._timed("refill", self.read_jobs(store), COUNT_EVERY)
        if self._refused and self._is_due("refused", COUNT_EVERY):
            await self._regain(store)

    async def _count(self, store: AsyncStore) -> None:
        hello = await self._run(store, window.greet())
        epochs = self.board.lives.epochs
        roster = Roster(epochs[-1].epoch, epochs[-1].members) if epochs else Roster()
        reading = read_truth(
            self._tasks, roster, version_of(hello), hello.at, spread=not self.board.jobs_table.is_complete
        )
        truth = await self._part(store, "jobs", reading, None)
        if truth is not None:
            self.board.count(truth)
        seen, _ = await self._part(store, "cluster", look.read_cluster(), (None, 0))
        if seen is not None:
            self.board.see_roster(seen, hello.at.timestamp(), version_of(hello))
        self._tasks = sorted(
            {task for fact in self.board.lives.facts().values() if not fact.is_dead for task in fact.tasks}
        )

    async def _count_all(self, store: AsyncStore) -> None:
        """Count finished jobs too, which reads them all; if that takes too long, they stay uncounted."""
        hello = await self._run(store, window.greet())
        try:
            counts = await store.run(hurried(look.count_states(), ALL_COUNT_WITHIN))
        except StoreError:
            return  # a store that is away is noticed by those who wait for less
        ended = {state: number for state, number in counts.items() if state not in OPEN}
        self.board.tally.correct(ended, version_of(hello), hello.at.timestamp())

    async def _regain(self, store: AsyncStore) -> None:
        """What could not be read may be readable again."""
        refused = set(self._refused)
        if "nodes" in refused:
            await self._part(store, "nodes", look.read_nodes(dead=False), [])
        if "events" in refused:
            await self._part(store, "events", events.latest(1), [])
        if refused - set(self._refused):
            await self.look(store, await self.greet(store), begin_again=True)

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
        return answer

    def _is_due(self, what: str, every: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True

    async def _timed(self, what: str, work: Any, every: float) -> Any:
        began = time.monotonic()
        answer = await work
        took = time.monotonic() - began
        self._due[what] = time.monotonic() + max(every, COUNT_SHARE * took)
        return answer


async def nap(ending: asyncio.Event, seconds: float) -> None:
    """Sleep, but not through an end."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ending.wait(), seconds)
