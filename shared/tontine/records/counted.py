"""What tasks count and observe: of one job while it runs, and the sums of a node as its record
tells them. Pure."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError

Number = int | float

OF_A_JOB = 20
"""Names of one job."""
OF_A_NODE = 200
"""Names of all tasks of one node."""
LARGEST = 2**53
"""What is counted or observed at once: up to here a double is exact."""
_EXACT = 2**62
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

LOWEST, HIGHEST = -20, 50
"""The powers of two that have a bucket of their own; above the last there is one for the rest."""
NOT_POSITIVE = LOWEST - 1
"""The bucket of zero, and of what is less."""
BEYOND = HIGHEST + 1


def checked_name(name: object) -> str:
    """A name as it is given to `count` or `observe`; `ConfigError` if it can be none."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{str(name)[:60]!r} cannot name a counter: use a letter, then letters, digits and _ "
            "(lower case, 40 at most), like 'rows'"
        )
    return name


def checked_number(call: str, value: object, least: float = -LARGEST) -> Number:
    """A number as it is given to `count` or `observe`; `ConfigError` if it is none that can be
    added up."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_real or not least <= float(value) <= LARGEST:  # type: ignore[arg-type]
        fitting = "a number from 0" if least == 0 else "a number"
        raise ConfigError(f"{call} takes {fitting} up to 2**53, not {str(value)[:60]!r}")
    return int(value) if isinstance(value, numbers.Integral) else float(value)  # type: ignore[arg-type]


def added(one: Number, other: Number) -> Number:
    """A sum that MongoDB can store: exact as long as there is an integer that holds it."""
    total = one + other
    return total if abs(total) < _EXACT else float(total)


def bucket_of(value: float) -> int:
    """The power of two that a value does not exceed, and the one below it does."""
    if value <= 0:
        return NOT_POSITIVE
    fraction, exponent = math.frexp(value)
    exact = exponent - 1 if fraction == 0.5 else exponent
    return min(max(exact, LOWEST), BEYOND)


def upper_bound(bucket: int) -> float:
    """The largest value of a bucket."""
    if bucket <= NOT_POSITIVE:
        return 0.0
    return math.inf if bucket >= BEYOND else 2.0**bucket


@dataclass(slots=True)
class Observed:
    """Many values of one name, without any of them."""

    n: int = 0
    """How many there were."""
    sum: Number = 0
    """All of them together."""
    min: float = math.inf
    """The least."""
    max: float = -math.inf
    """The greatest."""
    buckets: dict[int, int] = field(default_factory=dict)
    """How many, by the power of two that they do not exceed."""

    def add(self, value: Number) -> None:
        self.n += 1
        self.sum = added(self.sum, value)
        self.min = min(self.min, value)
        self.max = max(self.max, value)
        bucket = bucket_of(value)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1

    def merge(self, other: Observed) -> None:
        self.n += other.n
        self.sum = added(self.sum, other.sum)
        self.min = min(self.min, other.min)
        self.max = max(self.max, other.max)
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    @property
    def mean(self) -> float:
        """What they are on average; 0 when there were none."""
        return self.sum / self.n if self.n else 0.0

    def to_document(self) -> dict[str, Any]:
        buckets = {str(bucket): self.buckets[bucket] for bucket in sorted(self.buckets)}
        return {
            "n": self.n,
            "sum": self.sum,
            "min": self.min,
            "max": self.max,
            "buckets": buckets,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Observed | None:
        """Tolerant: any driver may have written it. None when it tells of no value."""
        n, total = _count(document.get("n")), _number(document.get("sum"))
        low, high = _number(document.get("min")), _number(document.get("max"))
        if not n or total is None or low is None or high is None:
            return None
        told = document.get("buckets")
        buckets: dict[int, int] = {}
        for key, value in (told if isinstance(told, Mapping) else {}).items():
            if re.fullmatch(r"-?\d{1,3}", str(key)) and (count := _count(value)):
                bucket = min(max(int(key), NOT_POSITIVE), BEYOND)
                buckets[bucket] = buckets.get(bucket, 0) + count
        return cls(n, total, low, high, buckets)


@dataclass(slots=True)
class Noted:
    """What one job has counted and observed."""

    counts: dict[str, Number] = field(default_factory=dict)
    observed: dict[str, Observed] = field(default_factory=dict)
    dropped: int = 0
    """Calls for names beyond the limit."""

    def count(self, name: str, by: Number) -> None:
        if name in self.counts or self._has_room():
            self.counts[name] = added(self.counts.get(name, 0), by)

    def observe(self, name: str, value: Number) -> None:
        if name in self.observed or self._has_room():
            self.observed.setdefault(name, Observed()).add(value)

    def _has_room(self) -> bool:
        if len(self.counts) + len(self.observed) < OF_A_JOB:
            return True
        self.dropped += 1
        return False

    def to_row(self) -> list[Any]:
        """As a worker reports it."""
        observed = {name: one.to_document() for name, one in self.observed.items()}
        return [self.counts, observed, self.dropped]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Noted:
        counts, observed, dropped = row
        read = {name: Observed.from_document(one) for name, one in observed.items()}
        return cls(counts, {name: one for name, one in read.items() if one}, dropped)


@dataclass(frozen=True, slots=True)
class Stat:
    """A sum of one name over all jobs of a task: counted, or observed."""

    task: str
    name: str
    value: Number | Observed

    def to_document(self) -> dict[str, Any]:
        own = self.value.to_document() if isinstance(self.value, Observed) else None
        return {"task": self.task, "name": self.name, **(own or {"count": self.value})}


def stats_in(record: Mapping[str, Any]) -> list[Stat]:
    """The sums that a node's record tells; what is none is left out."""
    metrics = record.get("metrics")
    rows = metrics.get("stats") if isinstance(metrics, Mapping) else None
    read = (_stat(row) for row in rows) if isinstance(rows, list) else ()
    return [stat for stat in read if stat is not None]


def _stat(row: Any) -> Stat | None:
    if not isinstance(row, Mapping) or not isinstance(row.get("task"), str):
        return None
    if not isinstance(row.get("name"), str) or not _NAME.fullmatch(row["name"]):
        return None
    value = _number(row.get("count")) if "count" in row else Observed.from_document(row)
    return None if value is None else Stat(row["task"], row["name"], value)


def summed(stats: Iterable[Stat]) -> list[Stat]:
    """The sums over all of these, by task and name."""
    counts: dict[tuple[str, str], Number] = {}
    observed: dict[tuple[str, str], Observed] = {}
    for stat in stats:
        key = (stat.task, stat.name)
        if isinstance(stat.value, Observed):
            observed.setdefault(key, Observed()).merge(stat.value)
        else:
            counts[key] = added(counts.get(key, 0), stat.value)
    found = [
        *(Stat(*key, count) for key, count in counts.items()),
        *(Stat(*key, one) for key, one in observed.items()),
    ]
    return sorted(found, key=lambda one: (one.task, one.name, isinstance(one.value, Observed)))


def counts_in(value: Any) -> dict[str, Number]:
    """The field `counts` of a job."""
    if not isinstance(value, Mapping):
        return {}
    read = {str(name): _number(count) for name, count in value.items()}
    return {name: count for name, count in read.items() if count is not None}


def _number(value: Any) -> Number | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _count(value: Any) -> int:
    number = _number(value)
    return int(number) if number is not None and number > 0 else 0
