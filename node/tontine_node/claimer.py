"""(3) When and how many to claim, from the share and the free slots: sweep, sieve, and help for others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Sequence

from bson.raw_bson import RawBSONDocument

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import StoreError
from tontine.store import claim
from tontine.store.call import AsyncStore
from tontine.store.claim import SUSPECT
from tontine.store.retention import FOR_EVER

from .member import Heartbeat, Member
from .supervisor import Supervisor
from .sweep import Sweep
from .table import Entry, Status, Table

log = logging.getLogger(__name__)

CLAIM_AT_ONCE = 500
HELP_LOOKS_AT = 64
HELP_EVERY = 1.5
SIEVE_EVERY = 2.0
RANKED_EVERY = 0.25
BEHIND_SOON, BEHIND_EVERY = 1.0, 60.0


class Claimer:
    """The claim loop of one node."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        beat: Heartbeat,
        member: Member,
        table: Table,
        supervisor: Supervisor,
        watching: Callable[[], bool],
    ) -> None:
        self.node = node
        self.tick = 0
        self.is_open = False
        self.is_idle = False
        self.wake = asyncio.Event()
        self.sweep: Sweep | None = None
        self.retention = FOR_EVER
        self._store = store
        self._timing = timing
        self._clock = clock
        self._beat = beat
        self._member = member
        self._table = table
        self._supervisor = supervisor
        self._watching = watching
        self._looked_at = self._sieved_at = self._behind_at = self._helped_at = self._fair_at = float("-inf")
        self._behind_for = BEHIND_SOON
        self._ranked_at = self._low_at = float("-inf")
        self._next_due = float("inf")
        self._helps_with = 0
        self._hurry = False
        self._has_doubts = False

    async def run(self) -> None:
        """Claim for as long as there is room; otherwise sleep until something happens or it is time to look."""
        while True:
            self.wake.clear()
            self.tick += 1
            try:
                found_work = await self._round() if self._may_claim() else False
            except StoreError as error:
                log.warning("claiming failed", extra={"event": "claim-failed", "error": str(error)})
                found_work = False
                await asyncio.sleep(random.uniform(0.2, 0.5))  # noqa: S311
            self.is_idle = not found_work
            if not found_work:
                await self._rest()

    def hint(self, seq: int | None = None) -> None:
        """A job was inserted: look now."""
        if seq is not None and self.sweep is not None:
            self.sweep.hint(seq)
        self._hurry = True
        self.wake.set()

    def due_in(self, delay: float) -> None:
        """A job went back to the queue, and is due so many seconds from now."""
        self._next_due = min(self._next_due, self._clock.now() + delay)
        self.wake.set()

    def look_now(self) -> None:
        """The roster changed: read it before anything else."""
        self._looked_at = float("-inf")
        self.wake.set()

    def _may_claim(self) -> bool:
        return self.is_open and self._beat.has_lease()

    async def _rest(self) -> None:
        limit = (1.0 if self._watching() else 0.25) * random.uniform(0.8, 1.0)  # noqa: S311
        if self._supervisor.room() > 0:  # with no room, a job that is due waits for a slot, which wakes us
            limit = min(limit, max(0.0, self._next_due - self._clock.now()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self.wake.wait()

    async def _round(self) -> bool:
        """One round of the loop; whether another should follow at once."""
        if self._has_doubts:
            await self._resolve_pending()
        hurry, self._hurry = self._hurry, False
        await self._look_around(hurry)
        room = min(self._supervisor.room(), CLAIM_AT_ONCE)
        if self.sweep is None:
            return False
        sweep, cursor = self.sweep, self.sweep.cursor
        claimed = await self._help_fairly()
        if room <= 0:
            self._hurry = hurry  # for when there is room
            return bool(claimed)
        claimed += await self._claim_ranked(sweep, room - claimed, hurry)
        if claimed < room:
            claimed += await self._sieve(sweep, room - claimed, hurry)
        if claimed < room:
            claimed += await self._sweep(sweep, room - claimed)
        if not claimed and sweep.is_exhausted:
            claimed = await self._claim_low(sweep) or await self._help(self._supervisor.free_slots())
        return bool(claimed) or (sweep.cursor != cursor and not sweep.is_exhausted)

    async def _claim_ranked(self, sweep: Sweep, room: int, hurry: bool) -> int:
        """Claim jobs with a priority before any others, looking for them a few times a second."""
        now = self._clock.now()
        every = SIEVE_EVERY if sweep.is_exhausted and self._watching() else RANKED_EVERY
        if room <= 0 or (now - self._ranked_at < every and not hurry):
            return 0
        self._ranked_at = now
        ranked = await self._store.run(claim.find_ranked(sweep.share, self.tasks, room, suspects=self._may_suspect()))
        if len(ranked) == room:
            self._ranked_at = float("-inf")
        return await self._claim(ranked)

    async def _claim_low(self, sweep: Sweep) -> int:
        """Claim jobs of a priority below zero when there is nothing else."""
        free, now = self._supervisor.free_slots(), self._clock.now()
        if free <= 0 or now - self._low_at < SIEVE_EVERY:
            return 0
        self._low_at = now
        low = await self._store.run(claim.find_ranked(sweep.share, self.tasks, free, low=True))
        if low:
            self._looked_at = self._low_at = float("-inf")
            await self._look_around(True)
        return await self._claim(low) if self.sweep is sweep and sweep.is_exhausted else 0

    async def _look_around(self, hurry: bool) -> None:
        """Read roster and counter, when it is time to or the sweep has come to its end."""
        now = self._clock.now()
        exhausted = self.sweep is None or self.sweep.is_exhausted
        every = 2.0 if self._watching() else 0.25
        if now - self._looked_at < every and not (hurry and exhausted):
            return
        around = await self._store.run(claim.overview())
        self._looked_at = now
        self._member.see(around.roster)
        self.retention = around.retention
        counter = around.counter
        share = self._member.roster.share_of(self.node)
        if share is None:
            self.sweep = None
        elif self.sweep is None or self.sweep.share != share:
            lowest = await self._store.run(claim.lowest_fresh(self.tasks, 0))
            self.sweep = Sweep(share, counter + 1 if lowest is None else lowest, counter)
            self._sieved_at = float("-inf")
            self._next_due = float("inf")
            self._passed_by()
        else:
            self.sweep.counter = max(self.sweep.counter, counter)

    @property
    def tasks(self) -> list[str]:
        return sorted(self._supervisor.tasks)

    async def _sweep(self, sweep: Sweep, room: int) -> int:
        """Look up the share's next seqs; when none of them is there, jump to the lowest that is."""
        await self._sweep_behind(sweep)
        planned = sweep.plan(room, self._clock.now())
        if not planned:
            return 0
        found = await self._store.run(claim.find_fresh(planned, self.tasks))
        taken = self._takeable(sorted(found, key=lambda job: job["seq"]), room)
        sweep.looked_up(planned, {job["seq"] for job in found}, {job["seq"] for job in taken}, self._clock.now())
        if not found and not sweep.is_exhausted:
            sweep.jump(await self._store.run(claim.lowest_fresh(self.tasks, sweep.cursor)))
            self._passed_by()
        return await self._claim(taken)

    def _passed_by(self) -> None:
        """The cursor was moved without looking: look behind it soon."""
        self._behind_for = BEHIND_SOON
        self._behind_at = min(self._behind_at, self._clock.now() + BEHIND_SOON)

    def _takeable(self, jobs: list[RawBSONDocument], room: int) -> list[RawBSONDocument]:
        """The first of these that may be claimed now: a task that must not run twice is never claimed ahead of a slot.

        When a node dies, nobody can tell which of the jobs it held had started, so all of such a task are failed.
        """
        free = self._supervisor.free_slots()
        taken: list[RawBSONDocument] = []
        for job in jobs[:room]:
            if len(taken) >= free and self._supervisor.tasks[job["task"]].on_lost == "fail":
                break
            taken.append(job)
        return taken

    async def _sweep_behind(self, sweep: Sweep) -> None:
        """Look for anything in the share that the cursor has passed: once a minute (F5 c), and soon after a jump.

        A producer that had taken its numbers, and not yet inserted its jobs, is passed by a jump without a trace.
        """
        now = self._clock.now()
        if now < self._behind_at:
            return
        self._behind_at = now + self._behind_for
        self._behind_for = min(self._behind_for * 4, BEHIND_EVERY)
        for seq in await self._store.run(claim.find_behind(sweep.share, self.tasks, sweep.cursor, 500)):
            if seq not in self._table:
                sweep.hint(seq)

    async def _sieve(self, sweep: Sweep, room: int, hurry: bool) -> int:
        """Claim postponed jobs of the share whose time has come, and note when the next one's will (F5 a)."""
        now = self._clock.now()
        every = SIEVE_EVERY if self._watching() else SIEVE_EVERY / 4
        if now < self._next_due and now - self._sieved_at < (0.2 if hurry else every):
            return 0
        self._sieved_at = now
        look = claim.find_due(sweep.share, self.tasks, SIEVE_EVERY * 1.5, room, suspects=self._may_suspect())
        self._next_due = float("inf")
        found = await self._store.run(look)
        due = [job for job in found if job["wait"] <= 0]
        claimed = await self._claim(due)
        self._next_due = min(self._next_due, now if claimed and len(due) == room else _time_of_next(found, now))
        return claimed

    def _may_suspect(self) -> bool:
        """Whether a job that may be poison could be claimed now: alone, for a slot that is free (P2)."""
        return self._supervisor.free_slots() > 0 and not self._supervisor.has_suspect

    async def _help(self, free: int) -> int:
        """Claim for slots that are free now what others have left lying for longer than H (F6)."""
        now = self._clock.now()
        every = HELP_EVERY if self._watching() else HELP_EVERY / 2
        if free <= 0 or now - self._helped_at < every or len(self._member.roster.members) < 2:
            return 0
        left = self._spread(await self._find_left(HELP_LOOKS_AT))
        claimed = await self._claim(left[: max(0, min(free, self._supervisor.free_slots()))])
        self._helped_at = now if not claimed else float("-inf")
        return claimed

    async def _help_fairly(self) -> int:
        """Now and then take the oldest job of anybody, even with an own backlog: a stuck member must not starve it."""
        now = self._clock.now()
        if now - self._fair_at < 10 * self._timing.help_after or len(self._member.roster.members) < 2:
            return 0
        if self._supervisor.free_slots() <= 0 and self._supervisor.pace.mean > self._timing.help_after:
            return 0  # it would only wait here instead of there
        self._fair_at = now
        return await self._claim(await self._find_left(1), first=True)

    async def _find_left(self, limit: int) -> list[RawBSONDocument]:
        """What has been lying for longer than H: fresh jobs, and in turn postponed and ranked ones."""
        age, suspects = self._timing.help_after, self._may_suspect()
        others = (
            claim.find_overdue(self.tasks, age, limit, suspects=suspects),
            claim.find_ranked(None, self.tasks, limit, age=age, suspects=suspects),
            claim.find_ranked(None, self.tasks, limit, age=age, low=True, suspects=suspects),
        )
        self._helps_with = (self._helps_with + 1) % len(others)
        left = await self._store.run(others[self._helps_with])
        return left or await self._store.run(claim.find_left(self.tasks, age, limit))

    def _spread(self, jobs: list[RawBSONDocument]) -> list[RawBSONDocument]:
        """Start at a random member's share, so that helpers do not all reach for the same jobs."""
        size = max(1, len(self._member.roster.members))
        start = random.randrange(size)  # noqa: S311
        return sorted(jobs, key=lambda job: (int(job["seq"]) - start) % size)

    async def _claim(self, jobs: Sequence[RawBSONDocument], *, first: bool = False) -> int:
        """Claim what was found, one update per attempt number, suspects alone (J1, P2)."""
        free = [job for job in jobs if job["seq"] not in self._table]
        batches: dict[int, list[RawBSONDocument]] = {}
        for job in self._takeable(free, len(free)):
            if job["lost"] < SUSPECT:
                batches.setdefault(int(job["attempt"]), []).append(job)
        claimed = 0
        for attempt, batch in batches.items():
            claimed += await self._claim_batch(batch, attempt, first=first)
        suspect = next((job for job in free if job["lost"] >= SUSPECT), None)
        if suspect is not None and self._may_suspect():
            claimed += await self._claim_batch([suspect], int(suspect["attempt"]))
        return claimed

    async def _claim_batch(self, jobs: Sequence[RawBSONDocument], attempt: int, *, first: bool = False) -> int:
        if not self._may_claim():
            return 0
        now = self._clock.now()
        entries = {job["seq"]: _entry(job, attempt + 1, now) for job in jobs}
        for entry in entries.values():
            self._table.enter(entry)
        try:
            ours = await self._store.run(claim.claim(self.node, list(entries), attempt))
        except StoreError:
            self._has_doubts = True  # they stay pending until a read tells
            return 0
        self._keep(entries.values(), ours, first=first)
        return len(ours)

    def _keep(self, entries: Iterable[Entry], ours: set[int], *, first: bool = False) -> None:
        held = []
        for entry in entries:
            if entry.seq in ours:
                held.append(entry)
            else:
                self._table.drop(entry.seq)
        self._supervisor.offer(held, first=first)

    async def _resolve_pending(self) -> None:
        """Ask the store about claims whose outcome stayed unknown (J1)."""
        by_attempt: dict[int, list[Entry]] = {}
        for entry in self._table.having(Status.PENDING):
            by_attempt.setdefault(entry.attempt, []).append(entry)
        for attempt, entries in by_attempt.items():
            ours = await self._store.run(claim.held(self.node, [entry.seq for entry in entries], attempt))
            self._keep(entries, ours)
            for entry in entries:
                if entry.seq not in ours and self.sweep is not None:
                    self.sweep.hint(entry.seq)  # it may never have been claimed
        self._has_doubts = False


def _time_of_next(found: Sequence[RawBSONDocument], now: float) -> float:
    """When the first of these that is not due yet will be."""
    return now + min((job["wait"] for job in found if job["wait"] > 0), default=float("inf")) / 1000


def _entry(job: RawBSONDocument, attempt: int, now: float) -> Entry:
    timeout, max_attempts = job.get("timeout"), job.get("max_attempts")
    return Entry(
        seq=int(job["seq"]),
        attempt=attempt,
        task=job["task"],
        raw=bytes(job.raw),
        fails=int(job.get("fails") or 0),
        lost=int(job.get("lost") or 0),
        priority=int(job.get("priority") or 0),
        timeout=float(timeout) if timeout else None,
        max_attempts=int(max_attempts) if max_attempts else None,
        since=now,
    )
