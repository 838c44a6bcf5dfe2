"""What flowed when: one bucket a second for an hour, then one per ten seconds for a day. Pure.

A stretch that nobody watched is None, never zero.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tontine.records.states import JobState

FINE_KEPT, COARSE_KEPT = 3600, 86_400
COARSE = 10
_SLACK = 120

INCOMING, CLAIMED, RETRIED = "inserted", "claimed", "retried"
DONE, FAILED, CANCELLED = (
    state.value for state in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)
)
OUT = (DONE, FAILED, CANCELLED)
SAMPLED = frozenset({INCOMING, RETRIED, DONE, FAILED})
"""What nodes' own samples tell of times before the observer came."""


@dataclass(slots=True)
class Bucket:
    """What happened in one second or ten, and how many jobs were in each state at its end."""

    flow: dict[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] | None = None

    def add(self, other: Bucket) -> None:
        for kind, number in other.flow.items():
            self.flow[kind] = self.flow.get(kind, 0) + number
        self.counts = other.counts or self.counts


class Spans:
    """Stretches of time, joined where they touch."""

    def __init__(self) -> None:
        self.spans: list[list[float]] = []

    def add(self, start: float, end: float) -> None:
        touching = [span for span in self.spans if span[0] <= end and start <= span[1]]
        for span in touching:
            start, end = min(start, span[0]), max(end, span[1])
            self.spans.remove(span)
        self.spans.append([start, end])
        self.spans.sort()
        del self.spans[:-1000]

    def extend(self, at: float) -> None:
        """Make the last stretch reach to `at`."""
        if self.spans and at > self.spans[-1][1]:
            self.spans[-1][1] = at

    def cover(self, start: float, end: float) -> bool:
        """Whether any part of this stretch is covered."""
        place = bisect_right(self.spans, end, key=lambda span: span[0])
        return place > 0 and self.spans[place - 1][1] >= start

    @property
    def oldest(self) -> float | None:
        return self.spans[0][0] if self.spans else None


class Curves:
    """Flow and depth over time."""

    def __init__(self) -> None:
        self.watched = Spans()
        """When changes or counts came in."""
        self.sampled = Spans()
        """When nodes' samples tell what was settled."""
        self._fine: dict[int, Bucket] = {}
        self._coarse: dict[int, Bucket] = {}
        self._newest = (0, Bucket())

    def add(self, at: float, kind: str, number: float = 1) -> None:
        """Count something that happened."""
        flow = self._bucket(at).flow
        flow[kind] = flow.get(kind, 0) + number

    def level(self, at: float, counts: Mapping[str, int]) -> None:
        """Note how many jobs are in each state."""
        self._bucket(at).counts = counts

    def counts_at(self, at: float) -> Mapping[str, int] | None:
        """The last counts noted until `at`, looking back as far as a stretch without any may be."""
        second = int(at)
        for back in range(_SLACK):
            bucket = self._fine.get(second - back)
            if bucket is not None and bucket.counts is not None:
                return bucket.counts
        for back in range(_SLACK):
            bucket = self._coarse.get(second // COARSE - back)
            if bucket is not None and bucket.counts is not None:
                return bucket.counts
        return None

    def rate(self, kinds: Iterable[str], at: float, over: float = 10.0) -> float:
        """How many a second, over the whole seconds before `at`; less long when it was not watched
        that long."""
        first = self.watched.oldest
        end = int(at)
        start = max(end - int(over), int(first) if first is not None else end)
        if end <= start:
            return 0.0
        wanted = tuple(kinds)
        total = sum(
            bucket.flow.get(kind, 0)
            for second in range(start, end)
            if (bucket := self._fine.get(second)) is not None
            for kind in wanted
        )
        return total / (end - start)

    def flows(
        self, kinds: Iterable[str], start: float, step: float, columns: int
    ) -> tuple[float | None, ...]:
        """How many a second, column by column."""
        wanted = tuple(kinds)
        spans = [self.watched, self.sampled] if SAMPLED.intersection(wanted) else [self.watched]
        found: list[float | None] = []
        for column in range(columns):
            begin, end = start + column * step, start + (column + 1) * step
            if not any(span.cover(begin, end) for span in spans):
                found.append(None)
                continue
            total = sum(
                bucket.flow.get(kind, 0) for bucket in self._between(begin, end) for kind in wanted
            )
            found.append(total / step)
        return tuple(found)

    def depths(
        self, state: str, start: float, step: float, columns: int
    ) -> tuple[float | None, ...]:
        """How many jobs were in a state, column by column; a column without a count takes the one
        before."""
        found: list[float | None] = []
        last: float | None = None
        for column in range(columns):
            begin, end = start + column * step, start + (column + 1) * step
            if not self.watched.cover(begin, end) and not self.sampled.cover(begin, end):
                last = None
            for bucket in self._between(begin, end):
                if bucket.counts is not None:
                    last = float(bucket.counts.get(state, 0))
            found.append(last)
        return tuple(found)

    def _between(self, begin: float, end: float) -> Iterable[Bucket]:
        first, last = int(begin), max(int(begin) + 1, int(end))
        for coarse in range(first // COARSE, -(-last // COARSE)):
            if (bucket := self._coarse.get(coarse)) is not None and first <= coarse * COARSE < last:
                yield bucket
        for second in range(first, last):
            if (bucket := self._fine.get(second)) is not None:
                yield bucket

    def _bucket(self, at: float) -> Bucket:
        second = int(at)
        if second == self._newest[0]:
            return self._newest[1]
        bucket = self._fine.get(second)
        if bucket is None:
            bucket = self._fine[second] = Bucket()
            if len(self._fine) > FINE_KEPT + _SLACK:
                self._fold()
        self._newest = (second, bucket)
        return bucket

    def _fold(self) -> None:
        """Seconds that are more than an hour old become tens; tens that are more than a day old are
        forgotten."""
        newest = max(self._fine)
        for second in sorted(second for second in self._fine if second < newest - FINE_KEPT):
            self._coarse.setdefault(second // COARSE, Bucket()).add(self._fine.pop(second))
        for coarse in [coarse for coarse in self._coarse if coarse * COARSE < newest - COARSE_KEPT]:
            del self._coarse[coarse]
