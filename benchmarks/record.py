"""Figures as they are measured, and what is made of them: medians, spreads, and ratios between
contenders."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True, order=True)
class Figure:
    """What a number is of: the part that measured it, what was measured, and on whom."""

    part: str
    measure: str
    contender: str


@dataclass(slots=True)
class Series:
    """The values of one figure, a round each, in the order of the rounds."""

    unit: str
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(self.values)


@dataclass(slots=True)
class Record:
    """All that one run of the benchmark measured, and what it had to leave out."""

    series: dict[Figure, Series] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """Of the servers."""

    def add(self, part: str, measure: str, contender: str, value: float, unit: str) -> None:
        self.series.setdefault(Figure(part, measure, contender), Series(unit)).values.append(value)

    def find(self, part: str, measure: str, contender: str) -> Series | None:
        return self.series.get(Figure(part, measure, contender))

    def leave_out(self, what: str) -> None:
        if what not in self.left_out:
            self.left_out.append(what)


def ratios(one: Series, other: Series) -> list[float]:
    """One divided by the other, round by round: a machine that slows down slows both. Else median
    by median."""
    if len(one.values) == len(other.values):
        return [mine / theirs for mine, theirs in zip(one.values, other.values, strict=True)]
    return [one.median / other.median]
