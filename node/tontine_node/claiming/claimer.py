"""(3) The claim loop: as many jobs as there is room for, from wherever the lane has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from bson.datetime_ms import DatetimeMS

from tontine.clock import Clock
from tontine.errors import StoreError, StoreUnavailable, Unstorable
from tontine.records.job import JobError, unfit
from tontine.store import bell, claim, repair
from tontine.store.call import AsyncStore
from tontine.store.claim import SUSPECT
from tontine.store.raw import Raw, identity
from tontine.store.settle import Outcome

from ..claims import Claims, Entry, Status
from ..loop import jittered, rest
from ..membership.heartbeat import Heartbeat
from ..running.dispatch import Dispatcher
from ..telling.troubles import Troubles
from .lane import Lane
from .sweep import Sweep

log = logging.getLogger(__name__)

CLAIM_AT_ONCE = 500
REST, REST_POLL = 1.0, 0.25
LOOK_AGAIN_AFTER = (0.01, 0.1)
ASK_EVERY = 1.0
AFTER_A_FAILURE = 0.5
FAR_AHEAD = 10_000_000
REFUSED_FOR = 60.0
"""A job whose claim was refused is found again within so many seconds: until then, silence proves nothing."""


class Claimer:
    """Claims for one node."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        clock: Clock,
        beat: Heartbeat,
        claims: Claims,
        dispatcher: Dispatcher,
        lane: Lane,
        troubles: Troubles,
    ) -> None:
        self.node = node
        self.tick = 0
        self.is_open = False
        self._busy_since: float | None = clock.now()
        self.wake = asyncio.Event()
        self._store = store
        self._clock = clock
        self._beat = beat
        self._claims = claims
        self._dispatcher = dispatcher
        self._lane = lane
        self._troubles = troubles
        self._hurry = False
        self._has_doubts = False
        self._announced: list[int] = []
        self._asked_at = float("-inf")
        self._refused_at = float("-inf")

    async def run(self) -> None:
        """Claim for as long as there is room; otherwise sleep until something happens or it is time to look."""
        while True:
            self.wake.clear()
            self.tick += 1
            try:
                # Also while it is closed: a node that drains must know what it holds before it can give it back (N7).
                if self._has_doubts and self._beat.has_lease():
                    await self._resolve_pending()
                found_work = await self._round() if self._may_claim() else False
                if not self._has_doubts and self._clock.now() - self._refused_at > REFUSED_FOR:
                    self._troubles.over("claiming")
            except StoreError as error:
                self._troubles.note("claiming", error)
                log.warning("claiming failed", extra={"event": "claim-failed", "error": str(error)})
                found_work = False
                await asyncio.sleep(jittered(AFTER_A_FAILURE, least=0.4))
            if not found_work and not self._is_full():
                self._busy_since = None
            elif self._busy_since is None:
                self._busy_since = self._clock.now()
            if not found_work:
                await self._rest()

    def busy_for(self) -> float:
        """For how many seconds there has been more to do than could be done at once; 0 if there is not."""
        return 0.0 if self._busy_since is None else max(1e-9, self._clock.now() - self._busy_since)

    def _is_full(self) -> bool:
        """A backlog, and no room for it."""
        sweep = self._lane.sweep
        return sweep is not None and not sweep.is_exhausted and self._room() <= 0

    def take_hint(self, hint: bell.Hint) -> None:
        """The bell tells of jobs."""
        self.hint(hint.first, hint.last, is_fresh=hint.is_fresh)

    def hint(self, first: int | None = None, last: int | None = None, *, is_fresh: bool = False) -> None:
        """Jobs were inserted: look now, everywhere unless their numbers are enough to find them."""
        sweep = self._lane.sweep
        if sweep is not None and last is not None and last > sweep.counter + FAR_AHEAD:
            first = last = None  # whoever rang that does not know the numbers
        if first is not None and last is not None and sweep is not None:
            if not (sweep.hint(first, last) if is_fresh else sweep.share.seqs(first, last, 1)):
                return
            if is_fresh and first == last:
                self._announced = [*self._announced[:1], first]  # of more than one it only matters that there are more
                for delay in LOOK_AGAIN_AFTER:
                    asyncio.get_running_loop().call_later(delay, self._look_again, first)
        self._hurry = self._hurry or not is_fresh
        self.wake.set()

    def _look_again(self, seq: int) -> None:
        """A job is announced before it is inserted: what was not there yet may be there now."""
        sweep = self._lane.sweep
        if sweep is not None and sweep.is_missing(seq) and sweep.hint(seq, seq):
            self.wake.set()

    def due_in(self, delay: float) -> None:
        """A job went back to the queue, and is due so many seconds from now."""
        self._lane.due_in(delay)
        self.wake.set()

    def look_now(self) -> None:
        """The roster changed: read it before anything else."""
        self._lane.forget_roster()
        self.wake.set()

    def _may_claim(self) -> bool:
        return self.is_open and self._beat.has_lease()

    async def _rest(self) -> None:
        limit = jittered(self._lane.pace_of(REST, REST_POLL))
        # With no room, a job that is due waits for a slot, which wakes us; without a share, others see to it.
        if self._may_claim() and self._lane.sweep is not None and self._room() > 0:
            limit = min(limit, max(0.0, self._lane.next_due - self._clock.now()))
        await rest(self.wake, limit)

    async def _round(self) -> bool:
        """One round of the loop; whether another should follow at once."""
        hurry, self._hurry = self._hurry, False
        self._lane.look_for_suspects()
        await self._lane.around(hurry)
        sweep = self._lane.sweep
        if sweep is None:
            return False
        announced, self._announced = self._announced, []
        if len(announced) == 1 and await self._claim_announced(announced[0], sweep):
            return True
        room, cursor = min(self._room(), CLAIM_AT_ONCE), sweep.cursor
        claimed = await self._claim(await self._lane.oldest(sweep), first=True)
        if room <= 0:
            self._hurry = self._hurry or hurry  # for when there is room
            if not sweep.is_exhausted:
                await self._ask_for_help()
            await self._set_aside()
            return bool(claimed)
        for look in (self._lane.ranked, self._lane.due, self._lane.fresh):
            if claimed < room:
                claimed += await self._claim(await look(sweep, room - claimed, hurry))
        if not claimed and sweep.is_exhausted:
            claimed = await self._claim(await self._lane.low(sweep)) or await self._claim(await self._lane.left())
            await self._lane.hidden(sweep.share)
        await self._set_aside()
        return bool(claimed) or (sweep.cursor != cursor and not sweep.is_exhausted)

    def _room(self) -> int:
        """How many more jobs to claim: as many as the workers want, and none while there is too much in memory."""
        return 0 if self._claims.is_full else self._dispatcher.room()

    async def _set_aside(self) -> None:
        """Fail what was found and cannot be claimed by anybody: otherwise it would be found first again."""
        odd, self._lane.odd = self._lane.odd, []
        for job, reason in odd:
            queued = {**identity(job), "state": claim.QUEUED}
            if await self._store.run(repair.set_aside(queued, reason, self._lane.retention)):
                log.warning("set a job aside", extra={"event": "set-aside", "seq": job.get("seq"), "reason": reason})

    async def _ask_for_help(self) -> None:
        """More jobs than room: nodes that have nothing to do need not find out by themselves."""
        now = self._clock.now()
        if now - self._asked_at >= ASK_EVERY and not self._lane.is_alone:
            self._asked_at = now
            await self._store.run(bell.ring(bell.HELP))

    def help_soon(self) -> None:
        """A member asks for help."""
        asyncio.get_running_loop().call_later(self._lane.help_soon(), self.wake.set)

    async def _claim_announced(self, seq: int, sweep: Sweep) -> bool:
        """Claim a job that has just been submitted for a slot that is free, without looking it up first."""
        if self._dispatcher.free_slots() <= 0 or self._claims.is_full:
            return False
        if not sweep.is_next(seq) or not self._claims.may_claim(seq):
            return False
        entry = Entry(seq, attempt=1, since=self._clock.now())
        self._claims.enter(entry)
        job = None
        try:
            for _ in range(2):  # it is announced before it is inserted, and by the second time it is there
                if job is None and self._may_claim():
                    job = await self._store.run(claim.claim_announced(self.node, seq, self._lane.tasks))
        except StoreError as error:
            self._doubt(error)
            return False
        self._refused_at = float("-inf")
        found = [seq] if job is not None else []
        sweep.looked_up([seq], found, found, self._clock.now())
        if job is None:
            self._claims.drop(seq)
            return False
        if reason := unfit(job):
            unable = JobError("InvalidJob", f"this document cannot be a job: {reason}")
            self._dispatcher.end(entry, Outcome("refused", seq, 1, error=unable))
            return True
        self._claims.enter(entry := _entry(job, 1, entry.since))
        self._dispatcher.offer([entry])
        return True

    async def _claim(self, jobs: Sequence[Raw], *, first: bool = False) -> int:
        """Claim what was found, one update per attempt number, suspects alone (J1, P2)."""
        ours = [job for job in jobs if self._claims.may_claim(job["seq"])]
        batches: dict[int, list[Raw]] = {}
        for job in self._lane.takeable(ours, len(ours)):
            if job["lost"] < SUSPECT:
                batches.setdefault(int(job["attempt"]), []).append(job)
        claimed = 0
        for attempt, batch in batches.items():
            claimed += await self._claim_batch(batch, attempt, first=first)
        suspects = [job for job in ours if job["lost"] >= SUSPECT]
        if suspects and self._dispatcher.takes_suspects:
            claimed += await self._claim_batch(suspects[:1], int(suspects[0]["attempt"]))
            suspects = suspects[1:]
        self._lane.passed_over = self._lane.passed_over or bool(suspects)
        return claimed

    async def _claim_batch(self, jobs: Sequence[Raw], attempt: int, *, first: bool = False) -> int:
        if not self._may_claim():
            return 0
        now = self._clock.now()
        entries = {job["seq"]: _entry(job, attempt + 1, now) for job in jobs}
        for entry in entries.values():
            self._claims.enter(entry)
        try:
            ours = await self._store.run(claim.claim(self.node, list(entries), attempt))
        except Unstorable as error:
            self._doubt(error)
            return await self._claim_apart(jobs, attempt, error)
        except StoreError as error:
            self._doubt(error)
            if not isinstance(error, StoreUnavailable):  # it is found at once again, and refused again
                await asyncio.sleep(jittered(AFTER_A_FAILURE, least=0.4))
            return 0
        self._refused_at = float("-inf")
        self._keep(entries.values(), ours, first=first)
        return len(ours)

    async def _claim_apart(self, jobs: Sequence[Raw], attempt: int, error: StoreError) -> int:
        """One of these cannot even be claimed, and kept the others from it: without it they can."""
        await self._resolve_pending()
        left = [job for job in jobs if self._claims.may_claim(job["seq"])]
        if len(jobs) == 1:
            self._lane.odd += [(job, f"it cannot be claimed: {error}") for job in left]
            return 0
        claimed = 0
        for job in left:
            claimed += await self._claim_batch([job], attempt)
        return claimed

    def _doubt(self, error: StoreError) -> None:
        """A claim whose outcome is unknown: its jobs stay pending until a read tells."""
        self._has_doubts = True
        self._troubles.note("claiming", error)
        if not isinstance(error, StoreUnavailable):
            self._refused_at = self._clock.now()

    def _keep(self, entries: Iterable[Entry], ours: set[int], *, first: bool = False) -> None:
        held = []
        for entry in entries:
            if entry.seq in ours:
                held.append(entry)
            else:
                self._claims.drop(entry.seq)
        self._dispatcher.offer(held, first=first)

    async def _resolve_pending(self) -> None:
        """Ask the store about claims whose outcome stayed unknown (J1)."""
        by_attempt: dict[int, list[Entry]] = {}
        for entry in self._claims.having(Status.PENDING):
            by_attempt.setdefault(entry.attempt, []).append(entry)
        for attempt, entries in by_attempt.items():
            ours = await self._store.run(claim.held(self.node, [entry.seq for entry in entries], attempt))
            for entry in entries:
                if entry.seq in ours and not entry.raw:  # claimed by its number alone, and what it is was in the answer
                    ours.discard(entry.seq)
                    self._dispatcher.end(entry, Outcome("released", entry.seq, attempt))
            self._keep([entry for entry in entries if entry.status is Status.PENDING], ours)
            for entry in entries:
                if entry.seq not in ours:
                    self.hint(entry.seq, entry.seq)  # it may never have been claimed
        self._has_doubts = False


def _entry(job: Raw, attempt: int, now: float) -> Entry:
    timeout, max_attempts, start_by = job.get("timeout"), job.get("max_attempts"), job.get("start_by")
    entry = Entry(
        seq=int(job["seq"]),
        attempt=attempt,
        task=job["task"],
        raw=job.raw,
        fails=int(job.get("fails") or 0),
        lost=int(job.get("lost") or 0),
        priority=int(job.get("priority") or 0),
        timeout=float(timeout) if timeout else None,
        max_attempts=int(max_attempts) if max_attempts else None,
        since=now,
    )
    if isinstance(start_by, DatetimeMS) and not entry.fails and not entry.lost:  # else it was started, in time
        entry.start_by = int(start_by) / 1000
    return entry
