"""The roster: the ordered members that divide the work, under an epoch that every change raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .share import Share


@dataclass(frozen=True, slots=True)
class Roster:
    """One epoch's members, by node id; a member's place is its rank."""

    epoch: int = 0
    members: tuple[str, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Roster:
        if document is None:
            return cls()
        return cls(int(document["epoch"]), tuple(document["members"]))

    def __contains__(self, node: object) -> bool:
        return node in self.members

    def share_of(self, node: str) -> Share | None:
        """What `node` should claim in this epoch; None when it is no member."""
        if node not in self.members:
            return None
        return Share(self.epoch, self.members.index(node), len(self.members))

    def shares(self) -> dict[str, Share]:
        """Every member's share."""
        return {node: Share(self.epoch, rank, len(self.members)) for rank, node in enumerate(self.members)}

    def joined_by(self, node: str) -> Roster:
        """The next roster with `node` as its last member; itself when nothing changes."""
        return self if node in self.members else Roster(self.epoch + 1, (*self.members, node))

    def without(self, nodes: Iterable[str]) -> Roster:
        """The next roster without `nodes`; itself when nothing changes."""
        gone = set(nodes)
        left = tuple(member for member in self.members if member not in gone)
        return self if left == self.members else Roster(self.epoch + 1, left)
