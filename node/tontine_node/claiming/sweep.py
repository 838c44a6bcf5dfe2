"""The cursor of a node over its share: which seqs to look up next, and which it passed without
finding them."""

from __future__ import annotations

from collections.abc import Collection

from tontine.records.share import Share

HOLES_FOR = 60.0
HOLES_AT_MOST = 5000
LOOK_AGAIN_AT_MOST = 200
LOOK_AGAIN_EVERY = 0.2
STRIDE_AT_MOST = 512


class Sweep:
    """Walks a share from the lowest queued seq up to the counter (F4), and back to young holes (F5
    b)."""

    def __init__(self, share: Share, start: int, counter: int) -> None:
        self.share = share
        self.cursor = start
        self.counter = counter
        self._stride = 1
        self._holes: dict[int, float] = {}
        self._hints: set[int] = set()
        self._again_at = float("-inf")

    def copy_for(self, share: Share) -> Sweep:
        """The same place in the same share, of another epoch."""
        sweep = Sweep(share, self.cursor, self.counter)
        sweep._stride = self._stride
        sweep._holes, sweep._hints = dict(self._holes), set(self._hints)
        sweep._again_at = self._again_at
        return sweep

    @property
    def stride(self) -> int:
        """How many numbers to ask for at least."""
        return self._stride

    @property
    def is_exhausted(self) -> bool:
        """Whether the cursor has passed the last number given."""
        return self.share.first_from(self.cursor) > self.counter

    def hint(self, first: int, last: int) -> bool:
        """Jobs were inserted: look up those that the cursor has passed. Whether any of them is in
        the share."""
        mine = self.share.seqs(first, last, HOLES_AT_MOST)
        for seq in self.share.seqs(
            first, min(last, self.cursor - 1), HOLES_AT_MOST - len(self._hints)
        ):
            self._hints.add(seq)
        self.counter = max(self.counter, last)
        return bool(mine)

    def is_next(self, seq: int) -> bool:
        """Whether the cursor would not pass anything by going beyond it."""
        return self.share.owns(seq) and seq <= self.share.first_from(self.cursor)

    def is_missing(self, seq: int) -> bool:
        """Whether the cursor has passed it without finding it."""
        return seq in self._holes

    def plan(self, count: int, now: float) -> list[int]:
        """The next seqs to look up: what was missed before, then the share's next ones.

        After look-ups that found nothing it takes longer strides.
        """
        again = sorted(self._hints)[:LOOK_AGAIN_AT_MOST]
        if now - self._again_at >= LOOK_AGAIN_EVERY:
            self._again_at = now
            again += list(self._holes)[: LOOK_AGAIN_AT_MOST - len(again)]
        return [*again, *self.share.seqs(self.cursor, self.counter, max(count, self._stride))]

    def looked_up(
        self,
        planned: Collection[int],
        found: Collection[int],
        taken: Collection[int],
        now: float,
        foreign: Collection[int] = (),
    ) -> None:
        """Note what a look-up of `planned` found and what of it was taken; the cursor stops before
        what was left. Numbers of `foreign` jobs are no holes."""
        left = set(found) - set(taken)
        ahead = [seq for seq in planned if seq >= self.cursor]
        stop = min((seq for seq in left if seq >= self.cursor), default=None)
        passed = [seq for seq in ahead if stop is None or seq < stop]
        for seq in planned:
            self._hints.discard(seq)
            since = self._holes.pop(seq, now)
            if seq in foreign:
                continue
            if seq not in found and (seq < self.cursor or seq in passed):
                self._holes[seq] = since  # at the end: the next look takes others first
        if ahead:
            self._stride = 1 if found else min(self._stride * 4, STRIDE_AT_MOST)
            self.cursor = stop if stop is not None else ahead[-1] + 1
        self._hints |= {seq for seq in left if seq < self.cursor}
        self._forget(now)

    def jump(self, seq: int | None) -> None:
        """Go on at the lowest queued seq, or behind the counter when there is none."""
        self.cursor = max(self.cursor, seq if seq is not None else self.counter + 1)

    def go_back(self, seq: int) -> None:
        """Walk again from a seq that was found behind the cursor: more may have been passed with
        it."""
        self.cursor = min(self.cursor, seq)
        self._holes = {hole: since for hole, since in self._holes.items() if hole < seq}
        self._hints = {hint for hint in self._hints if hint < seq}

    def _forget(self, now: float) -> None:
        if self._holes:
            young = [(seq, since) for seq, since in self._holes.items() if now - since <= HOLES_FOR]
            self._holes = dict(young[-HOLES_AT_MOST:])
