"""Where a node looks for jobs, and how often: its share first, then what others have left lying.

Each look returns jobs to claim. None of them decides anything: the claim does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tontine.clock import Clock
from tontine.config import Timing
from tontine.records.job import unfit
from tontine.records.share import Share, crowd
from tontine.store import claim
from tontine.store.call import AsyncStore
from tontine.store.counter import raise_counter
from tontine.store.raw import Raw, Some
from tontine.store.retention import FOR_EVER

from ..claims import Claims
from ..membership.member import Member
from ..running.dispatch import Dispatcher
from .sweep import Sweep

NEVER = float("-inf")
SOON = 0.05
"""When a look found as much as it could take, the next one is due this soon."""
AROUND_EVERY, AROUND_POLL = 5.0, 0.25
DUE_EVERY, DUE_POLL, DUE_AGAIN = 5.0, 0.5, 0.2
RANKED_EVERY, RANKED_POLL = 5.0, 0.25
HELP_EVERY, HELP_SOON, HELP_POLL = 5.0, 1.0, 0.75
HELP_LOOKS_AT = 64
HELP_GOOD_FOR = 0.5
BEHIND_SOON, BEHIND_EVERY = 1.0, 60.0
BEHIND_LOOKS_AT = 100
HIDDEN_EVERY, HIDDEN_OTHERS_EVERY = 120.0, 300.0
FAR_AHEAD = 10_000_000

Jobs = list[Raw]


class Lane:
    """One node's looks, each at its own pace; slower while the bell would wake us."""

    def __init__(
        self,
        node: str,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        member: Member,
        claims: Claims,
        dispatcher: Dispatcher,
        watching: Callable[[], bool],
        is_noted: Callable[[str], bool],
    ) -> None:
        self.node = node
        self.sweep: Sweep | None = None
        self.retention = FOR_EVER
        self.has_inbox = False
        self.next_due = float("inf")
        """When the next postponed job of the share that we know of is due."""
        self._store = store
        self._timing = timing
        self._clock = clock
        self._member = member
        self._claims = claims
        self._dispatcher = dispatcher
        self._watching = watching
        self._is_noted = is_noted
        self._around_at = self._due_at = self._ranked_at = self._low_at = self._help_at = (
            self._fair_at
        ) = NEVER
        self._behind_at, self._behind_for = NEVER, BEHIND_SOON
        self._helps_with = 0
        self._lying_there: Jobs = []
        self._lows: Jobs = []
        self._was_helpful = self._helps_soon = False
        self.odd: list[tuple[Raw, str]] = []
        """Jobs that were found and cannot be claimed by anybody, and why."""
        self.passed_over = False
        """Whether there may be suspects that were found, or not looked for, while none could be
        claimed."""
        self._hidden_at = clock.now()
        self._counted = 0

    @property
    def tasks(self) -> list[str]:
        """What may be claimed now: one that must not run twice only once the record says so
        (MO7)."""
        return sorted(
            name
            for name, facts in self._dispatcher.tasks.items()
            if facts.on_lost != "fail" or self._is_noted(name)
        )

    def forget_roster(self) -> None:
        """The roster changed: read it before anything else."""
        self._around_at = NEVER

    def knows(self, last: int) -> bool:
        """Whether numbers up to this one may be what they seem: whoever rang far ahead does not
        know the numbers."""
        return self.sweep is not None and last <= self.sweep.counter + FAR_AHEAD

    def hint(self, first: int, last: int, *, is_fresh: bool) -> bool:
        """Jobs were inserted, or are there again; whether any of them is in the share."""
        if self.sweep is None:
            return False
        return (
            self.sweep.hint(first, last)
            if is_fresh
            else bool(self.sweep.share.seqs(first, last, 1))
        )

    def is_missing(self, seq: int) -> bool:
        """Whether it was looked up and not found."""
        return self.sweep is not None and self.sweep.is_missing(seq)

    def due_in(self, delay: float) -> None:
        """A job went back to the queue, and is due so many seconds from now."""
        self.next_due = min(self.next_due, self._clock.now() + delay)

    def look_for_suspects(self) -> None:
        """One can be claimed again. They come one at a time: without this, each would wait for the
        next slow look."""
        if self.passed_over and self._dispatcher.takes_suspects:
            self.passed_over = False
            self.next_due = self._clock.now()
            self._low_at = NEVER

    async def around(self, hurry: bool) -> None:
        """Read roster, counter and settings, when it is time to or the sweep has come to its
        end."""
        now = self._clock.now()
        exhausted = self.sweep is None or self.sweep.is_exhausted
        if not self._is_time(self._around_at, AROUND_EVERY, AROUND_POLL) and not (
            hurry and exhausted
        ):
            return
        around = await self._store.run(claim.overview())
        self._around_at = now
        if around.counter < self._counted:  # it was set back: numbers would be given twice
            around = replace(around, counter=await self._store.run(raise_counter(self._counted)))
        self._counted = around.counter
        self._member.see(around.roster)
        self.retention = around.retention
        self.has_inbox = around.inbox
        share = self._member.roster.share_of(self.node)
        if share is None:
            self.sweep = None
        elif self.sweep is None or self.sweep.share != share:
            lowest = await self._store.run(claim.lowest_fresh(self.tasks, 0))
            self.sweep = Sweep(
                share, around.counter + 1 if lowest is None else lowest, around.counter
            )
            self._due_at, self.next_due = NEVER, float("inf")
            self._passed_by()
        else:
            self.sweep.counter = max(self.sweep.counter, around.counter)

    async def ranked(self, sweep: Sweep, room: int, hurry: bool) -> Jobs:
        """Jobs of the share with a priority above zero, highest first; when nothing else is left,
        also below."""
        low = sweep.is_exhausted
        last, every = self._ranked_at, RANKED_POLL
        if low:
            last, every = self._low_at, RANKED_EVERY * self._crowd
        if not hurry and not self._is_time(last, every, RANKED_POLL):
            return []
        suspects = self._dispatcher.takes_suspects
        self.passed_over = self.passed_over or (low and not suspects)
        answer = await self._store.run(
            claim.find_ranked(sweep.share, self.tasks, room, low=low, suspects=suspects)
        )
        self._ranked_at = self._clock.now()
        if low:
            self._low_at = self._ranked_at - (every - SOON if answer else 0.0)
        elif _is_all_it_could_be(answer, room):
            self._ranked_at -= every - SOON
        found = self._fit(answer)
        self._lows = [job for job in found if (job["priority"] or 0) < 0]
        return [job for job in found if (job["priority"] or 0) >= 0]

    async def due(self, sweep: Sweep, room: int, hurry: bool) -> Jobs:
        """Postponed jobs of the share whose time has come; also notes when the next one's will (F5
        a)."""
        now = self._clock.now()
        every = DUE_EVERY * self._crowd
        due = now >= self.next_due or self._is_time(self._due_at, every, DUE_POLL)
        if not due and hurry:
            due = now - self._due_at >= DUE_AGAIN
            self.due_in(DUE_AGAIN)
        if not due:
            return []
        self._due_at, self.next_due = now, float("inf")
        suspects = self._dispatcher.takes_suspects
        self.passed_over = self.passed_over or not suspects
        answer = await self._store.run(
            claim.find_due(sweep.share, self.tasks, every * 1.5, room, suspects=suspects)
        )
        found = self._fit(answer)
        waits = [job["wait"] / 1000 for job in found]
        later = [wait for wait in waits if wait > 0]
        if later:
            self.due_in(later[0])
        elif _is_all_it_could_be(answer, room):
            self.due_in(SOON)
        return [job for job, wait in zip(found, waits, strict=True) if wait <= 0]

    async def fresh(self, sweep: Sweep, room: int, hurry: bool) -> Jobs:  # noqa: ARG002 - called like the others
        """The share's next seqs; when none of them is there, jump to the lowest that is (F4)."""
        await self._behind(sweep)
        planned = sweep.plan(room, self._clock.now())
        if not planned:
            return []
        answer = await self._store.run(claim.find_fresh(planned, self.tasks))
        if answer.is_cut:  # what comes after the last of these was not looked at
            planned = [seq for seq in planned if seq <= answer[-1]["seq"]]
        found = self._fit(answer)
        taken = self.takeable(sorted(found, key=lambda job: job["seq"]), room)
        self._helps_soon = self._helps_soon or bool(taken)
        sweep.looked_up(
            planned, {job["seq"] for job in found}, {job["seq"] for job in taken}, self._clock.now()
        )
        if not found and not sweep.is_exhausted:
            sweep.jump(await self._store.run(claim.lowest_fresh(self.tasks, sweep.cursor)))
            self._passed_by()
        return taken

    def _fit(self, jobs: Jobs) -> Jobs:
        """Those that can be claimed; the others are remembered, to be set aside."""
        fit = []
        for job in jobs:
            if (reason := unfit(job)) is None:
                fit.append(job)
            else:
                self.odd.append((job, reason))
        return fit

    async def hidden(self, share: Share) -> None:
        """Now and then look for jobs that no other look would come to: the first member, and others
        in its place."""
        every = HIDDEN_EVERY if share.rank == 0 else HIDDEN_OTHERS_EVERY * self._crowd
        if self._clock.now() - self._hidden_at >= every:
            self._hidden_at = self._clock.now()
            self.odd += await self._store.run(claim.find_odd(self.tasks, BEHIND_LOOKS_AT))

    def takeable(self, jobs: Sequence[Raw], room: int) -> Jobs:
        """The first of these that may be claimed now: a task that must not run twice is never
        claimed ahead of a slot.

        When a node dies, nobody can tell which of the jobs it held had started, so all of such a
        task are failed.
        """
        free = self._dispatcher.free_slots()
        taken: Jobs = []
        for job in jobs[: min(room, self._claims.affordable(len(job.raw) for job in jobs))]:
            facts = self._dispatcher.tasks.get(job["task"])
            if facts is None or (facts.on_lost == "fail" and not self._is_noted(job["task"])):
                continue  # it was found before a worker said so
            if len(taken) >= free and facts.on_lost == "fail":
                break
            taken.append(job)
        return taken

    async def low(self, sweep: Sweep) -> Jobs:
        """Jobs of the share with a priority below zero: for free slots, when there is nothing
        else."""
        lows, self._lows = self._lows, []
        if not lows or self._dispatcher.free_slots() <= 0:
            return []
        self.forget_roster()
        await self.around(hurry=True)
        return (
            lows[: self._dispatcher.free_slots()]
            if self.sweep is sweep and sweep.is_exhausted
            else []
        )

    async def left(self) -> Jobs:
        """What others have left lying for longer than H, for slots that are free now (F6).

        One look finds enough for a while: the claim decides whether a job is still there.
        """
        if self._dispatcher.free_slots() <= 0 or self.is_alone:
            return []
        now = self._clock.now()
        if now - self._help_at >= HELP_GOOD_FOR:
            self._lying_there.clear()
        if not self._lying_there and (self._was_helpful or self._is_time_to_help()):
            self._help_at, self._helps_soon = now, False
            self._lying_there = self._spread(
                await self._lying(max(HELP_LOOKS_AT, 4 * self._dispatcher.slots))
            )
            self._was_helpful = bool(self._lying_there)
        free = self._dispatcher.free_slots()
        taken, self._lying_there = self._lying_there[:free], self._lying_there[free:]
        return taken

    def _is_time_to_help(self) -> bool:
        """Rarely while nothing is found; once a second if the own share was not empty, or a member
        asked."""
        every = HELP_SOON if self._helps_soon else HELP_EVERY * self._crowd
        return self._is_time(self._help_at, every, HELP_POLL)

    def help_soon(self) -> float:
        """A member has more than it can do; in how many seconds to look."""
        self._helps_soon = True
        return max(self._timing.help_after, self._help_at + HELP_SOON - self._clock.now())

    async def oldest(self, sweep: Sweep) -> Jobs:
        """Now and then the oldest job of anybody, despite an own backlog: a stuck member must not
        starve it (F6)."""
        now = self._clock.now()
        if (
            sweep.is_exhausted
            or now - self._fair_at < 10 * self._timing.help_after
            or self.is_alone
        ):
            return []
        if (
            self._dispatcher.free_slots() <= 0
            and self._dispatcher.pace.mean > self._timing.help_after
        ):
            return []  # it would only wait here instead of there
        self._fair_at = now
        return await self._lying(1)

    async def _lying(self, limit: int) -> Jobs:
        """What has been lying for longer than H: fresh jobs, else postponed and ranked ones in
        turn."""
        age, suspects = self._timing.help_after, self._dispatcher.takes_suspects
        found = self._fit(await self._store.run(claim.find_left(self.tasks, age, limit)))
        if found:
            return found
        others = (
            claim.find_overdue(self.tasks, age, limit, suspects=suspects),
            claim.find_ranked(None, self.tasks, limit, low=True, age=age, suspects=suspects),
        )
        if not self._was_helpful:  # otherwise there may be more of the same kind
            self._helps_with = (self._helps_with + 1) % len(others)
        return self._fit(await self._store.run(others[self._helps_with]))

    def _spread(self, jobs: Jobs) -> Jobs:
        """From the far end, because owners begin at the near one; and each helper another part of
        it first."""
        others = max(1, len(self._member.roster.members) - 1)
        share = self._member.roster.share_of(self.node)
        mine = (share.rank if share else 0) % others
        ordered = enumerate(sorted(jobs, key=lambda job: -job["seq"]))
        return [
            job for _, job in sorted(ordered, key=lambda one: (one[0] % others != mine, one[0]))
        ]

    async def _behind(self, sweep: Sweep) -> None:
        """Look for anything in the share that the cursor has passed: once a minute (F5 c), and soon
        after a jump.

        A producer that had taken its numbers, and not yet inserted its jobs, is passed by a jump
        without a trace.
        """
        now = self._clock.now()
        if now < self._behind_at:
            return
        self._behind_at = now + self._behind_for
        self._behind_for = min(self._behind_for * 4, BEHIND_EVERY)
        behind = await self._store.run(
            claim.find_behind(sweep.share, self.tasks, sweep.cursor, BEHIND_LOOKS_AT)
        )
        missed = next((seq for seq in behind if self._claims.may_claim(seq)), None)
        if missed is not None:
            sweep.go_back(missed)

    def _passed_by(self) -> None:
        """The cursor was moved without looking: look behind it soon."""
        self._behind_for = BEHIND_SOON
        self._behind_at = min(self._behind_at, self._clock.now() + BEHIND_SOON)

    def _is_time(self, last: float, every: float, poll: float) -> bool:
        return self._clock.now() - last >= self.pace_of(every, poll)

    def pace_of(self, every: float, poll: float) -> float:
        """How often to do something: rarely while the bell would wake us, else by polling."""
        return every if self._watching() else poll

    @property
    def _crowd(self) -> float:
        """How much rarer than a few each of many looks for what any of those with the same tasks
        would help with."""
        return crowd(self._member.alike)

    @property
    def is_alone(self) -> bool:
        return len(self._member.roster.members) < 2


def _is_all_it_could_be(answer: Some, room: int) -> bool:
    """Whether there may be more of the same."""
    return answer.is_cut or len(answer) == room
