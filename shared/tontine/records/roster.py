"""The roster: the ordered members that divide the work, under an epoch that every change raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .job import is_text, is_whole
from .share import Share, rank_of

UNSOUND = -1
"""The epoch of a roster that has none."""
LAST_EPOCH = 2**41
FURTHEST = 2**40
"""How far an epoch can be ahead of the one known: further than anybody counts, somebody wrote it.
"""


@dataclass(frozen=True, slots=True)
class Roster:
    """One epoch's members, by node id; a member's place is its rank."""

    epoch: int = 0
    members: tuple[str, ...] = ()

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
        return cls(number, tuple(dict.fromkeys(known)))

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
        if node not in self.members:
            return None
        return Share(self.epoch, self.members.index(node), len(self.members))

    def owner_of(self, seq: int) -> str | None:
        """The member whose share a number is in; None while there is no member."""
        return self.members[rank_of(seq, len(self.members))] if self.members else None

    def shares(self) -> dict[str, Share]:
        """Every member's share."""
        return {
            node: Share(self.epoch, rank, len(self.members))
            for rank, node in enumerate(self.members)
        }

    def joined_by(self, node: str) -> Roster:
        """The next roster with `node` as its last member; itself when nothing changes."""
        return self if node in self.members else Roster(self.epoch + 1, (*self.members, node))

    def without(self, nodes: Iterable[str]) -> Roster:
        """The next roster without `nodes`; itself when nothing changes."""
        gone = set(nodes)
        left = tuple(member for member in self.members if member not in gone)
        return self if left == self.members else Roster(self.epoch + 1, left)

    def is_followed_by(self, other: Roster) -> bool:
        """Whether the other can have come after this one."""
        return 0 < other.epoch - self.epoch < FURTHEST

    def in_place_of(self, other: Roster) -> Roster:
        """The roster that follows this one where a document says something else of the same or an
        earlier epoch.

        That document was restored, edited or made anew; its members are the news in it.
        """
        believed = other.epoch if other.epoch - self.epoch < FURTHEST else 0
        return Roster(max(self.epoch, believed, 0) + 1, other.members)
