"""When a node's offer changes (MO1): a crashing worker or a failover must not make epochs. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tontine.records.offer import ModuleOffer, Offer

LEAVES_AFTER = 5.0
"""Seconds without a ready worker, under a valid lease, after which a context leaves the offer."""
COUNTED_AT_ONCE = 3.0
"""Seconds between two looks that count at most: nobody looked in a longer one, so nobody knows."""
CHANGES_EVERY = 5.0
"""Seconds between two changes of an offer, unless something was dropped."""
LONGEST_PROOF = 60.0
"""Seconds of being ready that are enough after any pause."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a context serves at one moment."""

    context: str
    is_ready: bool
    modules: tuple[ModuleOffer, ...] = ()
    is_needed: bool = True
    """Whether there is anything that it is to load."""


@dataclass(slots=True)
class _Seen:
    """What is remembered of a context."""

    is_in: bool = False
    was_in: bool = False
    was_away: bool = False
    """Whether it had no ready worker at the last look."""
    away_for: float = 0.0
    """Seconds without a ready worker; under a valid lease, as long as it is in the offer."""
    ready_for: float = 0.0
    modules: tuple[ModuleOffer, ...] = ()


def _some_more(seconds: float) -> float:
    return seconds * random.uniform(1.0, 1.2)  # noqa: S311


class Offering:
    """One node's offer, looked at again and again."""

    def __init__(self, pause: Callable[[float], float] = _some_more) -> None:
        self.offer: Offer | None = None
        """What it is; None before the first look."""
        self._pause = pause
        self._seen: dict[str, _Seen] = {}
        self._looked_at: float | None = None
        self._had_lease = False
        self._next_at = float("-inf")

    def look(
        self,
        now: float,
        contexts: Sequence[Serving],
        dropped: Iterable[str] = (),
        *,
        has_lease: bool = True,
    ) -> Offer:
        """The offer from now on. `dropped` are modules that leave it at once."""
        passed = 0.0 if self._looked_at is None else max(0.0, now - self._looked_at)
        self._looked_at = now
        # A lease that is back tells nothing of the time without it, when the fence ends workers.
        is_leased = has_lease and self._had_lease
        self._had_lease = has_lease
        for context in contexts:
            self._see(context, passed, is_leased=is_leased)
        gone = set(dropped)
        wanted = Offer.of(
            module
            for one in self._seen.values()
            if one.is_in
            for module in one.modules
            if module.name not in gone
        )
        if self.offer is None:
            self.offer = wanted
        left = Offer.of(module for module in self.offer.modules if module.name not in gone)
        if left != self.offer:
            self.offer = left
        if wanted != self.offer and now >= self._next_at:
            self.offer = wanted
            self._next_at = now + self._pause(CHANGES_EVERY)
        return self.offer

    def _see(self, context: Serving, passed: float, *, is_leased: bool) -> None:
        """`is_leased`: the lease was valid at this look and at the last."""
        if not context.is_needed:  # that is no failure, after which it would have to prove itself
            self._seen.pop(context.context, None)
            return
        one = self._seen.setdefault(context.context, _Seen())
        if context.is_ready:
            one.modules = context.modules
            one.ready_for += passed
            if one.is_in or not one.was_in or one.ready_for >= min(one.away_for, LONGEST_PROOF):
                one.is_in = one.was_in = True
                one.away_for = 0.0
        else:
            one.ready_for = 0.0
            if not one.is_in:
                one.away_for += passed
            elif is_leased and one.was_away:
                one.away_for += min(passed, COUNTED_AT_ONCE)
            if one.away_for >= LEAVES_AFTER:
                one.is_in = False
        one.was_away = not context.is_ready
