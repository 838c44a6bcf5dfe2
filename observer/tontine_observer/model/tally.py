"""Counting jobs: how many are in each state, and what flowed, from every change of a job. Pure.

A change of a job outside the window tells only what it became; what it was follows from the state
machine. The next count in the store puts right what that gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tontine.records.change import NEVER, Delta, DeltaKind, Version
from tontine.records.states import FINAL, JobState

from ..records.clean import Cleaner
from .curves import CLAIMED, INCOMING, RETRIED, Curves
from .jobs import JobMoved

QUEUED, WORKING = JobState.QUEUED.value, JobState.WORKING.value
_FINAL = {state.value for state in FINAL}
_KNOWN = [state.value for state in JobState]
_Move = tuple[Version, str | None, str | None]


class Tally:
    """The counts by state, and the curves."""

    def __init__(self, clean: Cleaner) -> None:
        self.counts: dict[str, int] = dict.fromkeys(_KNOWN, 0)
        self.curves = Curves()
        self.is_counted = False
        """Whether finished jobs were counted at least once."""
        self.unknown = 0
        self._clean = clean
        self._as_of: dict[str, Version] = {}
        """When each state was counted last."""
        self._noted = NEVER
        self._second = 0
        self._moves: list[_Move] | None = None

    @contextmanager
    def counting(self) -> Iterator[Callable[[Mapping[str, int], Version, float], None]]:
        """While somebody counts as of a moment from now on; what it yields takes the counts, and
        what changed since."""
        moves: list[_Move] = []
        self._moves = moves

        def take(counts: Mapping[str, int], version: Version, at: float) -> None:
            self.correct(counts, version, at)
            for moved_at, before, after in moves if version != NEVER else ():
                self._move(
                    moved_at,
                    before if before in counts else None,
                    after if after in counts else None,
                )

        try:
            yield take
        finally:
            self._moves = None

    def correct(self, counts: Mapping[str, int], version: Version, at: float) -> None:
        """Take over what was counted in the store; states that were not counted stay."""
        self._begin(at)
        self.counts |= {self._clean.name(state): number for state, number in counts.items()}
        self._as_of |= dict.fromkeys(map(self._clean.name, counts), version)
        self.is_counted = self.is_counted or counts.keys() >= _FINAL

    def estimate(self, at: float, given: int, done: int, failed: int, working: int) -> None:
        """Go on from the last count by what came and went since: good until the next one."""
        self._begin(at)
        counts = self.counts
        unfinished = max(0, counts[QUEUED] + counts[WORKING] + given - done - failed)
        counts[WORKING] = min(working, unfinished)
        counts[QUEUED] = unfinished - counts[WORKING]
        counts[JobState.DONE.value] += done
        counts[JobState.FAILED.value] += failed

    def _begin(self, at: float) -> None:
        """The counts of a second are those at its end: shared while it lasts, copied when it is
        over."""
        if int(at) != self._second:
            if self._second:
                self.curves.level(self._second, dict(self.counts))
            self._second = int(at)
            self.curves.level(at, self.counts)

    def note(self, delta: Delta, moved: JobMoved | None) -> None:
        """Count one change of a job; `moved` is what the window knows of it."""
        if delta.version <= self._noted:
            return  # a stream that went on from an earlier place repeats itself
        self._noted = delta.version
        before, after = self._states(delta, moved)
        if before == after:
            return
        self._begin(delta.at)
        if self._moves is not None:
            self._moves.append((delta.version, before, after))
        self._move(delta.version, before, after)
        if kind := _flow(before, after):
            self.curves.add(delta.at, kind)
        if after is not None and after not in _KNOWN:
            self.unknown += 1

    def recall(self, delta: Delta) -> None:
        """Count what flowed before the first look; how many jobs there were then is not known."""
        before, after = self._states(delta, None)
        if before != after and (kind := _flow(before, after)):
            self.curves.add(delta.at, kind)

    def _states(self, delta: Delta, moved: JobMoved | None) -> tuple[str | None, str | None]:
        """What the job was and became; None is no job, and both the same when its state did not
        change."""
        if moved is not None:
            return (
                moved.before.state if moved.before else None,
                moved.after.state if moved.after else None,
            )
        if delta.kind is DeltaKind.INSERTED:
            return None, self._clean.name(delta.fields.get("state") or QUEUED)
        if delta.kind is DeltaKind.GONE:
            return JobState.DONE.value, None  # what retention removes is finished, and mostly done
        if "state" not in delta.fields:
            return None, None
        after = self._clean.name(delta.fields["state"])
        if "seq" in delta.fields and not delta.is_whole:  # it was numbered
            return QUEUED, after
        return (QUEUED if after == WORKING else WORKING), after

    def _move(self, version: Version, before: str | None, after: str | None) -> None:
        """From one state to the other, as far as their counts do not know of it yet."""
        for state, change in ((before, -1), (after, 1)):
            if state is not None and version > self._as_of.get(state, NEVER):
                self.counts[state] = max(0, self.counts.get(state, 0) + change)


def _flow(before: str | None, after: str | None) -> str | None:
    """What a change of state counts as."""
    if before is None:
        return INCOMING
    if after == WORKING:
        return CLAIMED
    if after == QUEUED:
        return RETRIED
    return after if after in _FINAL else None
