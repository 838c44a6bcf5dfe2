"""Task keys of which a node has the same share, and how far it has looked through their fresh
jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tontine.records.share import Part, Share

from .sweep import Sweep

BEHIND_SOON, BEHIND_EVERY = 1.0, 60.0
AWAITED_AT_MOST = 64
AWAITED_FOR = 0.05
"""Seconds from the first look that missed an announced job to the one after which it is taken for
another's: the look 100 ms after its ring."""


class Lane:
    """Dense: most numbers of its share are its own jobs, and it asks for the numbers. Sparse: few
    are, and it asks for the tasks (MS4)."""

    def __init__(self, keys: frozenset[str], sweep: Sweep) -> None:
        self.keys = keys
        self.sweep = sweep
        self.is_sparse = False
        self._is_at_end = False
        """Whether its last sparse look found less than it asked for."""
        self._is_rung = False
        """Whether there has been a ring since."""
        self._looked_to = -1
        self._awaited: dict[int, float | None] = {}
        """What was announced and not found yet, and when a look missed it first."""
        self._asked = 0
        self._found = 0
        self._is_judged = False
        """Whether enough was asked for to tell how dense it is."""
        self._behind_at = float("-inf")
        self._behind_for = BEHIND_SOON

    @property
    def share(self) -> Share:
        return self.sweep.share

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing of it is known to wait."""
        if self.is_sparse:
            return self._is_at_end and not self._is_rung
        return self.sweep.is_exhausted

    def copy_for(self, keys: frozenset[str], share: Share) -> Lane:
        """The same place for some of its keys, of which the node has the same share as before."""
        lane = Lane(keys, self.sweep.copy_for(share))
        lane.is_sparse = self.is_sparse
        lane._is_at_end, lane._looked_to = self._is_at_end, self._looked_to
        lane._is_rung = self._is_rung
        lane._awaited = dict(self._awaited)
        lane._is_judged = self._is_judged
        lane._behind_at, lane._behind_for = self._behind_at, self._behind_for
        return lane

    # What is heard

    def hint(self, first: int, last: int, *, is_fresh: bool) -> bool:
        """Jobs were inserted, or are there again; whether any number of them is its own."""
        mine = self.share.seqs(first, last, AWAITED_AT_MOST)
        if not is_fresh or not mine:
            return bool(mine)
        if self.is_sparse:
            self._is_rung = True
            for seq in list(mine)[: AWAITED_AT_MOST - len(self._awaited)]:
                self._awaited.setdefault(seq)
            return True
        return self.sweep.hint(first, last)

    def is_missing(self, seq: int) -> bool:
        """Whether it was announced, looked for and not found."""
        return seq in self._awaited if self.is_sparse else self.sweep.is_missing(seq)

    def may_take(self, seq: int) -> bool:
        """Whether a job that was announced may be claimed at once: nothing is known before it."""
        if self.is_sparse:
            return self._is_at_end and self._awaited.keys() == {seq}
        return self.sweep.is_next(seq)

    def asked_for(self, seq: int, *, is_taken: bool, now: float) -> None:
        """An announced job was claimed, or is not there yet."""
        found = [seq] if is_taken else []
        if not self.is_sparse:
            self.sweep.looked_up([seq], found, found, now)
        elif is_taken:
            self._awaited.pop(seq, None)
            self._is_rung = bool(self._awaited)

    # Dense looks

    def counted(self, counter: int) -> None:
        """So many numbers have been given."""
        self.sweep.counter = max(self.sweep.counter, counter)

    def numbers_at_once(self, room: int, *, is_mixed: bool) -> int:
        """How many numbers to ask for: few, as long as most of them may be jobs of others."""
        return min(room, 2 * self.share.size) if is_mixed and not self._is_judged else room

    def became_thin(self, asked: int, found: int) -> bool:
        """Whether of the last numbers that it asked for too few were its own jobs."""
        self._asked += asked
        self._found += found
        if self._asked < 2 * self.share.size:
            return False
        is_thin = self._found * self.share.size < self._asked
        self._asked = self._found = 0
        self._is_judged = True
        return is_thin

    def spread(self) -> None:
        """Ask for tasks from now on."""
        self.is_sparse = True
        self._is_at_end = self._is_rung = False
        self._awaited.clear()

    # Sparse looks

    def is_to_look(self, counter: int) -> bool:
        """Whether there may be something that it has not seen: it was told so, or numbers were
        given since."""
        return not self.is_exhausted or counter > self._looked_to

    def look(self, counter: int, counter_before: int) -> Part:
        """What to ask for: also numbers behind the cursor, as far as their jobs may come late. What
        was taken is in no index any more, so that costs nothing (MS4a)."""
        self._is_rung, self._looked_to = False, counter
        return Part(tuple(sorted(self.keys)), self.share, min(self.sweep.cursor, counter_before))

    def looked(
        self,
        found: Sequence[int],
        taken: Collection[int],
        known_to: int | None,
        counter: int,
        now: float,
    ) -> None:
        """Note what a sparse look found, up to `known_to` if there may be more behind; the cursor
        stops before what was left."""
        left = [seq for seq in found if seq not in taken]
        self._awaited = {
            seq: missed_at if known_to is not None and seq > known_to else missed_at or now
            for seq, missed_at in self._awaited.items()
            if seq not in found and (missed_at is None or now - missed_at < AWAITED_FOR)
        }
        self._is_at_end = known_to is None and not left
        last = max(counter, *found) if found else counter
        self.sweep.cursor = min(left) if left else (last if known_to is None else known_to) + 1

    def is_dense(self, found: Sequence[int]) -> bool:
        """Whether what was found lies so close together that asking for numbers finds more."""
        return len(found) > 1 and (max(found) - min(found) < 2 * self.share.size * (len(found) - 1))

    def gather(self, now: float) -> None:
        """Ask for numbers from now on."""
        self.is_sparse = False
        self._asked = self._found = 0
        self.passed_by(now)

    # What was passed

    def passed_by(self, now: float) -> None:
        """The cursor was moved without looking: look behind it soon."""
        self._behind_for = BEHIND_SOON
        self._behind_at = min(self._behind_at, now + BEHIND_SOON)

    def is_to_look_behind(self, now: float) -> bool:
        """Once a minute, and 1, 4, 16 and 60 s after something may have been passed (F4, F5 c);
        asking counts as looking."""
        if now < self._behind_at:
            return False
        self._behind_at = now + self._behind_for
        self._behind_for = min(self._behind_for * 4, BEHIND_EVERY)
        return True

    def go_back(self, seq: int) -> None:
        """Something was found behind the cursor."""
        self.sweep.go_back(seq)
        self._is_at_end = False
