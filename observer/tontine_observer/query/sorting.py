"""Sorting rows by one fact; equal ones keep the order of their names, and what has no value comes
last. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .filters import Facts

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Order:
    """What sorts a list."""

    fact: str = ""
    is_reversed: bool = False

    def next(self, facts: Sequence[str]) -> Order:
        """The order by the fact after this one; after the last comes none."""
        if not facts:
            return Order()
        if self.fact not in facts:
            return Order(facts[0])
        place = facts.index(self.fact) + 1
        return Order(facts[place] if place < len(facts) else "")

    def turned(self) -> Order:
        return Order(self.fact, not self.is_reversed)


def ordered(rows: Iterable[T], facts: Callable[[T], Facts], order: Order) -> list[T]:
    """The rows, sorted."""
    kept = list(rows)
    if not order.fact:
        return kept[::-1] if order.is_reversed else kept
    known: list[tuple[tuple[int, float, str], T]] = []
    unknown: list[T] = []
    for row in kept:
        value = facts(row).get(order.fact)
        if value is None or value == "":
            unknown.append(row)
        else:
            known.append(
                ((0, value, "") if not isinstance(value, str) else (1, 0.0, value.casefold()), row)
            )
    known.sort(key=lambda pair: pair[0], reverse=order.is_reversed)
    return [row for _, row in known] + unknown


def place_of(keys: Sequence[object], key: object, before: int) -> int:
    """Where the cursor goes when rows have moved: to the same row, else to where it was.

    It is looked for around its old place: rows seldom move far from one frame to the next.
    """
    count = len(keys)
    before = max(0, min(before, count - 1))
    for away in range(count):
        for place in (before - away, before + away):
            if 0 <= place < count and keys[place] == key:
                return place
    return before
