"""The lanes of one context: its task keys, grouped by the share that the node has of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tontine.records.share import Part, Share
from tontine.store import fresh
from tontine.store.call import AsyncStore

from ..membership.member import Member
from .lane import Lane
from .surroundings import Surroundings
from .sweep import Sweep

FAR_AHEAD = 10_000_000


class Lanes:
    """All lanes of a context, as the roster sees them and cut to what it serves now (MS3)."""

    def __init__(
        self, node: str, store: AsyncStore, member: Member, surroundings: Surroundings
    ) -> None:
        self._node = node
        self._store = store
        self._member = member
        self._surroundings = surroundings
        self._lanes: list[Lane] = []
        self._by_key: dict[str, Lane] = {}
        self.arranged_for: tuple[int, frozenset[str]] = (-1, frozenset())
        """The epoch and the keys that they are right for."""
        self.are_all = True
        """Whether they have all that the node offers: what another of its contexts serves, or is
        not claimed now, has numbers among theirs."""

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes)

    def __len__(self) -> int:
        return len(self._lanes)

    def of(self, key: str) -> Lane | None:
        """The lane of a task key; None when this context has no share of it."""
        return self._by_key.get(key)

    def only(self) -> Lane | None:
        """The one lane that there is; None when there are more."""
        return self._lanes[0] if len(self._lanes) == 1 else None

    @property
    def keys(self) -> list[str]:
        return sorted(self._by_key)

    @property
    def shared_keys(self) -> list[str]:
        """Those that others have a share of, too."""
        return sorted(key for key, lane in self._by_key.items() if lane.share.size > 1)

    def parts(self) -> list[Part]:
        return [Part(tuple(sorted(lane.keys)), lane.share) for lane in self._lanes]

    @property
    def is_exhausted(self) -> bool:
        return all(lane.is_exhausted for lane in self._lanes)

    @property
    def is_alone(self) -> bool:
        """Whether nobody else has any of its tasks."""
        return all(lane.share.size < 2 for lane in self._lanes)

    @property
    def fewest(self) -> int:
        """How many members have the task that fewest have: any of them would help with it."""
        return min((lane.share.size for lane in self._lanes), default=1)

    @property
    def counter(self) -> int:
        """The last number that is known to have been given."""
        return max((lane.sweep.counter for lane in self._lanes), default=self._surroundings.counter)

    @property
    def place(self) -> list[tuple[int, bool]]:
        """Where they are; it stays the same as long as nothing was looked through."""
        return [(lane.sweep.cursor, lane.is_exhausted) for lane in self._lanes]

    def knows(self, last: int) -> bool:
        """Whether numbers up to this one may be what they seem: whoever rang far ahead does not
        know the numbers."""
        return bool(self._lanes) and last <= self.counter + FAR_AHEAD

    def hint(self, first: int, last: int, task: str | None, *, is_fresh: bool) -> bool:
        """Jobs were inserted, or are there again; whether any of them is in a share."""
        lanes = self._lanes if task is None else [lane for lane in [self.of(task)] if lane]
        heard = [lane.hint(first, last, is_fresh=is_fresh) for lane in lanes]
        return any(heard)

    async def arrange(self, keys: Iterable[str]) -> bool:
        """Put the lanes right for the roster as it is known and the keys that are served now;
        whether the roster was a new one."""
        roster, wanted = self._member.roster, frozenset(keys)
        epoch, _ = self.arranged_for
        for lane in self._lanes:
            lane.counted(self._surroundings.counter)
        if self.arranged_for == (roster.epoch, wanted):
            return False
        lanes = []
        for share, some in roster.parts_of(self._node, wanted).items():
            before = self._lane_before(some, share)
            if before is not None:
                lanes.append(before.copy_for(some, share))
            else:
                lanes.append(await self._new_lane(some, share))
        self._lanes = lanes
        self._by_key = {key: lane for lane in lanes for key in lane.keys}
        offer = roster.offer_of(self._node)
        self.are_all = offer is None or offer.names() <= wanted
        self.arranged_for = (roster.epoch, wanted)
        return roster.epoch != epoch

    def _lane_before(self, keys: frozenset[str], share: Share) -> Lane | None:
        """The lane that had all of these keys, and the same share of them; None when there is
        none."""
        before = {self._by_key.get(key) for key in keys}
        lane = before.pop() if len(before) == 1 else None
        if lane is None or (lane.share.rank, lane.share.size) != (share.rank, share.size):
            return None
        return lane

    async def _new_lane(self, keys: frozenset[str], share: Share) -> Lane:
        counter = self._surroundings.counter
        lowest = await self._store.run(fresh.lowest_fresh(sorted(keys), 0))
        start = counter + 1 if lowest is None else lowest
        return Lane(keys, Sweep(share, start, max(counter, self.counter)))
