"""Claiming itself: what was found becomes this node's, or stays in doubt until a read tells
(J1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import bson
from bson.datetime_ms import DatetimeMS
from bson.errors import BSONError

from tontine.clock import Clock
from tontine.errors import StoreError, StoreUnavailable, Unstorable
from tontine.records.job import SUSPECT, JobError, unfit
from tontine.records.plan import PlanPlace
from tontine.store import claim
from tontine.store.bell import Hint
from tontine.store.call import DECODED, AsyncStore, Causal
from tontine.store.fresh import FIELDS
from tontine.store.plans.licence import read_licences
from tontine.store.raw import Raw
from tontine.store.settle import Outcome

from ..claims import Claims, Entry, Status
from ..loop import jittered
from ..running.dispatch import Dispatcher
from ..telling.troubles import Troubles
from .choice import Choice
from .lanes import Lanes

log = logging.getLogger(__name__)

AFTER_A_FAILURE = 0.5
REFUSED_FOR = 60.0
"""A job whose claim was refused is found again within so many seconds: until then, silence proves
nothing."""


class Taker:
    """Claims for one context what its lanes have found, and hands it to its workers."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        clock: Clock,
        claims: Claims,
        dispatcher: Dispatcher,
        lanes: Lanes,
        choice: Choice,
        troubles: Troubles,
        may_claim: Callable[[], bool],
        look_at: Callable[[int], None],
    ) -> None:
        """`look_at` hears of jobs that may be there although they seemed to be claimed."""
        self.node = node
        self.has_doubts = False
        """Whether there are claims whose outcome is not known."""
        self._store = store
        self._clock = clock
        self._claims = claims
        self._dispatcher = dispatcher
        self._lanes = lanes
        self._choice = choice
        self._troubles = troubles
        self._may_claim = may_claim
        self._look_at = look_at
        self._refused_at = float("-inf")
        self._unsure: set[int] = set()
        """The numbers of jobs whose claim was sent and not answered."""
        self._settling_doubts = asyncio.Lock()
        """Steps' jobs come from beside the claim loop: what one reads about is not to be kept by
        the other, too."""

    @property
    def is_well(self) -> bool:
        return not self.has_doubts and self._clock.now() - self._refused_at > REFUSED_FOR

    async def take(self, jobs: Sequence[Raw], *, first: bool = False) -> int:
        """Claim what was found, one update per attempt number, suspects alone (P2); how many are
        ours."""
        free = [job for job in jobs if self._claims.may_claim(job["seq"])]
        batches: dict[int, list[Raw]] = {}
        for job in self._choice.takeable(free, len(free)):
            if job["lost"] < SUSPECT:
                batches.setdefault(int(job["attempt"]), []).append(job)
        taken = 0
        for attempt, batch in batches.items():
            taken += await self._take_batch(batch, attempt, first=first)
        suspects = [job for job in free if job["lost"] >= SUSPECT]
        open_ones = self._choice.takeable(suspects, len(suspects))
        if open_ones and self._dispatcher.takes_suspects:
            suspect = open_ones[0]
            suspects.remove(suspect)
            taken += await self._take_batch([suspect], int(suspect["attempt"]))
        self._choice.passed_over = self._choice.passed_over or bool(suspects)
        return taken

    async def take_announced(self, hint: Hint) -> bool:
        """Claim a job that has just been submitted for a slot that is free, without looking it up
        first."""
        seq = hint.first
        lane = self._lanes.only() if hint.task is None else self._lanes.of(hint.task)
        if (
            seq is None
            or lane is None
            or self._dispatcher.free_slots() <= 0
            or self._claims.is_full
        ):
            return False
        if seq is None or lane is None or not lane.may_take(seq):
            return False
        if not self._claims.may_claim(seq):
            return False
        entry = Entry(seq, attempt=1, since=self._clock.now())
        self._enter(entry)
        job, seen = None, Causal() if hint.is_planned else None
        try:
            for _ in range(
                2
            ):  # it is announced before it is inserted, and by the second time it is there
                if job is None and self._may_claim():
                    job = await self._store.run(
                        claim.claim_announced(self.node, seq, sorted(lane.keys)),
                        causal=seen or False,
                    )
        except Unstorable as error:
            # One level too deep for the answer, where it stands within another document: claimed
            # as others are, it is not in the answer.
            self._doubt(error)
            await self.resolve()
            return False
        except StoreError as error:
            self._doubt(error)
            return False
        self._refused_at = float("-inf")
        self._unsure.discard(seq)
        lane.asked_for(seq, is_taken=job is not None, now=self._clock.now())
        if job is None:
            self._claims.drop(seq)
            return False
        if reason := unfit(job):
            unable = JobError("InvalidJob", f"this document cannot be a job: {reason}")
            self._dispatcher.end(entry, Outcome("refused", seq, 1, error=unable))
            return True
        self._claims.enter(entry := _entry(job, 1, entry.since))
        if entry.place is not None and seen is None:
            self.has_doubts = True  # it is ours; its licence is read where all in doubt are
            self._unsure.add(seq)
            return True
        try:
            await self._keep([entry], {seq}, seen=seen)
        except StoreError as error:
            self._doubt(error)
        return True

    def enter(self, job: Mapping[str, Any]) -> bool:
        """A step's job that is about to be inserted: whether this node claims it with that, for a
        slot that is free. From then on it is pending (J1)."""
        seq, key = int(job["seq"]), str(job["task"])
        waiting = len(self._claims.having(Status.PENDING)) - len(self._dispatcher.coming)
        if (
            self._lanes.of(key) is None
            or self._dispatcher.free_slots() <= waiting
            or self._claims.is_full
            or not self._claims.may_claim(seq)
        ):
            return False
        shown = {name: job[name] for name in ("_id", *FIELDS) if name in job}
        try:
            raw = bson.encode(shown, codec_options=DECODED)
        except (BSONError, OverflowError, UnicodeError):
            return False  # who inserts it is told why
        found = Raw(shown, raw)
        if unfit(found) or not self._choice.takeable([found], 1):
            return False
        self._claims.enter(_entry(found, 1, self._clock.now()))
        self._dispatcher.coming.add(seq)
        return True

    async def keep_entered(
        self, seqs: Collection[int], ours: Collection[int], seen: Causal
    ) -> None:
        """Of those that were entered so and sent, those that are ours are kept; the rest is in
        doubt."""
        sent = self._dispatcher.coming.intersection(seqs)
        if not sent:
            return
        async with self._settling_doubts:
            mine = [entry for seq in sent if seq in ours and (entry := self._claims.get(seq))]
            self._unsure |= sent
            self.has_doubts = self.has_doubts or len(mine) < len(sent)
            self._pass(mine)
            try:
                await self._keep(mine, {entry.seq for entry in mine}, seen=seen)
            except StoreError as error:
                self._doubt(error)

    def _pass(self, entries: Iterable[Entry]) -> None:
        """Whoever looks for jobs need not look for these."""
        for entry in entries:
            lane = self._lanes.of(entry.task)
            if lane is not None and lane.may_take(entry.seq):
                lane.asked_for(entry.seq, is_taken=True, now=self._clock.now())

    def _enter(self, entry: Entry) -> None:
        self._claims.enter(entry)
        self._unsure.add(entry.seq)

    async def resolve(self) -> None:
        """Ask the store about claims whose outcome stayed unknown."""
        async with self._settling_doubts:
            await self._resolve()
            self.has_doubts = False

    async def _resolve(self) -> None:
        by_attempt: dict[int, list[Entry]] = {}
        for entry in self._claims.having(Status.PENDING):
            if entry.seq in self._unsure:
                by_attempt.setdefault(entry.attempt, []).append(entry)
        for attempt, entries in by_attempt.items():
            seen = Causal() if any(entry.place for entry in entries) else None
            ours = await self._store.run(
                claim.held(self.node, [entry.seq for entry in entries], attempt),
                causal=seen or False,
            )
            for entry in entries:
                if (
                    entry.seq in ours and not entry.raw
                ):  # claimed by its number alone, and what it is was in the answer
                    ours.discard(entry.seq)
                    self._unsure.discard(entry.seq)
                    self._dispatcher.end(entry, Outcome("released", entry.seq, attempt))
            left = [entry for entry in entries if entry.status is Status.PENDING]
            await self._keep(left, ours, seen=seen)
            for entry in entries:
                if entry.seq not in ours:
                    self._look_at(entry.seq)  # it may never have been claimed

    async def _take_batch(self, jobs: Sequence[Raw], attempt: int, *, first: bool = False) -> int:
        if not self._may_claim():
            return 0
        now = self._clock.now()
        entries = {job["seq"]: _entry(job, attempt + 1, now) for job in jobs}
        for entry in entries.values():
            self._enter(entry)
        try:
            seen = Causal() if any(one.place for one in entries.values()) else None
            ours = await self._store.run(
                claim.claim(self.node, list(entries), attempt), causal=seen or False
            )
            self._refused_at = float("-inf")
            await self._keep(entries.values(), ours, first=first, seen=seen)
        except Unstorable as error:
            self._doubt(error)
            return await self._take_apart(jobs, attempt, error)
        except StoreError as error:
            self._doubt(error)
            if not isinstance(
                error, StoreUnavailable
            ):  # it is found at once again, and refused again
                await asyncio.sleep(jittered(AFTER_A_FAILURE, least=0.4))
            return 0
        return len(ours)

    async def _take_apart(self, jobs: Sequence[Raw], attempt: int, error: StoreError) -> int:
        """One of these cannot even be claimed, and kept the others from it: without it they can."""
        await self.resolve()
        left = [job for job in jobs if self._claims.may_claim(job["seq"])]
        if len(jobs) == 1:
            self._choice.odd += [(job, f"it cannot be claimed: {error}") for job in left]
            return 0
        taken = 0
        for job in left:
            taken += await self._take_batch([job], attempt)
        return taken

    def _doubt(self, error: StoreError) -> None:
        """A claim whose outcome is unknown: its jobs stay pending until a read tells."""
        self.has_doubts = True
        self._troubles.note("claiming", error)
        if not isinstance(error, StoreUnavailable):
            self._refused_at = self._clock.now()

    async def _keep(
        self,
        entries: Iterable[Entry],
        ours: set[int],
        *,
        first: bool = False,
        seen: Causal | None = None,
    ) -> None:
        """What is ours may start; of plans only what has a licence, which is read after the claim
        (PL5)."""
        held = []
        for entry in entries:
            self._unsure.discard(entry.seq)
            if entry.seq in ours:
                held.append(entry)
            else:
                self._claims.drop(entry.seq)
                self._dispatcher.coming.discard(entry.seq)
        places = {entry.seq: entry.place for entry in held if entry.place is not None}
        self._dispatcher.offer([one for one in held if one.place is None], first=first)
        if not places:
            return
        self._unsure.update(places)
        licences = await self._store.run(read_licences(places), causal=seen or True)
        for one in held:
            one.seen = seen
        self._unsure.difference_update(places)
        self._dispatcher.coming.difference_update(places)
        self._dispatcher.offer([one for one in held if one.seq in licences.granted], first=first)
        for one in held:
            if one.place is not None and one.seq not in licences.granted:
                is_orphan = one.seq in licences.orphans
                outcome = Outcome("unlicensed", one.seq, one.attempt, final=is_orphan)
                self._dispatcher.end(one, outcome)


def _entry(job: Raw, attempt: int, now: float) -> Entry:
    timeout, max_attempts, start_by = (
        job.get("timeout"),
        job.get("max_attempts"),
        job.get("start_by"),
    )
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
        place=None if job.get("plan") is None else _place_of(job),
    )
    if (
        isinstance(start_by, DatetimeMS) and not entry.fails and not entry.lost
    ):  # else it was started, in time
        entry.start_by = int(start_by) / 1000
    return entry


def _place_of(job: Raw) -> PlanPlace:
    """Where it belongs; what nobody can read is nobody's, and gets no licence."""
    return PlanPlace.from_document(job["plan"]) or PlanPlace(0, "")
