"""Help: what others have left lying, among those who have the same tasks (F6, MS8)."""

from __future__ import annotations

from tontine.config import Timing
from tontine.records.share import Part, crowd
from tontine.store import fresh, postponed
from tontine.store.call import AsyncStore

from ..membership.member import Member
from ..running.dispatch import Dispatcher
from .cadence import Cadence
from .choice import Choice, Jobs
from .lanes import Lanes
from .surroundings import NEVER

HELP_EVERY, HELP_SOON, HELP_POLL = 5.0, 1.0, 0.75
HELP_LOOKS_AT = 64
HELP_GOOD_FOR = 0.5


class Help:
    """One context's part in it."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        cadence: Cadence,
        member: Member,
        dispatcher: Dispatcher,
        lanes: Lanes,
        choice: Choice,
    ) -> None:
        self._store = store
        self._timing = timing
        self._cadence = cadence
        self._member = member
        self._dispatcher = dispatcher
        self._lanes = lanes
        self._choice = choice
        self._help_at = self._fair_at = NEVER
        self._helps_with = 0
        self._lying_there: Jobs = []
        self._was_helpful = False
        self._helps_soon = False

    def soon(self) -> float:
        """A member has more than it can do; in how many seconds to look."""
        self._helps_soon = True
        return max(self._timing.help_after, self._help_at + HELP_SOON - self._cadence.now())

    def had_jobs(self) -> None:
        """The own share was not empty: others may have more than they can do."""
        self._helps_soon = True

    async def left(self) -> Jobs:
        """What others have left lying for longer than H, for slots that are free now.

        One look finds enough for a while: the claim decides whether a job is still there.
        """
        if self._dispatcher.free_slots() <= 0 or self._lanes.is_alone:
            return []
        now = self._cadence.now()
        if now - self._help_at >= HELP_GOOD_FOR:
            self._lying_there.clear()
        if not self._lying_there and (self._was_helpful or self._is_time()):
            self._help_at, self._helps_soon = now, False
            self._lying_there = self._spread(
                await self._lying(max(HELP_LOOKS_AT, 4 * self._dispatcher.slots))
            )
            self._was_helpful = bool(self._lying_there)
        free = self._dispatcher.free_slots()
        taken, self._lying_there = self._lying_there[:free], self._lying_there[free:]
        return taken

    def _is_time(self) -> bool:
        """Rarely while nothing is found; once a second if the own share was not empty, or a member
        asked."""
        every = HELP_SOON if self._helps_soon else HELP_EVERY * crowd(self._lanes.fewest)
        return self._cadence.is_time(self._help_at, every, HELP_POLL)

    async def oldest(self) -> Jobs:
        """Now and then the oldest job of anybody, despite an own backlog: a stuck member must not
        starve it."""
        now = self._cadence.now()
        is_early = now - self._fair_at < 10 * self._timing.help_after
        if is_early or self._lanes.is_exhausted or self._lanes.is_alone:
            return []
        is_slow = self._dispatcher.pace.mean > self._timing.help_after
        if self._dispatcher.free_slots() <= 0 and is_slow:
            return []  # it would only wait here instead of there
        self._fair_at = now
        return await self._lying(1)

    async def _lying(self, limit: int) -> Jobs:
        """What has been lying for longer than H: fresh jobs, else postponed and ranked ones in
        turn."""
        keys = self._lanes.shared_keys
        age, suspects = self._timing.help_after, self._dispatcher.takes_suspects
        found = self._choice.fit(await self._store.run(fresh.find_left(keys, age, limit)))
        if found:
            return found
        everybody = [Part(tuple(keys))]
        others = (
            postponed.find_overdue(keys, age, limit, suspects=suspects),
            postponed.find_ranked(everybody, limit, low=True, age=age, suspects=suspects),
        )
        if not self._was_helpful:  # otherwise there may be more of the same kind
            self._helps_with = (self._helps_with + 1) % len(others)
        return self._choice.fit(await self._store.run(others[self._helps_with]))

    def _spread(self, jobs: Jobs) -> Jobs:
        """From the far end, because owners begin at the near one; and each helper another part of
        it first."""
        others = max(1, len(self._member.roster.members) - 1)
        share = self._member.share
        mine = (share.rank if share else 0) % others
        ordered = enumerate(sorted(jobs, key=lambda job: -job["seq"]))
        return [
            job for _, job in sorted(ordered, key=lambda one: (one[0] % others != mine, one[0]))
        ]
