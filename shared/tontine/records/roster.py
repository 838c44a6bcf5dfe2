"""The roster: the ordered members that divide the work, under an epoch that every change raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .job import is_text, is_whole
from .kind import Kind, read_kinds, with_place
from .offer import Offer
from .share import Share, rank_of

UNSOUND = -1
"""The epoch of a roster that has none."""
LAST_EPOCH = 2**41
FURTHEST = 2**40
"""How far an epoch can be ahead of the one known: further than anybody counts, somebody wrote it.
"""


def place_among(ranks: Sequence[int], seq: int) -> int | None:
    """The rank that a seq falls to among those who can run it (MS2); None when nobody can."""
    return ranks[rank_of(seq, len(ranks))] if ranks else None


@dataclass(frozen=True, slots=True)
class Roster:
    """One epoch's members, by node id; a member's place is its rank. The kinds say what each
    offers: a member that is in none is old software."""

    epoch: int = 0
    members: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Roster:
        """What a document says, as far as it says anything: whoever wrote it may have written
        anything."""
        if document is None:
            return cls()
        epoch, members = document.get("epoch"), document.get("members")
        known = (
            [member for member in members if is_text(member)] if isinstance(members, list) else []
        )
        number = int(epoch) if is_whole(epoch) and 0 <= epoch < LAST_EPOCH else UNSOUND
        distinct = tuple(dict.fromkeys(known))
        return cls(number, distinct, read_kinds(document.get("kinds"), set(distinct)))

    def to_document(self) -> dict[str, Any]:
        """What a change writes."""
        return {
            "epoch": self.epoch,
            "members": list(self.members),
            "kinds": [kind.to_document() for kind in self.kinds],
        }

    def is_in(self, document: Mapping[str, Any] | None) -> bool:
        """Whether a document says exactly this."""
        return (
            document is not None
            and document.get("epoch") == self.epoch
            and document.get("members") == [*self.members]
        )

    def __contains__(self, node: object) -> bool:
        return node in self.members

    def share_of(self, node: str) -> Share | None:
        """What `node` should claim in this epoch; None when it is no member."""
        return self._share_among(self.members, node)

    def members_of(self, key: str) -> tuple[str, ...]:
        """The members that divide the jobs of a task key (MS1). Where nobody says what he offers,
        all are old software, and all divide all."""
        return (
            self.members if not self.kinds else tuple(self.members[at] for at in self.ranks_of(key))
        )

    def ranks_of(self, key: str) -> Sequence[int]:
        """The same by their ranks among all members."""
        if not self.kinds:
            return range(len(self.members))
        able = {node for kind in self.kinds if kind.offer.has(key) for node in kind.of}
        if len(able) == len(self.members):
            return range(len(self.members))  # many rosters may be kept, and most are all alike
        return tuple(rank for rank, member in enumerate(self.members) if member in able)

    def owner_of(self, seq: int, key: str) -> str | None:
        """The member that should claim a job, by its number and its task key (MS2); None while no
        member serves it."""
        rank = place_among(self.ranks_of(key), seq)
        return None if rank is None else self.members[rank]

    def lanes_of(self, keys: Iterable[str]) -> dict[tuple[int, ...], list[str]]:
        """Task keys by the ranks of those who divide their jobs; keys that nobody serves are in
        none."""
        lanes: dict[tuple[int, ...], list[str]] = {}
        for key in keys:
            if ranks := tuple(self.ranks_of(key)):
                lanes.setdefault(ranks, []).append(key)
        return lanes

    def parts_of(self, node: str, keys: Iterable[str]) -> dict[Share, frozenset[str]]:
        """What a node should claim of some task keys: those of which it has the same share
        together. Keys that it has no share of are in none."""
        found: dict[Share, set[str]] = {}
        shares: dict[tuple[bool, ...], Share | None] = {}
        for key in keys:
            able = tuple(kind.offer.has(key) for kind in self.kinds)
            if able not in shares:  # members are many, and most tasks have the same
                shares[able] = self._share_among(self.members_of(key), node)
            if (share := shares[able]) is not None:
                found.setdefault(share, set()).add(key)
        return {share: frozenset(some) for share, some in found.items()}

    def _share_among(self, members: tuple[str, ...], node: str) -> Share | None:
        return Share(self.epoch, members.index(node), len(members)) if node in members else None

    @property
    def is_uniform(self) -> bool:
        """Whether all members offer the same, as far as they say."""
        return not self.kinds or (len(self.kinds) == 1 and not self.old_members())

    def offer_of(self, node: str) -> Offer | None:
        """What a node says that it offers; None when it is no member, or old software."""
        return next((kind.offer for kind in self.kinds if node in kind.of), None)

    def old_members(self) -> list[str]:
        """Members that do not say what they offer: of a release that knew no kinds."""
        placed = {node for kind in self.kinds for node in kind.of}
        return [member for member in self.members if member not in placed]

    def shares(self) -> dict[str, Share]:
        """Every member's share."""
        return {
            node: Share(self.epoch, rank, len(self.members))
            for rank, node in enumerate(self.members)
        }

    def joined_by(self, node: str, offer: Offer | None = None) -> Roster:
        """The next roster with `node` in it, as its last member if it was none, and with this
        offer; itself when nothing changes. Without one it joins as old software does."""
        if node in self.members and self.offer_of(node) == offer:
            return self
        members = self.members if node in self.members else (*self.members, node)
        return Roster(self.epoch + 1, members, with_place(self.kinds, node, offer))

    def without(self, nodes: Iterable[str]) -> Roster:
        """The next roster without `nodes`; itself when nothing changes."""
        gone = set(nodes)
        left = tuple(member for member in self.members if member not in gone)
        if left == self.members:
            return self
        kinds = (kind.cut_to(set(left)) for kind in self.kinds)
        return Roster(self.epoch + 1, left, tuple(kind for kind in kinds if kind.of))

    def is_followed_by(self, other: Roster) -> bool:
        """Whether the other can have come after this one."""
        return 0 < other.epoch - self.epoch < FURTHEST

    def in_place_of(self, other: Roster) -> Roster:
        """The roster that follows this one where a document says something else of the same or an
        earlier epoch.

        That document was restored, edited or made anew; its members are the news in it.
        """
        believed = other.epoch if other.epoch - self.epoch < FURTHEST else 0
        return Roster(max(self.epoch, believed, 0) + 1, other.members, other.kinds)
