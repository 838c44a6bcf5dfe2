"""Shares: which member should claim which seq. They only avoid contention; the claim itself
decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any


def crowd(members: int) -> float:
    """How much rarer than a few each of many members does what any of them can do: it is enough
    that one of them does.

    Together they still do it more often the more they are, and a few survivors of many not too
    late.
    """
    return min(max(1.0, members / 8), 3.0)


def rank_of(seq: int, size: int) -> int:
    """The rank of the member whose share a seq is in."""
    return seq % size


@dataclass(frozen=True, slots=True)
class Share:
    """Every seq with `seq % size == rank`, for as long as the roster stays at `epoch`."""

    epoch: int
    rank: int
    size: int

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Share:
        return cls(int(document["epoch"]), int(document["rank"]), int(document["size"]))

    @classmethod
    def said_in(cls, value: Any) -> Share | None:
        """The share that stands in a record; None where nothing there can be one, whoever wrote
        it."""
        try:
            return cls.from_document(value)
        except (TypeError, KeyError, ValueError, OverflowError):
            return None

    def to_document(self) -> dict[str, int]:
        return {"epoch": self.epoch, "rank": self.rank, "size": self.size}

    def owns(self, seq: int) -> bool:
        return rank_of(seq, self.size) == self.rank

    def first_from(self, seq: int) -> int:
        """The lowest seq of this share that is not below `seq`."""
        return seq + rank_of(self.rank - seq, self.size)

    def seqs(self, start: int, end: int, count: int) -> range:
        """Up to `count` seqs of this share from `start`, none above `end`."""
        first = self.first_from(start)
        return range(first, min(end + 1, first + count * self.size), self.size)

    def query(self) -> dict[str, list[int]]:
        """The share as a MongoDB condition on `seq`."""
        return {"$mod": [self.size, self.rank]}


@dataclass(frozen=True, slots=True)
class Part:
    """Task keys, and which numbers of their jobs are meant: one member's share, or all; from one
    on."""

    keys: tuple[str, ...]
    share: Share | None = None
    start: int = 0


def at_once(parts: Iterable[Part], most: int) -> Iterator[list[Part]]:
    """The same with at most so many keys in each list."""
    some: list[Part] = []
    room = most
    for part in parts:
        left = part.keys
        while left:
            some.append(replace(part, keys=left[:room]))
            left, room = left[room:], room - len(left[:room])
            if not room:
                yield some
                some, room = [], most
    if some:
        yield some
